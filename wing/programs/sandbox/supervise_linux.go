//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agenthost/internal/safe"
)

// superviseProgram runs the ordered program, and reports how it ended.
func superviseProgram() {
	report := os.NewFile(reportFD, "report")
	s, err := superviseOrders(os.NewFile(ordersFD, "orders"))
	if err != nil {
		s.Error = err.Error()
	}
	_ = json.NewEncoder(report).Encode(s) // without a reader, the host has died
}

func superviseOrders(orders *os.File) (s status, err error) {
	// The host may have inherited descriptors from its own parent.
	if err := unix.CloseRange(ordersFD, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return s, fmt.Errorf("closing descriptors: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return s, fmt.Errorf("supervising the program: %w", err)
	}
	dec := json.NewDecoder(orders)
	var p Program
	if err := dec.Decode(&p); err != nil {
		return s, fmt.Errorf("reading the program: %w", err)
	}
	cmd, failure, err := startProgram(&p)
	if err != nil {
		return s, err
	}
	w := &watcher{}
	defer w.stopped.Store(true)
	go w.awaitHost(io.MultiReader(dec.Buffered(), orders))
	if p.Limits != nil && p.Limits.Memory > 0 && p.Limits.Group == "" {
		go w.watchMemory(newMemoryMeter(p.Limits.Network), p.Limits.Memory)
	}
	setupError, _ := io.ReadAll(io.LimitReader(failure, 1<<12)) // ends when the program begins
	err = cmd.Wait()
	w.stopped.Store(true)
	killDescendants()
	reapChildren()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return s, err
	}
	if len(setupError) > 0 {
		return s, errors.New(string(setupError))
	}
	s.Exit, s.MemoryExceeded = exitCode(cmd.ProcessState), w.memoryExceeded.Load()
	if p.Limits != nil && p.Limits.Group != "" {
		s.MemoryExceeded = countKills(p.Limits.Group) > 0
	}
	return s, nil
}

// startProgram starts the program, or the helper that restricts itself and then executes it. The
// reader has that helper's error.
func startProgram(p *Program) (*exec.Cmd, io.Reader, error) {
	cmd := &exec.Cmd{Path: p.Path, Args: p.Args, Env: p.Env, Dir: p.Dir, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if cmd.Env == nil {
		cmd.Env = []string{} // nil would be this process's environment
	}
	if p.Limits != nil {
		return startConfined(cmd, p)
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("starting the program: %w", errors.Unwrap(err))
	}
	closeFiles(os.Stdin, os.Stdout, os.Stderr)
	return cmd, bytes.NewReader(nil), nil
}

func startConfined(cmd *exec.Cmd, p *Program) (*exec.Cmd, io.Reader, error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, nil, err
	}
	in, orders, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer orders.Close()
	failure, out, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	cmd.Path, cmd.Args, cmd.Env, cmd.Dir = "/proc/self/exe", []string{os.Args[0], HelperCommand, confineCommand}, []string{}, "/"
	cmd.ExtraFiles = []*os.File{in, out}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("starting the program helper: %w", err)
	}
	closeFiles(in, out, os.Stdin, os.Stdout, os.Stderr)
	_, err = orders.Write(raw)
	return cmd, failure, err
}

func closeFiles(files ...*os.File) {
	for _, f := range files {
		f.Close()
	}
}

func exitCode(state *os.ProcessState) int {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}

// A watcher kills the program when its time has come.
type watcher struct{ stopped, memoryExceeded atomic.Bool }

// awaitHost kills the program when the host closes its pipe end, or dies.
func (w *watcher) awaitHost(orders io.Reader) {
	defer safe.Recover(func(*safe.Panic) { os.Exit(helperFailed) })
	_, _ = io.Copy(io.Discard, orders)
	for !w.stopped.Load() {
		killDescendants()
		time.Sleep(10 * time.Millisecond)
	}
}

// reapChildren waits for all processes, which have been killed, and kills those that they
// started meanwhile.
func reapChildren() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil: // no children are left
			return
		case pid == 0:
			killDescendants()
			time.Sleep(time.Millisecond)
		}
	}
}

// watchMemory kills the program when all its processes together exceed the limit.
func (w *watcher) watchMemory(m *memoryMeter, limit int64) {
	defer safe.Recover(func(*safe.Panic) { os.Exit(helperFailed) })
	for !w.stopped.Load() {
		began := time.Now()
		if m.measureMemory() > limit {
			w.memoryExceeded.Store(true)
			killDescendants()
		}
		time.Sleep(pauseAfter(time.Since(began)))
	}
}
