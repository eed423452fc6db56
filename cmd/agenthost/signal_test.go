package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"agenthost/internal/command"
)

// A signal stops every verb, even while it reads a file that blocks: a policy that is a
// pipe without a writer.
func TestVerbsStopOnSignal(t *testing.T) {
	app, err := filepath.Abs(filepath.Join(appsDir, "hello"))
	if err != nil {
		t.Fatal(err)
	}
	var all []*blockedVerb
	for _, args := range [][]string{
		{"check", app},
		{"config", app},
		{"export", app, "--adk", "out"},
		{"plan", app, "--session-db", "sqlite:///plan.db"},
		{"preview", app, "hi"},
		{"run", app, "hi"},
		{"serve", app, "--addr", "127.0.0.1:0", "--drain", "0s"},
		{"test", app},
	} {
		all = append(all, interruptVerb(t, os.Interrupt, args), interruptVerb(t, syscall.SIGTERM, args))
	}
	for _, s := range all { // they stop in parallel, because each has a timeout
		err := s.cmd.Wait()
		var failure *exec.ExitError
		if !errors.As(err, &failure) || failure.ExitCode() != command.ExitFailure {
			t.Errorf("%s exited: %v", s.cmd.Args[1], err)
		}
		if got, want := s.problems.String(), "agenthost: stopped by a signal while waiting for a file or another program\n"; got != want {
			t.Errorf("%s prints %q, want %q", s.cmd.Args[1], got, want)
		}
	}
}

// blockedVerb is a verb that is blocked on a file.
type blockedVerb struct {
	cmd      *exec.Cmd
	problems bytes.Buffer
}

// interruptVerb starts a verb, and sends it a signal as soon as it is blocked.
func interruptVerb(t *testing.T, signal os.Signal, args []string) *blockedVerb {
	t.Helper()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "policy.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skipf("named pipes are not available: %v", err)
	}
	s := &blockedVerb{cmd: exec.CommandContext(t.Context(), "agenthost", slices.Concat(args, []string{"--policy", pipe})...)}
	s.cmd.Dir, s.cmd.Stderr, s.cmd.WaitDelay = dir, &s.problems, time.Second
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pipeWriter, err := os.OpenFile(pipe, os.O_WRONLY, 0) // blocks until the verb opens it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pipeWriter.Close() })
	if err := s.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	return s
}
