package modelcall

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// WaitFor waits for d, or returns ctx's error.
func WaitFor(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A RequestedWait is the delay that a service requests before a retry. It is the cause
// of a [model.Error].
type RequestedWait time.Duration

// Error describes the delay.
func (w RequestedWait) Error() string { return "asked to wait " + time.Duration(w).String() }

// RetryAfter returns the delay that a response requests, or nil: Retry-After-Ms, or
// Retry-After (seconds, or a date relative to the response's own), or else the time
// until the limits that are used up reset.
func RetryAfter(h http.Header) error {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms >= 0 && ms < maxSeconds*1000 {
		return RequestedWait(ms * float64(time.Millisecond))
	}
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds >= 0 && seconds < maxSeconds {
		return RequestedWait(seconds * float64(time.Second))
	}
	if until, err := http.ParseTime(value); err == nil {
		return delayUntil(until, h)
	}
	return resetDelay(h)
}

// maxSeconds limits delays to what a [time.Duration] can hold.
const maxSeconds = 1e9

// delayUntil returns the delay from the response's date to a time, or nil.
func delayUntil(until time.Time, h http.Header) error {
	sent, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return nil
	}
	return RequestedWait(max(0, until.Sub(sent)))
}

// resetDelay returns the longest time until a limit resets of which nothing remains, or
// nil. OpenAI and Groq write a duration (6m0s), Anthropic a time.
func resetDelay(h http.Header) error {
	longest, found := RequestedWait(0), false
	for _, prefix := range []string{"X-Ratelimit-%s-Requests", "X-Ratelimit-%s-Tokens", "Anthropic-Ratelimit-Requests-%s", "Anthropic-Ratelimit-Tokens-%s", "Anthropic-Ratelimit-Input-Tokens-%s", "Anthropic-Ratelimit-Output-Tokens-%s"} {
		if h.Get(fmt.Sprintf(prefix, "Remaining")) != "0" {
			continue
		}
		if delay, ok := errors.AsType[RequestedWait](parseReset(h.Get(fmt.Sprintf(prefix, "Reset")), h)); ok {
			longest, found = max(longest, delay), true
		}
	}
	if !found {
		return nil
	}
	return longest
}

func parseReset(value string, h http.Header) error {
	if delay, err := time.ParseDuration(value); err == nil && delay >= 0 {
		return RequestedWait(delay)
	}
	if until, err := time.Parse(time.RFC3339, value); err == nil {
		return delayUntil(until, h)
	}
	return nil
}

// RetryDelay reads the delay from Google's error details (google.rpc.RetryInfo). It
// returns nil if there is none.
func RetryDelay(details []map[string]any) error {
	for _, d := range details {
		text, _ := d["retryDelay"].(string)
		if wait, err := time.ParseDuration(text); err == nil && wait >= 0 {
			return RequestedWait(wait)
		}
	}
	return nil
}
