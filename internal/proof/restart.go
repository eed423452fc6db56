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
	killRounds = 5
	talkers    = 6
)

// A talker takes turn after turn in its own session, and remembers every event
// that it was shown.
type talker struct {
	client *client
	seen   []string
	turns  int
	cut    int   // turns that the end of the host cut off
	err    error // why another turn failed
}

// talk goes on until a turn fails. That is no failure of the host when it was
// killed. Every other turn is streamed.
func (t *talker) talk(ctx context.Context, killed <-chan struct{}) {
	var err error
	for err == nil {
		err = t.turn(ctx)
	}
	select {
	case <-killed:
		t.cut++
	default:
		t.err = errors.Join(t.err, err)
	}
}

func (t *talker) turn(ctx context.Context) error {
	t.turns++
	take := t.client.run
	if t.turns%2 == 0 {
		take = t.client.stream
	}
	text := fmt.Sprintf("message %d", t.turns)
	events, err := take(ctx, text)
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

// missing counts the events that were seen and are not stored in that order.
func (t *talker) missing(ctx context.Context) (int, error) {
	events, err := t.client.stored(ctx)
	if err != nil {
		return 0, err
	}
	return missing(t.seen, events), nil
}

// missing counts the ids that are not those of events in that order.
func missing(seen []string, events []event) int {
	lost := 0
	for _, id := range seen {
		at := slices.IndexFunc(events, func(e event) bool { return e.ID == id })
		if at < 0 {
			lost++
			continue
		}
		events = events[at+1:]
	}
	return lost
}

// A killing is what came of all rounds.
type killing struct {
	url, file                       string // of the database; the file is SQLite's
	rounds, missing, whole, resumed int
	talkers                         []*talker
	errs                            []error
}

// restart kills the host again and again, while sessions talk.
func restart(ctx context.Context, l *lab) ([]row, error) {
	dir := filepath.Join(l.dir, "restart")
	if err := clerk().write(filepath.Join(dir, "apps")); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "sessions.db")
	k := newKilling("sqlite:///"+file, file)
	for range killRounds {
		if err := k.round(ctx, l, dir); err != nil {
			return k.rows(), err
		}
	}
	return k.rows(), nil
}

func newKilling(url, file string) *killing {
	k := &killing{url: url, file: file}
	for i := range talkers {
		k.talkers = append(k.talkers, &talker{client: newClient("", "clerk", fmt.Sprintf("session-%d", i))})
	}
	return k
}

// round lets the sessions talk until a moment that nobody knows before, kills
// the host, starts it again, and looks what is there.
func (k *killing) round(ctx context.Context, l *lab, dir string) error {
	apps := filepath.Join(dir, "apps")
	h, err := k.serve(ctx, l, apps)
	if err != nil {
		return err
	}
	if err := k.talkUntilKilled(ctx, h); err != nil {
		return err
	}
	k.rounds++
	if h, err = k.serve(ctx, l, apps); err != nil {
		return fmt.Errorf("starting again: %w", err)
	}
	k.look(ctx)
	return h.kill()
}

func (k *killing) talkUntilKilled(ctx context.Context, h *host) error {
	moment := time.NewTimer(300*time.Millisecond + rand.N(900*time.Millisecond))
	killed := make(chan struct{})
	var wg sync.WaitGroup
	for _, t := range k.talkers {
		wg.Go(func() { t.talk(ctx, killed) })
	}
	<-moment.C
	close(killed)
	err := h.kill()
	wg.Wait()
	for _, t := range k.talkers {
		err = errors.Join(err, t.err)
	}
	return err
}

// serve starts the host and points all clients to it.
func (k *killing) serve(ctx context.Context, l *lab, apps string) (*host, error) {
	h, err := serveAt(ctx, l, k.url, apps)
	if err != nil {
		return nil, err
	}
	for _, t := range k.talkers {
		t.client.close()
		t.client.url = h.url
	}
	return h, nil
}

// look compares what is stored with what was seen, and takes a turn in each
// session.
func (k *killing) look(ctx context.Context) {
	for _, t := range k.talkers {
		lost, err := t.missing(ctx)
		k.missing += lost
		if err == nil {
			err = t.turn(ctx)
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
	if err := integrity(ctx, k.file); err != nil {
		k.errs = append(k.errs, err)
		return
	}
	k.whole++
}

func (k *killing) rows() []row {
	seen, cut := 0, 0
	for _, t := range k.talkers {
		seen += len(t.seen)
		cut += t.cut
	}
	next := k.rounds * len(k.talkers)
	trouble := ""
	if err := errors.Join(k.errs...); err != nil {
		trouble = ": " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return []row{
		{
			"kill -9 loses no event that a client has seen",
			fmt.Sprintf("%d kills, %d turns cut off, %d events seen, %d missing", k.rounds, cut, seen, k.missing),
			k.rounds == killRounds && seen > 0 && k.missing == 0,
		},
		{
			"the conversation goes on after it",
			fmt.Sprintf("%d of %d next turns answered%s", k.resumed, next, trouble),
			next > 0 && k.resumed == next,
		},
		{
			"the database stays whole",
			fmt.Sprintf("integrity_check ok after %d of %d kills", k.whole, k.rounds),
			k.rounds == killRounds && k.whole == k.rounds,
		},
	}
}
