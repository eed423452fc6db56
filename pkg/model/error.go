package model

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// An Error is a failed model call.
type Error struct {
	// Code is the HTTP status, or 0 without a response.
	Code int
	// Status is the status of the service, such as RESOURCE_EXHAUSTED.
	Status string
	// Message describes the error. It contains no key or token.
	Message string
	// Err is the cause, if any.
	Err error
}

// Error returns the code, status and message.
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

// Retryable reports whether a retry may succeed: after no response, 408, 429 or 5xx.
func (e *Error) Retryable() bool {
	if errors.Is(e.Err, context.Canceled) {
		return false
	}
	return e.Code == 0 || e.Code == 408 || e.Code == 429 || e.Code >= 500
}

// EventCode returns the errorCode of an event: the status, or else the number, or else
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
