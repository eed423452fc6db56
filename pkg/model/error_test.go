package model

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

func TestError(t *testing.T) {
	cut := errors.New("connection cut")
	tests := []struct {
		name  string
		in    *Error
		text  string
		code  string
		retry bool
	}{
		{"code and status", &Error{Code: 429, Status: "RESOURCE_EXHAUSTED", Message: "slow down"}, "model: 429 RESOURCE_EXHAUSTED: slow down", "RESOURCE_EXHAUSTED", true},
		{"code alone", &Error{Code: 503, Message: "overloaded"}, "model: 503: overloaded", "503", true},
		{"no answer", &Error{Message: "connection cut", Err: cut}, "model: connection cut", "MODEL_ERROR", true},
		{"timeout of the service", &Error{Code: 408, Message: "too slow"}, "model: 408: too slow", "408", true},
		{"a wrong request", &Error{Code: 400, Status: "INVALID_ARGUMENT", Message: "no such model"}, "model: 400 INVALID_ARGUMENT: no such model", "INVALID_ARGUMENT", false},
		{"forbidden", &Error{Code: 403, Message: "no"}, "model: 403: no", "403", false},
		{"the caller gave up", &Error{Message: "canceled", Err: fmt.Errorf("asking: %w", context.Canceled)}, "model: canceled", "MODEL_ERROR", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.in.Error(); got != tt.text {
				t.Errorf("Error() = %q, want %q", got, tt.text)
			}
			if got := tt.in.EventCode(); got != tt.code {
				t.Errorf("EventCode() = %q, want %q", got, tt.code)
			}
			if got := tt.in.Retryable(); got != tt.retry {
				t.Errorf("Retryable() = %v, want %v", got, tt.retry)
			}
		})
	}
}

func TestErrorCause(t *testing.T) {
	cause := errors.New("cut")
	err := fmt.Errorf("step 2: %w", &Error{Message: "no answer", Err: cause})
	if !errors.Is(err, cause) {
		t.Error("errors.Is does not find the cause")
	}
	if me, ok := errors.AsType[*Error](err); !ok || me.Message != "no answer" {
		t.Errorf("errors.AsType = %v, %v", me, ok)
	}
}
