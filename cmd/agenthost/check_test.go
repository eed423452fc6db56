package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A signal ends check also while it waits for a file that never comes: here a policy
// that is a pipe, on whose other end nobody writes.
func TestCheckEndsWithASignal(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			pipe := filepath.Join(t.TempDir(), "policy.yaml")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Skipf("no pipes here: %v", err)
			}
			var problems bytes.Buffer
			cmd := exec.CommandContext(t.Context(), "agenthost", "check", appsDir, "--policy", pipe)
			cmd.Stderr, cmd.WaitDelay = &problems, time.Second
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			other, err := os.OpenFile(pipe, os.O_WRONLY, 0) // as soon as check reads
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			var failure *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &failure) || failure.ExitCode() != exitFail {
				t.Errorf("check ended: %v", err)
			}
			if got, want := problems.String(), "agenthost: stopped by a signal before all was checked\n"; got != want {
				t.Errorf("check says %q, want %q", got, want)
			}
		})
	}
}
