package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"agenthost/pkg/model"
)

// A conversation measures turns in sessions with a given length.
type conversation struct {
	durable bool
	scene   Scene
	// cold omits the turn in each session before the measured turns, so that the
	// history is not cached.
	cold bool
	// opsPerTurn, if set, is how many operations a turn has.
	opsPerTurn int
	// sessions counts the sessions, and events the events in each before its first measured turn.
	sessions, events int
	// turns is how many turns are measured in each session: few, so that a session grows by 2 % at
	// most.
	turns int
	// limit is the time after which no more turns start.
	limit time.Duration
}

// runRound opens the side, measures turns and verifies the stored events. A durable
// side is reopened for that.
func (t conversation) runRound(ctx context.Context, l *lab, s Side) (Cost, error) {
	st, err := t.openStorage(ctx, l, s)
	if err != nil {
		return Cost{}, err
	}
	defer os.RemoveAll(st.Dir)
	var cost Cost
	var timed int
	setup := Setup{Storage: st, Scene: t.scene}
	err = withChat(ctx, s, setup, func(c Chat) (err error) {
		cost, timed, err = t.runTurns(ctx, c)
		if err != nil || t.durable {
			return err
		}
		return t.verifyEvents(ctx, c, timed)
	})
	if err == nil && t.durable {
		err = withChat(ctx, s, setup, func(c Chat) error { return t.verifyEvents(ctx, c, timed) })
	}
	return cost.dividedBy(max(t.opsPerTurn, 1)), err
}

// withChat opens a side, calls use and closes the side.
func withChat(ctx context.Context, s Side, setup Setup, use func(Chat) error) error {
	c, err := s.Open(ctx, setup)
	if err != nil {
		return fmt.Errorf("opening: %w", err)
	}
	return errors.Join(use(c), c.Close())
}

// openStorage returns memory, or a filled database's copy in a new folder, which the caller
// removes.
func (t conversation) openStorage(ctx context.Context, l *lab, s Side) (Storage, error) {
	if !t.durable {
		return Storage{}, nil
	}
	seed := filepath.Join(l.dir, fmt.Sprintf("%s-%d", s.Name(), t.events))
	if err := t.fillDatabase(ctx, s, seed); err != nil {
		return Storage{}, fmt.Errorf("filling the database: %w", err)
	}
	dir, err := os.MkdirTemp(l.dir, "round-")
	if err != nil {
		return Storage{}, err
	}
	if err := os.CopyFS(dir, os.DirFS(seed)); err != nil {
		return Storage{}, fmt.Errorf("copying the database: %w", err)
	}
	return Storage{Dir: dir, Synchronous: l.synchronous}, nil
}

// fillDatabase fills a database if its folder does not exist.
func (t conversation) fillDatabase(ctx context.Context, s Side, dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	setup := Setup{Storage: Storage{Dir: dir, Synchronous: "NORMAL"}}
	return withChat(ctx, s, setup, func(c Chat) error { return t.createSessions(ctx, c) })
}

// createSessions creates the sessions. Unless cold, it leaves out the last turn before
// the measured ones, which warmUp runs.
func (t conversation) createSessions(ctx context.Context, c Chat) error {
	events := t.events
	if !t.cold {
		events = max(0, events-2)
	}
	for i := range t.sessions {
		if err := c.Create(ctx, sessionID(i), events); err != nil {
			return err
		}
	}
	return nil
}

// runTurns runs the unmeasured turns and then the measured ones, and returns how many were
// measured.
func (t conversation) runTurns(ctx context.Context, c Chat) (Cost, int, error) {
	if !t.durable {
		if err := t.createSessions(ctx, c); err != nil {
			return Cost{}, 0, err
		}
	}
	if err := t.warmUp(ctx, c); err != nil {
		return Cost{}, 0, fmt.Errorf("warming up: %w", err)
	}
	return measureOps(t.sessions*t.turns, t.limit, func(i int) error {
		return t.runTurn(ctx, c, sessionID(i/t.turns), t.events+t.scene.wantTrace().visible*(i%t.turns))
	})
}

// warmUp runs a few turns in a separate session, and one in each session with a
// history, so that its history may be cached.
func (t conversation) warmUp(ctx context.Context, c Chat) error {
	if err := c.Create(ctx, "warm", 0); err != nil {
		return err
	}
	for i := range 3 {
		if err := t.runTurn(ctx, c, "warm", t.scene.wantTrace().visible*i); err != nil {
			return err
		}
	}
	if t.events == 0 || t.cold {
		return nil
	}
	for i := range t.sessions {
		if err := t.runTurn(ctx, c, sessionID(i), t.events-2); err != nil {
			return err
		}
	}
	return nil
}

// runTurn runs a turn and checks the answer, its chunks and how many contents the model call has.
// As in a server, the context ends with the turn: adk-go registers children on the context, which
// retain the session until then.
func (t conversation) runTurn(ctx context.Context, c Chat, id string, earlier int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a, err := c.Turn(ctx, id)
	if err != nil {
		return fmt.Errorf("%s, turn after %d events: %w", id, earlier, err)
	}
	if text := model.TextOf(a.Content); text != Reply {
		return fmt.Errorf("%s, turn after %d events: answer %q, want %q", id, earlier, text, Reply)
	}
	want := t.scene.wantTrace()
	if a.Seen != earlier+want.seen {
		return fmt.Errorf("%s, turn after %d events: the model received %d contents, want %d", id, earlier, a.Seen, earlier+want.seen)
	}
	if a.Chunks != want.chunks {
		return fmt.Errorf("%s, turn after %d events: got %d chunks, want %d", id, earlier, a.Chunks, want.chunks)
	}
	return nil
}

// verifyEvents checks how many events every session has stored after the measured turns.
func (t conversation) verifyEvents(ctx context.Context, c Chat, timed int) error {
	for i := range t.sessions {
		got, err := c.Count(ctx, sessionID(i))
		if err != nil {
			return fmt.Errorf("%s: counting events: %w", sessionID(i), err)
		}
		made := min(max(timed-i*t.turns, 0), t.turns)
		if want := t.events + t.scene.wantTrace().stored*made; got != want {
			return fmt.Errorf("%s: %d events are stored, want %d", sessionID(i), got, want)
		}
	}
	return nil
}

func sessionID(i int) string { return "session-" + strconv.Itoa(i) }
