//go:build !windows

package chat

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// notifyResize returns a channel that receives a value when the terminal's size changes.
func notifyResize() (resized <-chan os.Signal, end func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGWINCH)
	return c, func() { signal.Stop(c) }
}

// maxSuspendDelay is how long the system may take to stop the process. It does not stop one that has
// no shell.
const maxSuspendDelay = time.Second

// suspendProcess stops the process until its shell continues it.
func suspendProcess() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGTSTP) // without it, the conversation continues
	select {
	case <-continued: // the process may stop only after Kill has returned
	case <-time.After(maxSuspendDelay):
	}
}
