package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	killRounds       = 5
	recordingClients = 6
)

// A recordingClient runs turns in its own session and records the received events.
type recordingClient struct {
	client *client
	seen   []string
	turns  int
	cut    int   // turns cut off by a kill
	err    error // failures without a kill
}

// runUntilFailure runs turns until one fails. A failure after a kill is expected. Every
// other turn is streamed.
func (t *recordingClient) runUntilFailure(ctx context.Context, killed <-chan struct{}) {
	var err error
	for err == nil {
		err = t.runTurn(ctx)
	}
	select {
	case <-killed:
		t.cut++
	default:
		t.err = errors.Join(t.err, err)
	}
}

func (t *recordingClient) runTurn(ctx context.Context) error {
	t.turns++
	send := t.client.runTurnEvents
	if t.turns%2 == 0 {
		send = t.client.streamTurnEvents
	}
	text := fmt.Sprintf("message %d", t.turns)
	events, err := send(ctx, text)
	for _, ev := range events {
		if !ev.Partial {
			t.seen = append(t.seen, ev.ID)
		}
	}
	if err == nil && lastText(events) != "Noted: "+text {
		err = fmt.Errorf("answer %q, want %q", lastText(events), "Noted: "+text)
	}
	return err
}

// countMissing counts the received events that are not stored in the same order.
func (t *recordingClient) countMissing(ctx context.Context) (int, error) {
	events, err := t.client.readEvents(ctx)
	if err != nil {
		return 0, err
	}
	return countMissingIDs(t.seen, events), nil
}

// countMissingIDs counts the seen IDs that are not among the events in the same order.
func countMissingIDs(seen []string, events []event) int {
	missing := 0
	for _, id := range seen {
		at := slices.IndexFunc(events, func(e event) bool { return e.ID == id })
		if at < 0 {
			missing++
			continue
		}
		events = events[at+1:]
	}
	return missing
}

// A killProof is the result of all rounds.
type killProof struct {
	url, file                        string // the database's; file is empty unless it is SQLite
	rounds, missing, intact, resumed int
	clients                          []*recordingClient
	errs                             []error
}

// restartRows kills the host repeatedly while clients run turns.
func restartRows(ctx context.Context, l *lab) ([]row, error) {
	dir := filepath.Join(l.dir, "restart")
	if err := clerkApp().writeTo(filepath.Join(dir, "apps")); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "sessions.db")
	k := newKilling("sqlite:///"+file, file)
	for range killRounds {
		if err := k.runRound(ctx, l, dir); err != nil {
			return k.resultRows(), err
		}
	}
	return k.resultRows(), nil
}

func newKilling(url, file string) *killProof {
	k := &killProof{url: url, file: file}
	for i := range recordingClients {
		k.clients = append(k.clients, &recordingClient{client: newClient("", "clerk", fmt.Sprintf("session-%d", i))})
	}
	return k
}

// runRound kills the host at a random time while clients run turns, restarts it, and
// verifies the sessions.
func (k *killProof) runRound(ctx context.Context, l *lab, dir string) error {
	apps := filepath.Join(dir, "apps")
	h, err := k.serveClients(ctx, l, apps)
	if err != nil {
		return err
	}
	if err := k.runUntilKilled(ctx, h); err != nil {
		return err
	}
	k.rounds++
	if h, err = k.serveClients(ctx, l, apps); err != nil {
		return fmt.Errorf("restarting: %w", err)
	}
	k.verifySessions(ctx)
	return h.kill()
}

func (k *killProof) runUntilKilled(ctx context.Context, h *host) error {
	timer := time.NewTimer(300*time.Millisecond + rand.N(900*time.Millisecond))
	killed := make(chan struct{})
	var wg sync.WaitGroup
	for _, t := range k.clients {
		wg.Go(func() { t.runUntilFailure(ctx, killed) })
	}
	<-timer.C
	close(killed)
	err := h.kill()
	wg.Wait()
	for _, t := range k.clients {
		err = errors.Join(err, t.err)
	}
	return err
}

// serveClients starts the host and connects all clients to it.
func (k *killProof) serveClients(ctx context.Context, l *lab, apps string) (*host, error) {
	h, err := serveStore(ctx, l, k.url, apps)
	if err != nil {
		return nil, err
	}
	for _, t := range k.clients {
		t.client.close()
		t.client.url = h.url
	}
	return h, nil
}

// verifySessions compares the stored events with the received ones and runs a turn in
// each session.
func (k *killProof) verifySessions(ctx context.Context) {
	for _, t := range k.clients {
		missing, err := t.countMissing(ctx)
		k.missing += missing
		if err == nil {
			err = t.runTurn(ctx)
		}
		if err != nil {
			k.errs = append(k.errs, fmt.Errorf("%s: %w", t.client.session, err))
			continue
		}
		k.resumed++
	}
	if k.file == "" {
		return
	}
	if err := checkIntegrity(ctx, k.file); err != nil {
		k.errs = append(k.errs, err)
		return
	}
	k.intact++
}

func (k *killProof) resultRows() []row {
	seen, cut := 0, 0
	for _, t := range k.clients {
		seen += len(t.seen)
		cut += t.cut
	}
	next := k.rounds * len(k.clients)
	detail := ""
	if err := errors.Join(k.errs...); err != nil {
		detail = ": " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return []row{
		{
			"kill -9 loses no event that a client received",
			fmt.Sprintf("%d kills, %d turns cut off, %d events received, %d missing", k.rounds, cut, seen, k.missing),
			k.rounds == killRounds && seen > 0 && k.missing == 0,
		},
		{
			"conversations continue after a kill",
			fmt.Sprintf("%d of %d next turns answered%s", k.resumed, next, detail),
			next > 0 && k.resumed == next,
		},
		{
			"a kill does not corrupt the database",
			fmt.Sprintf("integrity_check ok after %d of %d kills", k.intact, k.rounds),
			k.rounds == killRounds && k.intact == k.rounds,
		},
	}
}
