//go:build unix

package programs

import (
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const lockFile = ".lock"

// lockFolder marks a folder as in use until this process ends.
func lockFolder(dir string) error {
	fd, err := syscall.Open(filepath.Join(dir, lockFile), syscall.O_CREAT|syscall.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return syscall.Flock(fd, syscall.LOCK_EX) // the descriptor stays open
}

// isAbandoned reports whether the process that locked one of this user's folders has ended.
func isAbandoned(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || time.Since(info.ModTime()) < time.Minute {
		return false
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Geteuid() {
		return false
	}
	fd, err := syscall.Open(filepath.Join(dir, lockFile), syscall.O_RDWR|syscall.O_CLOEXEC|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	return syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
