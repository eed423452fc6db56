//go:build !linux

package doctor

// networkFileSystem is known on Linux only.
func networkFileSystem(string) string { return "" }

// openFiles is known on Linux only.
func openFiles() (n uint64, ok bool) { return 0, false }

// freeDisk is known on Linux only.
func freeDisk(string) (free uint64, ok bool) { return 0, false }
