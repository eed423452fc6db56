package mcptool

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/internal/safe"
)

// A programTransport starts a program and connects to its standard input and output.
type programTransport struct {
	command *exec.Cmd
	filter  *messageFilter
}

// Connect implements [mcp.Transport].
func (t *programTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	output, err := t.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	input, err := t.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := t.command.Start(); err != nil {
		return nil, err
	}
	way := &mcp.IOTransport{
		Reader: io.NopCloser(newLineReader(output, t.filter)),
		Writer: &programInput{WriteCloser: input, command: t.command, filter: t.filter},
		// lineReader bounds lines, and the wrapped ones are longer.
		MaxLineLength: -1,
	}
	return way.Connect(ctx)
}

// A programInput is a program's standard input; closing it stops the program.
type programInput struct {
	io.WriteCloser
	command *exec.Cmd
	filter  *messageFilter
	stop    sync.Once
}

// Write implements [io.Writer]. The library writes one message at a time.
func (i *programInput) Write(p []byte) (int, error) {
	_, response := i.filter.recordMessage(p)
	n, err := i.WriteCloser.Write(p)
	i.filter.guard.closeRequest(response)
	if errors.Is(err, syscall.EPIPE) {
		err = io.EOF // as the library reports for the output of an exited program
	}
	return n, err
}

// Close closes the input and waits until the program has exited. After terminateGrace it gets
// SIGTERM, and after the same time again SIGKILL (MCP, lifecycle, shutdown).
func (i *programInput) Close() (err error) {
	i.stop.Do(func() { err = i.stopProgram() })
	return err
}

func (i *programInput) stopProgram() error {
	closeErr := i.WriteCloser.Close()
	exited := make(chan error, 1)
	go func() {
		defer safe.Recover(func(p *safe.Panic) { p.Log(i.filter.logger, "waiting for an MCP server panicked") })
		exited <- i.command.Wait()
	}()
	for _, kill := range []func() error{
		func() error { return i.command.Process.Signal(syscall.SIGTERM) },
		i.command.Process.Kill,
	} {
		select {
		case err := <-exited:
			return errors.Join(closeErr, err)
		case <-time.After(terminateGrace):
		}
		_ = kill() // it may have exited
	}
	return errors.Join(closeErr, <-exited)
}

// terminateGrace is how long a program may take to exit by itself, and again
// after SIGTERM.
const terminateGrace = 2 * time.Second
