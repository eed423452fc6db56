package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "child" {
		os.Exit(runCommand(context.Background(), os.Args[1:]))
	}
	os.Exit(m.Run())
}

// TestPeakMemoryOfLargeParent: a program's peak memory does not include that of the process that
// measures it. The control starts the program directly.
func TestPeakMemoryOfLargeParent(t *testing.T) {
	ballast := make([]byte, 256<<20)
	for i := range ballast {
		ballast[i] = byte(i)
	}
	l := &lab{self: os.Args[0]}
	peak, err := l.runMeasured(t.Context(), io.Discard, "true")
	if err != nil || peak <= 0 || peak > 128<<20 {
		t.Errorf("runMeasured = %d MiB, %v, want less than 128 MiB", peak>>20, err)
	}
	cmd := exec.CommandContext(t.Context(), "true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if control := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10; control < 256<<20 {
		t.Errorf("control: %d MiB, want the memory of the parent", control>>20)
	}
	if ballast[1] != 1 {
		t.Error("the memory was not held")
	}
}
