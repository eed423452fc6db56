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
type message struct {
	text string
	// resumes is how often its invocation was taken up again.
	resumes int
}

// callsTool says whether the answer takes a call of a tool.
func (s *message) callsTool() bool { return strings.HasPrefix(s.text, "note ") }

// wantAnswer is what the agent says in the end.
func (s *message) wantAnswer() string {
	if s.callsTool() {
		return "Noted: " + s.text
	}
	return "Heard: " + s.text
}

// A speaker takes turn after turn in a session, which it may share, and tries
// each until it is answered. Before it tries again, it looks whether its message
// is stored: if so, it resumes the invocation.
type retryingClient struct {
	client *client
	number int
	random *rand.Rand
	// shared says that others speak in the session too. What was cut off is then
	// resumed behind what they said, and a model that is asked again there may
	// call a tool again: so nothing is said that takes one.
	shared bool
	// retryBlindly does not look, but says it again.
	retryBlindly bool
	// maxPause is the longest one between two turns, and patience how long one turn
	// may take with everything.
	maxPause, turnLimit time.Duration

	messages    []*message
	seen        []string // ids of the events that it was shown
	cut         int      // answers that did not come, or not to their end
	took        []time.Duration
	unexplained []error // refusals that no kill explains
}

// runTurns takes turns until one of them was tried in vain.
func (s *retryingClient) runTurns(ctx context.Context, turns int) {
	defer s.client.close()
	for n := range turns {
		if waitFor(ctx, time.Duration(s.random.Int64N(int64(s.maxPause)+1))) != nil || !s.runTurn(ctx, n) {
			return
		}
	}
}

func (s *retryingClient) runTurn(ctx context.Context, n int) bool {
	ctx, cancel := context.WithTimeout(ctx, s.turnLimit)
	defer cancel()
	verb := "note"
	if s.shared || n%2 == 1 {
		verb = "hear"
	}
	msg := &message{text: fmt.Sprintf("%s %d of %d", verb, n, s.number)}
	s.messages = append(s.messages, msg)
	began, invocation := time.Now(), ""
	for {
		events, err := s.sendMessage(ctx, msg, invocation, n%4 < 2)
		s.recordEvents(events)
		if err == nil {
			s.took = append(s.took, time.Since(began))
			return true
		}
		s.cut++
		if invocation, err = s.findInvocation(ctx, msg, err); err != nil {
			return false
		}
		if invocation != "" {
			msg.resumes++
		}
	}
}

// sendMessage says a sentence, or resumes its invocation.
func (s *retryingClient) sendMessage(ctx context.Context, msg *message, invocation string, streaming bool) ([]event, error) {
	request := s.client.newRunRequest(msg.text, streaming)
	if invocation != "" {
		request = s.client.newResumeRequest(invocation, streaming)
	}
	if streaming {
		return s.client.postRunSSE(ctx, request)
	}
	return s.client.postRun(ctx, request)
}

func (s *retryingClient) recordEvents(events []event) {
	for _, ev := range events {
		if !ev.Partial {
			s.seen = append(s.seen, ev.ID)
		}
	}
}

// findInvocation waits as long as a failure asks for, and finds the invocation of a
// sentence. It is empty when the sentence has to be said again. The error is
// that of patience at its end.
func (s *retryingClient) findInvocation(ctx context.Context, msg *message, lastErr error) (invocation string, err error) {
	for {
		if err := waitFor(ctx, s.retryDelay(lastErr)); err != nil {
			return "", err
		}
		if s.retryBlindly {
			return "", nil
		}
		var events []event
		if events, lastErr = s.client.readEvents(ctx); lastErr == nil {
			return invocationOf(events, msg.text), nil
		}
		var r *statusError
		if errors.As(lastErr, &r) && r.status == http.StatusNotFound {
			return "", nil // the session was to be made with the message
		}
	}
}

// retryDelay is how long a failure asks to wait. One that is neither of the network
// nor says when to come again is noted.
func (s *retryingClient) retryDelay(lastErr error) time.Duration {
	var r *statusError
	if errors.As(lastErr, &r) && r.retryAfter == 0 && r.status != http.StatusBadGateway {
		s.unexplained = append(s.unexplained, lastErr)
	}
	if r != nil && r.retryAfter > 0 {
		return r.retryAfter
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
