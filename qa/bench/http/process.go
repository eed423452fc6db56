package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// A process is this program running as a server.
type process struct {
	addr string

	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// startProcess starts a server process and waits until it listens.
func startProcess(ctx context.Context, at *serverConfig) (*process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(at)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, exe, serveVerb, string(text))}
	p.cmd.Stderr = os.Stderr
	p.cmd.WaitDelay = 10 * time.Second
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = json.NewDecoder(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if err := p.out.Decode(&p.addr); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the server of %s: %w", at.Side, err), p.stop())
	}
	return p, nil
}

// readUsage reads the process's resource usage.
func (p *process) readUsage() (u usage, err error) {
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		return u, err
	}
	return u, p.out.Decode(&u)
}

// stop stops the process.
func (p *process) stop() error {
	return errors.Join(p.in.Close(), p.cmd.Wait())
}
