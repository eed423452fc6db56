package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// crashSessions is the number of sessions that a child writes to at once.
const crashSessions = 8

// A crash kills children in the midst of their writes, and looks what is there
// afterwards. Event n of session i has the id i-n, and sets a key of each scope
// to n: so what is stored tells whether it is all and nothing twice.
type crash struct {
	*site
	mode                              string
	kills                             int
	acked                             []int // by session, the last event that was acknowledged
	total, lost, doubled, torn, spoil int
}

func newCrash(s *site, mode string) *crash {
	return &crash{site: s, mode: mode, acked: make([]int, crashSessions)}
}

// rounds kills so many children, and looks after each.
func (c *crash) rounds(ctx context.Context, n int) error {
	st, err := c.open(ctx)
	if err != nil {
		return err
	}
	for i := range crashSessions {
		if _, err := st.Sessions.Create(ctx, keyOf(i, i), nil); err != nil {
			return errors.Join(err, st.Close())
		}
	}
	if err := st.Close(); err != nil {
		return err
	}
	for range n {
		if err := c.kill(ctx, 1+c.dice.IntN(60), time.Duration(c.dice.IntN(3000))*time.Microsecond); err != nil {
			return err
		}
		if err := c.look(ctx); err != nil {
			return fmt.Errorf("after %d kills: %w", c.kills, err)
		}
	}
	return nil
}

// kill runs a child until it has acknowledged so many events, and a moment
// longer.
func (c *crash) kill(ctx context.Context, events int, longer time.Duration) error {
	cmd := exec.CommandContext(ctx, c.self, "child", c.mode, c.url, numbersText(c.acked))
	cmd.Stderr = c.progress
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting a child: %w", err)
	}
	var end *time.Timer
	lines := bufio.NewScanner(out)
	for n := 1; lines.Scan(); n++ {
		var i, event int
		if _, err := fmt.Sscanf(lines.Text(), "%d-%d", &i, &event); err != nil {
			continue // cut off by the end
		}
		c.acked[i] = max(c.acked[i], event)
		c.total++
		if n == events {
			end = time.AfterFunc(longer, func() { _ = cmd.Process.Kill() })
		}
	}
	if end != nil {
		end.Stop()
	}
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		return fmt.Errorf("the child ended before it was killed: %w", errors.Join(err, ctx.Err()))
	}
	c.kills++
	return nil
}

// look compares what is stored with what was acknowledged.
func (c *crash) look(ctx context.Context) (err error) {
	st, err := c.open(ctx)
	if err != nil {
		return fmt.Errorf("opening the database again: %w", err)
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	for i := range crashSessions {
		sess, err := st.Sessions.Get(ctx, keyOf(i, i), nil)
		if err != nil {
			return err
		}
		c.compare(i, sess)
	}
	if c.file == "" {
		return nil
	}
	if err := integrity(ctx, c.file); err != nil {
		c.spoil++
		fmt.Fprintln(c.progress, err)
	}
	return nil
}

func (c *crash) compare(i int, sess *session.Session) {
	there := make(map[string]int)
	for n, ev := range sess.Events() {
		there[ev.ID]++
		if ev.Seq != int64(n+1) {
			c.torn++
		}
	}
	for n := 1; n <= c.acked[i]; n++ {
		if there[eventID(i, n)] == 0 {
			c.lost++
		}
	}
	c.doubled += sess.History.Len() - len(there)
	last := sess.History.Len()
	for _, key := range []string{"n", fmt.Sprint("app:n", i), "user:n"} {
		if v, _ := sess.State.Get(key); last > 0 && v != int64(last) {
			c.torn++
		}
	}
	// What is lost is told once. What is there and was not acknowledged is sent
	// again by the next child.
	c.acked[i] = min(c.acked[i], last)
}

// bad is everything that must be zero.
func (c *crash) bad() int { return c.lost + c.doubled + c.torn + c.spoil }

func tornAppends(ctx context.Context, s *site) (int, error) {
	c := newCrash(s, childNormal)
	err := c.rounds(ctx, 4)
	return c.bad(), err
}

func tornHalves(ctx context.Context, s *site) (int, error) {
	c := newCrash(s, childHalves)
	err := c.rounds(ctx, 4)
	return c.torn, err
}

// The ways in which a child writes.
const (
	childNormal = "normal"
	// childEarly acknowledges an event before it is appended.
	childEarly = "early"
	// childHalves appends the event first and its state afterwards.
	childHalves = "halves"
)

// child appends to the sessions of a database until it is killed, from behind
// the given numbers of events on.
func child(ctx context.Context, args []string, complaints io.Writer) int {
	err := errors.New("a child is started by proof itself: child MODE URL NUMBERS")
	switch {
	case len(args) == 3:
		err = appendForever(ctx, args[0], args[1], args[2])
	case len(args) == 1 && args[0] == panicMode:
		readCheckpointNaively(`{"waiting_for": [1]}`)
	}
	fmt.Fprintln(complaints, "child:", err)
	return 1
}

func appendForever(ctx context.Context, mode, url, numbers string) error {
	from, err := numbersOf(numbers)
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, url, &store.Options{Artifacts: "memory:"})
	if err != nil {
		return err
	}
	return together(len(from), func(i int) error {
		w := &writing{mode: mode, sessions: st.Sessions, i: i}
		return w.forever(ctx, from[i])
	})
}

// A writing is one session of a child.
type writing struct {
	mode     string
	sessions *store.Sessions
	i        int
}

func (w *writing) forever(ctx context.Context, last int) error {
	sess, err := w.sessions.Get(ctx, keyOf(w.i, w.i), nil)
	for n := last + 1; err == nil; n++ {
		err = w.step(ctx, sess, n)
	}
	return err
}

// step appends event n and acknowledges it.
func (w *writing) step(ctx context.Context, sess *session.Session, n int) error {
	ev := changed(map[string]any{"n": n, fmt.Sprint("app:n", w.i): n, "user:n": n})
	ev.ID = eventID(w.i, n)
	if w.mode == childEarly {
		return errors.Join(acknowledge(ev.ID), w.sessions.Append(ctx, sess, ev))
	}
	if w.mode == childHalves && n%2 == 1 {
		ev.Actions.StateDelta = nil // the next event brings it
	}
	if err := w.sessions.Append(ctx, sess, ev); err != nil {
		return err
	}
	return acknowledge(ev.ID)
}

// acknowledge writes a line by one call of the system, which writes it whole.
func acknowledge(id string) error {
	_, err := os.Stdout.Write([]byte(id + "\n"))
	return err
}

func eventID(i, n int) string { return fmt.Sprintf("%d-%d", i, n) }

func numbersText(all []int) string {
	texts := make([]string, len(all))
	for i, n := range all {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ",")
}

func numbersOf(text string) ([]int, error) {
	var all []int
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, fmt.Errorf("numbers %q: %w", text, err)
		}
		all = append(all, n)
	}
	return slices.Clip(all), nil
}
