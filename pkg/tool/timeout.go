package tool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A TimeoutError reports that a tool exceeded its timeout.
type TimeoutError struct {
	// Tool is the tool's name, Timeout the limit that it exceeded.
	Tool    string
	Timeout time.Duration
}

// Error names the tool and the timeout.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("%s: timed out after %s", e.Tool, FormatDuration(e.Timeout))
}

// Unwrap returns [context.DeadlineExceeded].
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// FormatDuration omits zero units at the end: 1m, not 1m0s.
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// RunWithTimeout bounds f by a timeout; 0 means no timeout. An error of f after
// the timeout becomes a [*TimeoutError].
func RunWithTimeout(
	ctx context.Context, name string, d time.Duration, f func(context.Context) (*Result, error),
) (*Result, error) {
	if d <= 0 {
		return f(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, d, &TimeoutError{Tool: name, Timeout: d})
	defer cancel()
	res, err := f(ctx)
	if late := new(TimeoutError); err != nil && errors.As(context.Cause(ctx), &late) {
		return nil, late
	}
	return res, err
}
