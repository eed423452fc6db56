package model

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// An Error is a failed model call. No field contains a key or token.
type Error struct {
	// Code is the HTTP status, or 0 without a response.
	Code int
	// Status is the service's status, such as RESOURCE_EXHAUSTED.
	Status string
	// Reason is the service's own code for the failure, such as insufficient_quota, if it has
	// one.
	Reason string
	// Message describes the error.
	Message string
	// Err is the cause, if any.
	Err error

	// Provider and Model name the model, such as openai and gpt-4o. An error without a
	// provider has a short text.
	Provider, Model string
	// URL is the call's address without user info and query; empty if no request was sent.
	URL string
	// Attempt is the number of the attempt that failed, at most Attempts; 0 is unknown.
	Attempt, Attempts int
	// Hint is what a person can do, such as "check the key"; it may be empty.
	Hint string
}

// A CallsLimitError ends an answer with more function calls than [Request.MaxCalls].
type CallsLimitError struct{ Limit int }

// Error names the limit.
func (e *CallsLimitError) Error() string {
	return fmt.Sprintf("the function calls in one answer exceed the limit of %d", e.Limit)
}

// Error returns the model, code, status, message, address, attempt and hint, as far as
// they are known.
func (e *Error) Error() string {
	name := "model"
	if e.Provider != "" {
		name = e.Name()
	}
	code := ""
	if e.Code != 0 {
		code = strings.TrimSpace(strconv.Itoa(e.Code)+" "+e.Status) + ": "
	}
	if e.Provider == "" {
		return name + ": " + code + e.Message
	}
	call := ""
	if e.URL != "" {
		call = "POST " + e.URL
	}
	return name + ": " + code + e.withDetails(call, e.attemptText())
}

// Name returns provider/model, or the model's name alone.
func (e *Error) Name() string {
	if e.Provider == "" {
		return e.Model
	}
	return e.Provider + "/" + e.Model
}

// ClientMessage returns the message with the HTTP status, attempt and hint. It does not
// contain the address, which may be internal.
func (e *Error) ClientMessage() string {
	if e.Provider == "" {
		return e.Message
	}
	code := ""
	if e.Code != 0 && e.URL != "" {
		code = fmt.Sprintf("HTTP %d", e.Code)
	}
	return e.withDetails(code, e.attemptText())
}

// attemptText returns "" for the first attempt: it was not retried.
func (e *Error) attemptText() string {
	if e.Attempt < 2 {
		return ""
	}
	return fmt.Sprintf("attempt %d of %d", e.Attempt, e.Attempts)
}

func (e *Error) withDetails(details ...string) string {
	text, open := e.Message, " ("
	for _, d := range details {
		if d != "" {
			text += open + d
			open = ", "
		}
	}
	if open == ", " {
		text += ")"
	}
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether a retry may succeed: after no response, 408, 429 or 5xx.
func (e *Error) Retryable() bool {
	if errors.Is(e.Err, context.Canceled) {
		return false
	}
	return e.Code == 0 || e.Code == 408 || e.Code == 429 || e.Code >= 500
}

// EventCode returns an event's errorCode: the status, or else the number, or else
// MODEL_ERROR.
func (e *Error) EventCode() string {
	switch {
	case e.Status != "":
		return e.Status
	case e.Code != 0:
		return strconv.Itoa(e.Code)
	default:
		return "MODEL_ERROR"
	}
}

// A Wait is a pause before a model call attempt.
type Wait struct {
	// Model is the model's name, such as openai/gpt-4o.
	Model string
	// Cause continues a sentence about the model, such as "answered 429".
	Cause string
	// Delay is the duration; 0 is unknown.
	Delay time.Duration
	// Attempt is the number of the attempt that follows, at most Attempts; 0 means that the
	// wait is for no retry.
	Attempt, Attempts int
}

// String returns a sentence, such as "waiting 8 s: openai/gpt-4o answered 429 (attempt 2
// of 3)".
func (w Wait) String() string {
	text := "waiting"
	if w.Delay > 0 {
		text += " " + strconv.FormatFloat(w.Delay.Round(100*time.Millisecond).Seconds(), 'f', -1, 64) + " s"
	}
	text += ": " + w.Model + " " + w.Cause
	if w.Attempt > 0 {
		text += fmt.Sprintf(" (attempt %d of %d)", w.Attempt, w.Attempts)
	}
	return text
}
