package sqlstore

import (
	"io"
	"os"
	"syscall"
)

// Open file description locks distinguish two stores in one process
// (https://man7.org/linux/man-pages/man2/F_OFD_SETLK.2const.html).
const (
	fcntlGetLock = 36 // F_OFD_GETLK
	fcntlSetLock = 37 // F_OFD_SETLK
)

func lockByte(f *os.File, place int64) error {
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: place, Len: 1}
	return syscall.FcntlFlock(f.Fd(), fcntlSetLock, &lock)
}

// isUnlocked reports whether no other process has locked the byte.
func isUnlocked(f *os.File, place int64) bool {
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: place, Len: 1}
	err := syscall.FcntlFlock(f.Fd(), fcntlGetLock, &lock)
	return err == nil && lock.Type == syscall.F_UNLCK
}
