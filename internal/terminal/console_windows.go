package terminal

import (
	"os"

	"golang.org/x/sys/windows"
)

// enableSequences makes a console interpret control sequences. It reports whether the console can:
// Windows can since version 10.
func enableSequences(file *os.File) bool {
	console, mode := windows.Handle(file.Fd()), uint32(0)
	if err := windows.GetConsoleMode(console, &mode); err != nil {
		return false
	}
	return windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
