package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary also run as a server process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == serveVerb {
		os.Exit(runCommand(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// Each side forwards all sessions' audio in both directions.
func TestSidesForward(t *testing.T) {
	fake, err := startProcess(t.Context(), &serverConfig{Side: fakeName})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = fake.stop() }()
	for _, side := range []string{relayName, oursName, theirsName} {
		l := &load{side: side, sessions: 3, warm: 200 * time.Millisecond, lasts: 400 * time.Millisecond}
		m, err := measureSide(t.Context(), l, &serverConfig{Side: side, Fake: fake.addr})
		if err != nil {
			t.Fatalf("%s: %v", side, err)
		}
		if m.received < 3 || len(m.took) == 0 || m.cpu <= 0 || m.memory <= 0 {
			t.Errorf("%s: %d frames received, %d times, CPU %s, memory %d", side, m.received, len(m.took), m.cpu, m.memory)
		}
	}
}

// A server that ends a socket fails the measurement.
func TestEndedSocket(t *testing.T) {
	p, err := startProcess(t.Context(), &serverConfig{Side: oursName, Fake: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.stop() }()
	l := &load{side: oursName, sessions: 1, lasts: 2 * time.Second}
	if _, err = l.runLoad(t.Context(), p); err == nil || !strings.Contains(err.Error(), "a socket of agenthost ended: the connection was closed: model") {
		t.Errorf("error %v", err)
	}
}

// The report has the ratios, and the targets that are missed.
func TestReport(t *testing.T) {
	of := func(side string, sessions int, cpu time.Duration, memory int64, silent bool) measurement {
		return measurement{load{side: side, sessions: sessions, silent: silent}, &outcome{
			received: 1000, cpu: cpu, wall: time.Second, memory: memory, took: []time.Duration{time.Millisecond, 30 * time.Millisecond},
		}}
	}
	var out strings.Builder
	met, err := printReport(&out, []measurement{
		of(relayName, 100, 50*time.Millisecond, 10<<20, false), of(oursName, 100, 100*time.Millisecond, 20<<20, false),
		of(theirsName, 100, 200*time.Millisecond, 100<<20, false), of(oursName, 1000, time.Millisecond, 300<<20, true),
	})
	if met || err != nil {
		t.Errorf("met %v, error %v", met, err)
	}
	got := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"agenthost 100 1000 100.0 µs 30.00 ms 30.00 ms 20 MiB 204 KiB",
		"CPU by that of the relay, at most 3× 2× met",
		"memory of a session beyond the relay's, at most 150 KiB 102 KiB met",
		"p99 of forwarding there and back, at most 20ms 30.00 ms MISSED",
		"CPU of adk-go by ours, at least 3× 2× MISSED",
		"memory of 1000 idle sockets, at most 400 MiB 300 MiB met",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("report without %q:\n%s", want, out.String())
		}
	}
}
