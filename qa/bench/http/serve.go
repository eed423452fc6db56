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
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func serveProcess(ctx context.Context, text string, in io.Reader, out io.Writer) error {
	at := &serverConfig{}
	if err := json.Unmarshal([]byte(text), at); err != nil {
		return err
	}
	stopProfile, err := startProfile(at.Profile)
	if err != nil {
		return err
	}
	handler, closer, err := openSide(ctx, at)
	if err != nil {
		return fmt.Errorf("opening %s: %w", at.Side, err)
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, closer.Close())
	}
	web := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
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
	return errors.Join(err, closer.Close(), stopProfile())
}

// startProfile starts a CPU profile and returns a function that stops it.
func startProfile(file string) (end func() error, err error) {
	if file == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

func openSide(ctx context.Context, at *serverConfig) (http.Handler, io.Closer, error) {
	switch at.Side {
	case oursName:
		return openAgenthost(ctx, at)
	case theirsName:
		return openADKGo(ctx, at)
	case floorName:
		return openFloor(at)
	}
	return nil, nil, fmt.Errorf("unknown side %q", at.Side)
}

// processUsage returns this process's resource usage.
func processUsage() (usage, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return usage{}, err
	}
	u := usage{CPU: time.Duration(r.Utime.Nano() + r.Stime.Nano())}
	// Maxrss includes the parent process's memory before exec.
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return usage{}, err
	}
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kb), "kB")), 10, 64)
			u.Peak = n << 10
			return u, err
		}
	}
	return u, nil
}
