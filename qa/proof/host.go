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

// waitLimit is the maximum time for every wait.
const waitLimit = 20 * time.Second

// A host is a running agenthost serve.
type host struct {
	cmd       *exec.Cmd
	log       *bytes.Buffer // stderr; read it only after the process has exited
	url       string
	startedAt time.Time
}

// serveSQLite starts the program on a SQLite file and waits until it listens.
func serveSQLite(ctx context.Context, l *lab, db, apps string) (*host, error) {
	return serveStore(ctx, l, "sqlite:///"+db, apps)
}

// serveStore starts the program on a store URL with additional flags and waits until it
// listens.
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
		return nil, fmt.Errorf("unexpected first line %q: %w", greeting, errors.Join(err, h.kill()))
	}
	h.url = at
	return h, nil
}

// kill terminates the process with SIGKILL.
func (h *host) kill() error { return h.signalAndWait(syscall.SIGKILL) }

// signalAndWait sends a signal and waits for the exit. It does nothing if the process
// has exited.
func (h *host) signalAndWait(sig syscall.Signal) error {
	if h.cmd.ProcessState != nil {
		return nil
	}
	if err := h.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping the program: %w", err)
	}
	var failure *exec.ExitError
	if err := h.cmd.Wait(); err != nil && !errors.As(err, &failure) {
		return fmt.Errorf("waiting for the program to exit: %w", err)
	}
	return nil
}

// countGoroutines terminates the process with SIGQUIT and counts the goroutines in the
// stack dump.
func (h *host) countGoroutines() (int, error) {
	if err := h.signalAndWait(syscall.SIGQUIT); err != nil {
		return 0, err
	}
	return strings.Count(h.log.String(), "\ngoroutine "), nil
}

// procPath returns the path to a file or folder for the process in /proc.
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

// residentMemory returns the resident memory in MB.
func (h *host) residentMemory() (float64, error) { return h.readMemory("VmRSS") }

// anonMemory returns the resident anonymous memory in MB: heap, stacks and modified
// variables. The other resident pages belong to the program file, and their number
// varies with the page cache.
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
	return 0, fmt.Errorf("%s not found in /proc/PID/status", kind)
}

// liveMemory runs a garbage collection in the host and returns its live heap and its
// stacks in MB. The host must serve with --pprof.
func (h *host) liveMemory() (heap, stacks float64, err error) {
	resp, err := http.Get(h.url + "/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return 0, 0, err
	}
	defer http.DefaultClient.CloseIdleConnections() // open connections would count as the host's file handles
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, 0, err
	}
	mega := func(name string) float64 {
		_, rest, _ := strings.Cut(string(text), "# "+name+" = ")
		n, parseErr := strconv.Atoi(rest[:max(strings.IndexAny(rest, " \n"), 0)])
		err = errors.Join(err, parseErr)
		return float64(n) / (1 << 20)
	}
	heap, stacks = mega("HeapAlloc"), mega("Stack")
	return heap, stacks, err
}

// countLiveGoroutines counts the goroutines in a running host that serves with --pprof.
func (h *host) countLiveGoroutines() (n int, err error) {
	resp, err := http.Get(h.url + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		return 0, err
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	_, err = fmt.Fscanf(resp.Body, "goroutine profile: total %d", &n)
	return n, err
}

// clockTicks is how many kernel clock ticks per second /proc uses.
const clockTicks = 100

// processorTime returns a local process's CPU time.
func processorTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The process name is in parentheses and may contain any characters.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("invalid /proc/%d/stat", pid)
	}
	user, errUser := strconv.Atoi(fields[11])
	system, errSystem := strconv.Atoi(fields[12])
	return time.Duration(user+system) * time.Second / clockTicks, errors.Join(errUser, errSystem)
}

// pollUntil calls done until it returns true or an error.
func pollUntil(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		}
	}
}
