package model

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// An Error is a failed model call, as the service named it.
type Error struct {
	// Code is the HTTP status, or 0 when there was no answer.
	Code int
	// Status is the service's word for it, such as RESOURCE_EXHAUSTED.
	Status string
	// Message is for people. It never holds a key or a token.
	Message string
	// Err is the cause, if any.
	Err error
}

// Error says code, status and message.
func (e *Error) Error() string {
	switch {
	case e.Code != 0 && e.Status != "":
		return fmt.Sprintf("model: %d %s: %s", e.Code, e.Status, e.Message)
	case e.Code != 0:
		return fmt.Sprintf("model: %d: %s", e.Code, e.Message)
	default:
		return "model: " + e.Message
	}
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Retryable says whether the same call may succeed later: no answer at all,
// 408, 429, or a 5xx.
func (e *Error) Retryable() bool {
	if errors.Is(e.Err, context.Canceled) {
		return false
	}
	return e.Code == 0 || e.Code == 408 || e.Code == 429 || e.Code >= 500
}

// EventCode is the text that an event carries as its errorCode: the status if
// there is one, else the number, else MODEL_ERROR.
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
