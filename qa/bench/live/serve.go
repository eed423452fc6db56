package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// serveVerb makes the program a server process. It prints its address, prints its usage for every
// input line, and exits when the input ends.
const serveVerb = "serve"

// A serverConfig configures a server process.
type serverConfig struct {
	// Side is a side's name, or fake.
	Side string `json:"side"`
	// Fake is the fake Live API's address.
	Fake string `json:"fake"`
	// Profile is the file for a CPU profile; empty means none.
	Profile string `json:"profile"`
}

// usage is a process's resource usage: its processor time, and its resident memory in bytes.
type usage struct {
	CPU    time.Duration `json:"cpu"`
	Memory int64         `json:"memory"`
}

func serveProcess(ctx context.Context, text string, in io.Reader, out io.Writer) error {
	at := &serverConfig{}
	if err := json.Unmarshal([]byte(text), at); err != nil {
		return err
	}
	if at.Profile != "" {
		f, err := os.Create(at.Profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	handler, err := openSide(ctx, at)
	if err != nil {
		return fmt.Errorf("opening %s: %w", at.Side, err)
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	web := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	err = json.NewEncoder(out).Encode(listener.Addr().String())
	for lines := bufio.NewScanner(in); err == nil && lines.Scan(); {
		var u usage
		if u, err = processUsage(); err == nil {
			err = json.NewEncoder(out).Encode(u)
		}
	}
	err = errors.Join(err, web.Close())
	<-served
	return err
}

func openSide(ctx context.Context, at *serverConfig) (http.Handler, error) {
	switch at.Side {
	case fakeName:
		return http.HandlerFunc(serveFake), nil
	case relayName:
		return &relay{at.Fake}, nil
	case oursName:
		return openAgenthost(ctx, at)
	case theirsName:
		return openADKGo(ctx, at)
	}
	return nil, fmt.Errorf("unknown side %q", at.Side)
}

// processUsage returns this process's usage.
func processUsage() (usage, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return usage{}, err
	}
	u := usage{CPU: time.Duration(r.Utime.Nano() + r.Stime.Nano())}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return usage{}, err
	}
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kb), "kB")), 10, 64)
			u.Memory = n << 10
			return u, err
		}
	}
	return u, errors.New("no VmRSS in /proc/self/status")
}

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
	p.cmd.Env = append(os.Environ(), "GOOGLE_API_KEY=bench", "GOOGLE_GEMINI_BASE_URL=", "GOOGLE_GENAI_USE_VERTEXAI=")
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
		return nil, errors.Join(fmt.Errorf("starting %s: %w", at.Side, err), p.stop())
	}
	return p, nil
}

// readUsage reads the process's usage.
func (p *process) readUsage() (u usage, err error) {
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		return u, err
	}
	return u, p.out.Decode(&u)
}

// stop stops the process.
func (p *process) stop() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }
