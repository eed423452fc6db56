package provider

import (
	"net/http"
	"strconv"
	"time"
)

// statusWord returns Google's name of an HTTP status (google.rpc.Code).
func statusWord(code int) string {
	switch code {
	case http.StatusBadRequest:
		return "INVALID_ARGUMENT"
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusConflict:
		return "ABORTED"
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case 499:
		return "CANCELLED"
	case http.StatusInternalServerError:
		return "INTERNAL"
	case http.StatusNotImplemented:
		return "UNIMPLEMENTED"
	case http.StatusServiceUnavailable:
		return "UNAVAILABLE"
	case http.StatusGatewayTimeout:
		return "DEADLINE_EXCEEDED"
	default:
		return ""
	}
}

// A requestedWait is the delay that a service requests before a retry. It is the cause
// of a [model.Error].
type requestedWait time.Duration

func (w requestedWait) Error() string { return "asked to wait " + time.Duration(w).String() }

// retryAfter parses the Retry-After header: seconds, or a date relative to the
// response's own date. It returns nil if there is none.
func retryAfter(h http.Header) error {
	value := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil && seconds >= 0 {
		return requestedWait(time.Duration(seconds) * time.Second)
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return nil
	}
	sent, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return nil
	}
	return requestedWait(max(0, until.Sub(sent)))
}

// retryDelay reads the delay from Google's error details (google.rpc.RetryInfo). It
// returns nil if there is none.
func retryDelay(details []map[string]any) error {
	for _, d := range details {
		text, _ := d["retryDelay"].(string)
		if wait, err := time.ParseDuration(text); err == nil && wait >= 0 {
			return requestedWait(wait)
		}
	}
	return nil
}
