package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A sentence is what a speaker says in one turn.
type sentence struct {
	text string
	// resumes is how often its invocation was taken up again.
	resumes int
}

// calls says whether the answer takes a call of a tool.
func (s *sentence) calls() bool { return strings.HasPrefix(s.text, "note ") }

// answer is what the agent says in the end.
func (s *sentence) answer() string {
	if s.calls() {
		return "Noted: " + s.text
	}
	return "Heard: " + s.text
}

// A speaker takes turn after turn in a session, which it may share, and tries
// each until it is answered. Before it tries again, it looks whether its message
// is stored: if so, it resumes the invocation.
type speaker struct {
	client *client
	number int
	dice   *rand.Rand
	// shared says that others speak in the session too. What was cut off is then
	// resumed behind what they said, and a model that is asked again there may
	// call a tool again: so nothing is said that takes one.
	shared bool
	// blind does not look, but says it again.
	blind bool
	// pause is the longest one between two turns, and patience how long one turn
	// may take with everything.
	pause, patience time.Duration

	sentences []*sentence
	seen      []string // ids of the events that it was shown
	cut       int      // answers that did not come, or not to their end
	took      []time.Duration
	odd       []error // refusals that no kill explains
}

// speak takes turns until one of them was tried in vain.
func (s *speaker) speak(ctx context.Context, turns int) {
	defer s.client.close()
	for n := range turns {
		if wait(ctx, time.Duration(s.dice.Int64N(int64(s.pause)+1))) != nil || !s.turn(ctx, n) {
			return
		}
	}
}

func (s *speaker) turn(ctx context.Context, n int) bool {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	verb := "note"
	if s.shared || n%2 == 1 {
		verb = "hear"
	}
	it := &sentence{text: fmt.Sprintf("%s %d of %d", verb, n, s.number)}
	s.sentences = append(s.sentences, it)
	began, invocation := time.Now(), ""
	for {
		events, err := s.ask(ctx, it, invocation, n%4 < 2)
		s.note(events)
		if err == nil {
			s.took = append(s.took, time.Since(began))
			return true
		}
		s.cut++
		if invocation, err = s.stored(ctx, it, err); err != nil {
			return false
		}
		if invocation != "" {
			it.resumes++
		}
	}
}

// ask says a sentence, or resumes its invocation.
func (s *speaker) ask(ctx context.Context, it *sentence, invocation string, streaming bool) ([]event, error) {
	request := s.client.request(it.text, streaming)
	if invocation != "" {
		request = s.client.resumption(invocation, streaming)
	}
	if streaming {
		return s.client.frames(ctx, request)
	}
	return s.client.list(ctx, request)
}

func (s *speaker) note(events []event) {
	for _, ev := range events {
		if !ev.Partial {
			s.seen = append(s.seen, ev.ID)
		}
	}
}

// stored waits as long as a failure asks for, and finds the invocation of a
// sentence. It is empty when the sentence has to be said again. The error is
// that of patience at its end.
func (s *speaker) stored(ctx context.Context, it *sentence, failure error) (invocation string, err error) {
	for {
		if err := wait(ctx, s.pardon(failure)); err != nil {
			return "", err
		}
		if s.blind {
			return "", nil
		}
		var events []event
		if events, failure = s.client.stored(ctx); failure == nil {
			return invocationOf(events, it.text), nil
		}
		var r *refusal
		if errors.As(failure, &r) && r.status == http.StatusNotFound {
			return "", nil // the session was to be made with the message
		}
	}
}

// pardon is how long a failure asks to wait. One that is neither of the network
// nor says when to come again is noted.
func (s *speaker) pardon(failure error) time.Duration {
	var r *refusal
	if errors.As(failure, &r) && r.after == 0 && r.status != http.StatusBadGateway {
		s.odd = append(s.odd, failure)
	}
	if r != nil && r.after > 0 {
		return r.after
	}
	return time.Second
}

// invocationOf is the invocation that began with a text.
func invocationOf(events []event, text string) string {
	i := slices.IndexFunc(events, func(e event) bool { return e.Author == "user" && e.text() == text })
	if i < 0 {
		return ""
	}
	return events[i].InvocationID
}
