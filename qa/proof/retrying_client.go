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

// A message is what a client sends in one turn.
type message struct {
	text string
	// resumes counts its invocation's resumptions.
	resumes int
}

// callsTool reports whether the turn needs a tool call.
func (s *message) callsTool() bool { return strings.HasPrefix(s.text, "note ") }

// wantAnswer returns the expected answer.
func (s *message) wantAnswer() string {
	if s.callsTool() {
		return "Noted: " + s.text
	}
	return "Echo: " + s.text
}

// A retryingClient sends turns to a session and retries each until it is answered.
// Before a retry it checks whether its message is stored; if so, it resumes the
// invocation.
type retryingClient struct {
	client *client
	number int
	random *rand.Rand
	// shared reports that other clients use the session too. A resumed turn then
	// follows their turns, and the model may call a tool again. Such a client sends no
	// messages that need a tool.
	shared bool
	// retryBlindly sends the message again without checking the session.
	retryBlindly bool
	// maxPause is the longest pause between two turns, and turnLimit the maximum time
	// for one turn with its retries.
	maxPause, turnLimit time.Duration

	messages    []*message
	seen        []string // received event IDs
	cut         int      // missing or truncated responses
	took        []time.Duration
	unexplained []error // errors that a kill does not explain
}

// runTurns runs turns until one fails.
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
		verb = "echo"
	}
	msg := &message{text: fmt.Sprintf("%s %d of %d", verb, n, s.number)}
	s.messages = append(s.messages, msg)
	began, invocation := time.Now(), ""
	for {
		events, err := s.sendMessage(ctx, msg, invocation, n%4 < 2)
		for _, ev := range events {
			if !ev.Partial {
				s.seen = append(s.seen, ev.ID)
			}
		}
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

// sendMessage sends a message or resumes its invocation.
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

// findInvocation waits as long as the error asks for and returns a stored message's invocation. It
// returns an empty string if the client must send the message again, and an error after turnLimit.
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
			return "", nil // the message would have created the session
		}
	}
}

// retryDelay returns how long to wait before a retry. It records errors that are
// neither network errors nor have Retry-After.
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

// invocationOf returns the invocation that began with the message, or an empty string.
func invocationOf(events []event, text string) string {
	i := slices.IndexFunc(events, func(e event) bool { return e.Author == "user" && e.text() == text })
	if i < 0 {
		return ""
	}
	return events[i].InvocationID
}
