//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"agenthost/internal/safe"
)

// stopGrace is how long the helper may take to kill the program and to exit.
const stopGrace = 5 * time.Second

// RunProgram runs a program and waits until all processes that it started have ended. The helper is
// the command that starts [ServeHelper], with its arguments. If ctx ends, the processes are killed,
// and the error is its cause. Any other error means that the program did not run.
func RunProgram(ctx context.Context, helper []string, p *Program) (*Result, error) {
	if p.Limits != nil {
		if err := Available(); err != nil {
			return nil, err
		}
	}
	pipes, err := openPipes()
	if err != nil {
		return nil, err
	}
	defer pipes.closeAll()
	stdout, stderr := &cappedBuffer{max: p.MaxOutput}, &cappedBuffer{max: p.MaxOutput}
	cmd := exec.Command(helper[0], helper[1:]...)
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(p.Stdin), stdout, stderr
	cmd.ExtraFiles = []*os.File{pipes.orders[0], pipes.report[1]}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = stopGrace
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the program helper: %w", err)
	}
	pipes.closeChildEnds()
	stop := context.AfterFunc(ctx, func() {
		defer safe.Recover(func(*safe.Panic) { _ = cmd.Process.Kill() })
		pipes.closeOrders()
		time.Sleep(stopGrace)
		_ = cmd.Process.Kill() // an error if the helper has exited
	})
	defer stop()
	sendErr := pipes.sendOrders(p)
	got, readErr := io.ReadAll(io.LimitReader(pipes.report[0], 1<<16))
	waitErr := cmd.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	var s status
	if err := json.Unmarshal(got, &s); err != nil {
		return nil, fmt.Errorf("the program helper failed: %w", errors.Join(sendErr, readErr, waitErr, err))
	}
	if s.Error != "" {
		return nil, errors.New(s.Error)
	}
	return &Result{
		Stdout: stdout.kept, Stderr: stderr.kept, StdoutDropped: stdout.dropped, StderrDropped: stderr.dropped,
		Exit: s.Exit, MemoryExceeded: s.MemoryExceeded,
	}, nil
}

// A pipeSet has the pipes between host and helper: orders carries the program and stays
// open as long as it may run, report carries the status.
type pipeSet struct {
	orders, report [2]*os.File
	once           sync.Once
}

func openPipes() (*pipeSet, error) {
	p := &pipeSet{}
	var err error
	if p.orders[0], p.orders[1], err = os.Pipe(); err != nil {
		return nil, err
	}
	if p.report[0], p.report[1], err = os.Pipe(); err != nil {
		p.closeOrders()
		p.orders[0].Close()
		return nil, err
	}
	return p, nil
}

// sendOrders writes the program; the pipe may be closed concurrently.
func (p *pipeSet) sendOrders(program *Program) error {
	raw, err := json.Marshal(program)
	if err != nil {
		return err
	}
	_, err = p.orders[1].Write(append(raw, '\n'))
	return err
}

func (p *pipeSet) closeOrders() { p.once.Do(func() { p.orders[1].Close() }) }

func (p *pipeSet) closeChildEnds() {
	p.orders[0].Close()
	p.report[1].Close()
}

func (p *pipeSet) closeAll() {
	p.closeChildEnds()
	p.closeOrders()
	p.report[0].Close()
}

// A cappedBuffer keeps the first max bytes that one goroutine writes.
type cappedBuffer struct {
	max     int
	kept    []byte
	dropped int64
}

// Write implements [io.Writer], and never fails: the program must not block.
func (b *cappedBuffer) Write(p []byte) (int, error) {
	n := min(len(p), b.max-len(b.kept))
	b.kept = append(b.kept, p[:n]...)
	b.dropped += int64(len(p) - n)
	return len(p), nil
}

// ServeHelper serves the hidden command in a program that uses [RunProgram], and exits. It returns
// at once for any other command line, without its name. Call it first in main.
func ServeHelper(args []string) {
	if len(args) == 0 || args[0] != HelperCommand {
		return
	}
	defer safe.Recover(func(*safe.Panic) { os.Exit(helperFailed) })
	if len(args) == 2 && args[1] == confineCommand {
		confineAndExecute()
	}
	superviseProgram()
	os.Exit(0)
}
