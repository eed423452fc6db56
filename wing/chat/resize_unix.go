//go:build !windows

package chat

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyResize returns a channel that receives a value when the terminal's size changes.
func notifyResize() (resized <-chan os.Signal, end func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGWINCH)
	return c, func() { signal.Stop(c) }
}

// suspendProcess stops the process until its shell continues it.
func suspendProcess() { _ = syscall.Kill(syscall.Getpid(), syscall.SIGTSTP) }
