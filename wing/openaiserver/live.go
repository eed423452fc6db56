package openaiserver

import (
	"maps"
	"strings"
	"sync"

	"agenthost/pkg/protocol/task"
	"agenthost/pkg/session"
)

// Chunks are the part of a message that the model has written so far, and no event is stored for them. A
// response in the background has them for the followers on the replica that runs it:
//
//	run       ──▶ liveTurn: the last stored event, and the text after it
//	follower  ──▶ reads the session's events; adds the text if it has read up to the same event
//
// Invariant: what a follower sends of chunks is the beginning of the message that is stored next, unless a
// callback or a repeated model call changes it. Agents that run in parallel have no chunks, because theirs
// are mixed.

// liveTurns are the turns that run here without their requests. All methods may be called concurrently.
type liveTurns struct {
	mu    sync.Mutex
	turns map[task.ID]*liveTurn
}

func newLiveTurns() *liveTurns { return &liveTurns{turns: map[task.ID]*liveTurn{}} }

func (l *liveTurns) addTurn(id task.ID, t *liveTurn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns[id] = t
}

// dropTurn removes a turn that has ended, and wakes its followers.
func (l *liveTurns) dropTurn(t *liveTurn) {
	l.mu.Lock()
	maps.DeleteFunc(l.turns, func(_ task.ID, other *liveTurn) bool { return other == t })
	l.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hasEnded = true
	close(t.changed)
}

// findTurn returns a turn that runs here, or nil.
func (l *liveTurns) findTurn(id task.ID) *liveTurn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turns[id]
}

// A liveTurn has the chunks of a turn that runs. Nil is a turn without any.
type liveTurn struct {
	turn *turn
	mu   sync.Mutex
	// last is the agent's last stored event; empty after the user's.
	last string
	// text and thoughts are the chunks after it.
	text, thoughts strings.Builder
	hasEnded       bool
	// changed is closed with the next change.
	changed chan struct{}
}

func newLiveTurn(t *turn) *liveTurn { return &liveTurn{turn: t, changed: make(chan struct{})} }

// addEvent adds an event of the run.
func (l *liveTurn) addEvent(ev *session.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !ev.Partial:
		if l.last = ev.ID; ev.IsFromUser() {
			l.last = ""
		}
		l.text.Reset()
		l.thoughts.Reset()
	case ev.Branch != "":
		return nil
	default:
		text, thoughts := l.turn.readTexts(ev)
		if thoughts != "" && l.text.Len() == 0 { // later ones come with the message, whose thoughts are first
			l.thoughts.WriteString(thoughts)
		}
		l.text.WriteString(text)
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

// waitForChange returns a channel that is closed with the next change; nil if none follows.
func (l *liveTurn) waitForChange() <-chan struct{} {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hasEnded {
		return nil
	}
	return l.changed
}

// isAfter reports whether the turn runs, and its last stored event is the one with an ID.
func (l *liveTurn) isAfter(event string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.hasEnded && l.last == event
}

// readChunks returns the chunks after an event, without those that a reader has.
func (l *liveTurn) readChunks(event string, knownText, knownThoughts int) (text, thoughts string) {
	if l == nil {
		return "", ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != event || l.text.Len() < knownText || l.thoughts.Len() < knownThoughts {
		return "", ""
	}
	return l.text.String()[knownText:], l.thoughts.String()[knownThoughts:]
}
