// Package modelcall is what all kinds of model calls share: their errors, the delays that
// services request, and complete responses.
package modelcall

import (
	"net/http"
	"net/url"

	"agenthost/pkg/model"
)

// OverloadedStatus is the status in Anthropic's overloaded_error.
const OverloadedStatus = 529

// BareURL returns a URL without user info, query and fragment, for errors.
func BareURL(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// ReasonCode returns the HTTP status for an error that a service sends inside a response with
// status 200, or 0.
func ReasonCode(reason string) int {
	switch reason {
	case "invalid_request_error", "context_length_exceeded", "invalid_prompt":
		return http.StatusBadRequest
	case "authentication_error", "invalid_api_key":
		return http.StatusUnauthorized
	case "billing_error", "insufficient_quota":
		return http.StatusPaymentRequired
	case "permission_error":
		return http.StatusForbidden
	case "not_found_error", "model_not_found":
		return http.StatusNotFound
	case "request_too_large":
		return http.StatusRequestEntityTooLarge
	case "rate_limit_error", "rate_limit_exceeded":
		return http.StatusTooManyRequests
	case "api_error", "server_error", "internal_server_error":
		return http.StatusInternalServerError
	case "timeout_error":
		return http.StatusGatewayTimeout
	case "overloaded_error":
		return OverloadedStatus
	}
	return 0
}

// NewConfigError returns a configuration error. Retries cannot fix it, so it has the status
// that the service would return.
func NewConfigError(code int, message string) *model.Error {
	return &model.Error{Code: code, Status: StatusWord(code), Message: message}
}

// StatusWord returns Google's name for an HTTP status (google.rpc.Code).
func StatusWord(code int) string {
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

// ReasonPaused is the reason for a turn with more pauses.
const ReasonPaused = "pause_turn"
