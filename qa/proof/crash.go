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

// crashSessions is how many sessions a child writes concurrently.
const crashSessions = 8

// A crashProof kills child processes while they append and verifies the store afterwards. Event n
// in session i has the ID i-n and sets a key in each scope to n, so a lost, duplicated or torn
// event is visible.
type crashProof struct {
	*sandbox
	mode                                     string
	kills                                    int
	acked                                    []int // by session: the last acknowledged event
	total, lost, duplicated, torn, corrupted int
}

func newCrash(s *sandbox, mode string) *crashProof {
	return &crashProof{sandbox: s, mode: mode, acked: make([]int, crashSessions)}
}

// runRounds kills n children and verifies the store after each.
func (c *crashProof) runRounds(ctx context.Context, n int) error {
	st, err := c.openStore(ctx)
	if err != nil {
		return err
	}
	for i := range crashSessions {
		if _, err := st.Sessions.Create(ctx, sessionKey(i, i), nil); err != nil {
			return errors.Join(err, st.Close())
		}
	}
	if err := st.Close(); err != nil {
		return err
	}
	for range n {
		if err := c.killChild(ctx, 1+c.random.IntN(60), time.Duration(c.random.IntN(3000))*time.Microsecond); err != nil {
			return err
		}
		if err := c.verifyStore(ctx); err != nil {
			return fmt.Errorf("after %d kills: %w", c.kills, err)
		}
	}
	return nil
}

// killChild runs a child until it has acknowledged the given number of events and a
// short time longer.
func (c *crashProof) killChild(ctx context.Context, events int, longer time.Duration) error {
	cmd := exec.CommandContext(ctx, c.self, "child", c.mode, c.url, formatNumbers(c.acked))
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
			continue // truncated by the kill
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

// verifyStore compares the stored sessions with the acknowledged events.
func (c *crashProof) verifyStore(ctx context.Context) (err error) {
	st, err := c.openStore(ctx)
	if err != nil {
		return fmt.Errorf("opening the database again: %w", err)
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	for i := range crashSessions {
		sess, err := st.Sessions.Get(ctx, sessionKey(i, i), nil)
		if err != nil {
			return err
		}
		c.compareSession(i, sess)
	}
	if c.file == "" {
		return nil
	}
	if err := checkIntegrity(ctx, c.file); err != nil {
		c.corrupted++
		fmt.Fprintln(c.progress, err)
	}
	return nil
}

func (c *crashProof) compareSession(i int, sess *session.Session) {
	counts := make(map[string]int)
	for n, ev := range sess.Events() {
		counts[ev.ID]++
		if ev.Seq != int64(n+1) {
			c.torn++
		}
	}
	for n := 1; n <= c.acked[i]; n++ {
		if counts[eventID(i, n)] == 0 {
			c.lost++
		}
	}
	c.duplicated += sess.History.Len() - len(counts)
	last := sess.History.Len()
	for _, key := range []string{"n", fmt.Sprint("app:n", i), "user:n"} {
		if v, _ := sess.State.Get(key); last > 0 && v != int64(last) {
			c.torn++
		}
	}
	// Report a lost event once. The next child retries stored events that were not
	// acknowledged.
	c.acked[i] = min(c.acked[i], last)
}

func (c *crashProof) countViolations() int { return c.lost + c.duplicated + c.torn + c.corrupted }

func countTornAppends(ctx context.Context, s *sandbox) (int, error) {
	c := newCrash(s, childNormal)
	err := c.runRounds(ctx, 4)
	return c.countViolations(), err
}

func countSplitWrites(ctx context.Context, s *sandbox) (int, error) {
	c := newCrash(s, childSplitState)
	err := c.runRounds(ctx, 4)
	return c.torn, err
}

// The modes of a child.
const (
	childNormal = "normal"
	// childAckFirst acknowledges an event before appending it.
	childAckFirst = "early"
	// childSplitState appends an event first and its state with the next event.
	childSplitState = "halves"
)

// runChild appends to a database's sessions until it is killed. It continues after the given event
// numbers.
func runChild(ctx context.Context, args []string, stderr io.Writer) int {
	err := errors.New("child is internal: want child MODE URL NUMBERS")
	switch {
	case len(args) == 3 && args[0] != measureMode:
		err = runWriters(ctx, args[0], args[1], args[2])
	case len(args) == 1 && args[0] == liveModelMode:
		runLiveModel()
	case len(args) == 1 && args[0] == answerSizeMode:
		if err = decodeAnswerNaively(); err == nil {
			return 0
		}
	case len(args) == 1 && args[0] == requestSizeMode:
		if err = decodeRequestNaively(); err == nil {
			return 0
		}
	case len(args) > 1 && args[0] == measureMode:
		return measureProgram(ctx, args[1:])
	case len(args) == 1 && args[0] == panicMode:
		readCheckpointNaively(`{"waiting_for": [1]}`)
	}
	fmt.Fprintln(stderr, "child:", err)
	return 1
}

func runWriters(ctx context.Context, mode, url, numbers string) error {
	from, err := parseNumbers(numbers)
	if err != nil {
		return err
	}
	st, err := openStoreAt(ctx, url)
	if err != nil {
		return err
	}
	return runConcurrently(len(from), func(i int) error {
		w := &childWriter{mode: mode, sessions: st.Sessions, i: i}
		return w.appendForever(ctx, from[i])
	})
}

// A childWriter appends to one session.
type childWriter struct {
	mode     string
	sessions *store.Sessions
	i        int
}

func (w *childWriter) appendForever(ctx context.Context, last int) error {
	sess, err := w.sessions.Get(ctx, sessionKey(w.i, w.i), nil)
	for n := last + 1; err == nil; n++ {
		err = w.appendNext(ctx, sess, n)
	}
	return err
}

// appendNext appends event n and acknowledges it.
func (w *childWriter) appendNext(ctx context.Context, sess *session.Session, n int) error {
	ev := stateEvent(map[string]any{"n": n, fmt.Sprint("app:n", w.i): n, "user:n": n})
	ev.ID = eventID(w.i, n)
	if w.mode == childAckFirst {
		return errors.Join(acknowledge(ev.ID), w.sessions.Append(ctx, sess, ev))
	}
	if w.mode == childSplitState && n%2 == 1 {
		ev.Actions.StateDelta = nil // stored with the next event
	}
	if err := w.sessions.Append(ctx, sess, ev); err != nil {
		return err
	}
	return acknowledge(ev.ID)
}

// acknowledge writes a line with one system call, so that a kill cannot truncate it.
func acknowledge(id string) error {
	_, err := os.Stdout.Write([]byte(id + "\n"))
	return err
}

func eventID(i, n int) string { return fmt.Sprintf("%d-%d", i, n) }

func formatNumbers(all []int) string {
	texts := make([]string, len(all))
	for i, n := range all {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ",")
}

func parseNumbers(text string) ([]int, error) {
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
