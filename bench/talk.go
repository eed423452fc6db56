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

// A talk measures turns in sessions of a given length.
type conversation struct {
	durable bool
	scene   Scene
	// cold leaves out the turn in each session before the timed ones, so that
	// the history is met for the first time.
	cold bool
	// opsPerTurn, if set, is how many operations a turn counts for.
	opsPerTurn int
	// sessions is how many there are, each with this many earlier events when
	// its first timed turn begins.
	sessions, events int
	// turns are timed in each session. It grows with each turn, so they
	// are few: it ends 2 % longer at most.
	turns int
	// limit is the wall time after which no more turns are begun.
	limit time.Duration
}

// runRound opens the side anew, times turns, and counts what is stored afterwards;
// if that is durable, the side is opened once more for the count.
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

// withChat opens a side and closes it after use.
func withChat(ctx context.Context, s Side, setup Setup, use func(Chat) error) error {
	c, err := s.Open(ctx, setup)
	if err != nil {
		return fmt.Errorf("opening: %w", err)
	}
	return errors.Join(use(c), c.Close())
}

// openStorage is memory, or a copy of a database that was filled once. A copy is a
// new folder, to be removed.
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

// fillDatabase fills a database, unless the folder is there.
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

// createSessions makes the sessions. The last turn before the timed ones is left to run,
// unless they are cold.
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

// runTurns makes the untimed turns and then the timed ones, and returns how many of
// those there were.
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

// warmUp makes a few turns in a session of its own, and one in each session that
// has a history, as if the conversation had been going on just before.
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

// runTurn makes a turn and checks that the answer came with its pieces, from a
// model that was shown the earlier contents and those of the turn. As with a request to a server, the
// context ends with the turn: adk-go hangs children on it that it does not end
// itself, and they hold the session.
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
		return fmt.Errorf("%s, turn after %d events: the model saw %d contents, want %d", id, earlier, a.Seen, earlier+want.seen)
	}
	if a.Chunks != want.chunks {
		return fmt.Errorf("%s, turn after %d events: %d pieces came, want %d", id, earlier, a.Chunks, want.chunks)
	}
	return nil
}

// verifyEvents counts the events of every session after so many timed turns.
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
