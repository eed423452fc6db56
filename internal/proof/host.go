package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// waitLimit bounds everything that is waited for.
const waitLimit = 20 * time.Second

// A host is a running agenthost serve.
type host struct {
	cmd       *exec.Cmd
	log       *bytes.Buffer // its stderr; to be read when it has ended
	url       string
	startedAt time.Time
}

// serveSQLite starts the program on a database file and waits for its greeting.
func serveSQLite(ctx context.Context, l *lab, db, apps string) (*host, error) {
	return serveStore(ctx, l, "sqlite:///"+db, apps)
}

// serveStore is serve for a store's URL, and with further flags.
func serveStore(ctx context.Context, l *lab, url, apps string, flags ...string) (*host, error) {
	h := &host{log: new(bytes.Buffer)}
	h.cmd = exec.CommandContext(ctx, l.bin, append([]string{
		"serve", "--addr", "127.0.0.1:0", "--auto-create-session",
		"--session-db", url, "--log-level", "error", apps,
	}, flags...)...)
	h.cmd.Dir, h.cmd.Stderr, h.cmd.WaitDelay = l.dir, h.log, time.Second
	h.cmd.Env = []string{"HOME=" + l.dir, "PATH=" + os.Getenv("PATH")}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	h.startedAt = time.Now()
	if err := h.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the program: %w", err)
	}
	greeting, err := bufio.NewReader(out).ReadString('\n')
	at, ok := strings.CutPrefix(strings.TrimSpace(greeting), "agenthost serves at ")
	if err != nil || !ok {
		return nil, fmt.Errorf("no greeting, but %q: %w", greeting, errors.Join(err, h.kill()))
	}
	h.url = at
	return h, nil
}

// kill ends the process with SIGKILL, without any notice.
func (h *host) kill() error { return h.signalAndWait(syscall.SIGKILL) }

// signalAndWait sends a signal and waits until the process is gone. Once it is, nothing
// happens.
func (h *host) signalAndWait(sig syscall.Signal) error {
	if h.cmd.ProcessState != nil {
		return nil
	}
	if err := h.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending the program: %w", err)
	}
	var failure *exec.ExitError
	if err := h.cmd.Wait(); err != nil && !errors.As(err, &failure) {
		return fmt.Errorf("waiting for the program's end: %w", err)
	}
	return nil
}

// countGoroutines ends the process by SIGQUIT, upon which Go prints the stack of
// each goroutine, and counts them.
func (h *host) countGoroutines() (int, error) {
	if err := h.signalAndWait(syscall.SIGQUIT); err != nil {
		return 0, err
	}
	return strings.Count(h.log.String(), "\ngoroutine "), nil
}

// procPath is a file or folder of the process below /proc.
func (h *host) procPath(name string) string {
	return filepath.Join("/proc", strconv.Itoa(h.cmd.Process.Pid), name)
}

// countHandles counts open file handles and threads.
func (h *host) countHandles() (handles, threads int, err error) {
	fds, err := os.ReadDir(h.procPath("fd"))
	if err != nil {
		return 0, 0, err
	}
	tasks, err := os.ReadDir(h.procPath("task"))
	return len(fds), len(tasks), err
}

// residentMemory is the memory of the process that is in RAM, in MB.
func (h *host) residentMemory() (float64, error) { return h.readMemory("VmRSS") }

// anonMemory is what of it no file holds: heap, stacks, changed variables. The rest is
// pages of the program, of which the kernel maps more or fewer at once as they
// happen to lie in its cache.
func (h *host) anonMemory() (float64, error) { return h.readMemory("RssAnon") }

func (h *host) readMemory(kind string) (float64, error) {
	status, err := os.ReadFile(h.procPath("status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, kind+":"); ok {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(kb), " kB"))
			return float64(n) / 1024, err
		}
	}
	return 0, fmt.Errorf("/proc tells no %s", kind)
}

// liveMemory is what a collection leaves of the memory that Go gave out, in MB. The
// host collects for it, and has to serve with --pprof.
func (h *host) liveMemory() (heap, stacks float64, err error) {
	resp, err := http.Get(h.url + "/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return 0, 0, err
	}
	defer http.DefaultClient.CloseIdleConnections() // the host's file handles are counted
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, 0, err
	}
	mega := func(name string) float64 {
		_, rest, _ := strings.Cut(string(text), "# "+name+" = ")
		n, wrong := strconv.Atoi(rest[:max(strings.IndexAny(rest, " \n"), 0)])
		err = errors.Join(err, wrong)
		return float64(n) / (1 << 20)
	}
	heap, stacks = mega("HeapAlloc"), mega("Stack")
	return heap, stacks, err
}

// clockTicks is how often a second the kernel counts the time of processors.
const clockTicks = 100

// processorTime is what a process of this machine has spent on processors.
func processorTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name stands in brackets, and may have any characters.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc tells no times of process %d", pid)
	}
	user, errUser := strconv.Atoi(fields[11])
	system, errSystem := strconv.Atoi(fields[12])
	return time.Duration(user+system) * time.Second / clockTicks, errors.Join(errUser, errSystem)
}

// pollUntil looks again and again until what is looked for is there.
func pollUntil(ctx context.Context, what string, there func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		if ok, err := there(); ok || err != nil {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		}
	}
}
