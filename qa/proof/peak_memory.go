package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// measureMode is the child that runs a program and reports its peak memory.
const measureMode = "measure"

// runMeasured runs a program and returns its peak memory. A child starts the program, because a
// process's peak memory includes its parent's before exec.
func (l *lab) runMeasured(ctx context.Context, out io.Writer, args ...string) (peak int64, err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer read.Close()
	cmd := exec.CommandContext(ctx, l.self, append([]string{"child", measureMode}, args...)...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = out, out, []*os.File{write}
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, 5*time.Second
	err = cmd.Start()
	write.Close()
	if err != nil {
		return 0, err
	}
	_, scanErr := fmt.Fscan(read, &peak) // a number is smaller than the pipe
	err = cmd.Wait()
	if scanErr != nil {
		return 0, errors.Join(fmt.Errorf("reading the peak memory of %s: %w", args[0], scanErr), err)
	}
	return peak, err
}

// measureProgram runs a program, writes its peak memory to file 3, and returns its exit status.
func measureProgram(ctx context.Context, args []string) int {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); cmd.ProcessState == nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		fmt.Fprintln(os.Stderr, "child: the system reports no memory of a process")
		return 1
	}
	fmt.Fprintln(os.NewFile(3, "peak"), usage.Maxrss<<10)
	return cmd.ProcessState.ExitCode()
}
