//go:build !windows

package terminal

import "os"

// enableSequences reports whether the terminal interprets control sequences.
func enableSequences(*os.File) bool { return true }
