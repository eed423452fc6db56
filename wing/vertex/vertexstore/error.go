package vertexstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"agenthost/pkg/session"
)

// A serviceError is the service's error response.
type serviceError struct {
	code            int
	status, message string
	// hint is an instruction for the operator; it may be empty.
	hint string
}

// Error returns the code, the status and the message.
func (e *serviceError) Error() string {
	text := fmt.Sprintf("%d %s", e.code, e.status)
	if e.message != "" {
		text += ": " + e.message
	}
	if e.hint != "" {
		text += "; hint: " + e.hint
	}
	return text
}

// Unwrap returns [session.ErrUnavailable] if the request may succeed later.
func (e *serviceError) Unwrap() error {
	if e.code == http.StatusUnauthorized || isRetryable(e.code) {
		return session.ErrUnavailable
	}
	return nil
}

// A connectionError reports that no response arrived.
type connectionError struct{ err error }

// Error returns the cause.
func (e *connectionError) Error() string { return "cannot reach Vertex AI: " + e.err.Error() }

// Unwrap returns the cause and [session.ErrUnavailable].
func (e *connectionError) Unwrap() []error { return []error{e.err, session.ErrUnavailable} }

// A credentialError reports that there is no valid access token.
type credentialError struct{ err error }

// Error returns the cause and an instruction.
func (e *credentialError) Error() string {
	return "requesting a Google access token: " + e.err.Error() + "; hint: " + loginHint
}

// Unwrap returns the cause and [session.ErrUnavailable].
func (e *credentialError) Unwrap() []error { return []error{e.err, session.ErrUnavailable} }

const loginHint = "renew the host's credentials: GOOGLE_APPLICATION_CREDENTIALS, or gcloud auth application-default login"

// maxMessage limits the service's message in an error, in characters.
const maxMessage = 500

// decodeError returns the error in a response body, or nil. A successful response may have one.
func (r *resource) decodeError(code int, body []byte) *serviceError {
	type errorBody struct {
		Error *struct {
			Code            int
			Status, Message string
		}
	}
	var one errorBody
	var list []errorBody
	if json.Unmarshal(body, &one) != nil && json.Unmarshal(body, &list) == nil && len(list) > 0 {
		one = list[0]
	}
	if one.Error == nil && code < 300 {
		return nil
	}
	e := &serviceError{code: code, status: http.StatusText(code)}
	if one.Error != nil {
		if code < 300 {
			e.code = http.StatusInternalServerError
			if one.Error.Code >= 400 && one.Error.Code < 600 {
				e.code = one.Error.Code
			}
		}
		e.status = one.Error.Status
		text := []rune(strings.ToValidUTF8(one.Error.Message, "�"))
		e.message = string(text[:min(len(text), maxMessage)])
	}
	e.hint = r.explainError(e)
	return e
}

// explainError returns what an operator can do about an error.
func (r *resource) explainError(e *serviceError) string {
	name := r.resourceName()
	switch e.code {
	case http.StatusUnauthorized:
		if r.key != "" {
			return "GOOGLE_API_KEY is not a valid key for " + name
		}
		return loginHint
	case http.StatusForbidden:
		if strings.Contains(e.message, "SERVICE_DISABLED") || strings.Contains(e.message, "has not been used in project") {
			return "enable aiplatform.googleapis.com in project " + r.project
		}
		return fmt.Sprintf("check that the project exists, and grant the host's account the role roles/aiplatform.user on it, for %s", name)
	case http.StatusNotFound:
		if r.project == "" {
			return fmt.Sprintf("check that %s exists and belongs to the key", name)
		}
		return fmt.Sprintf("check that %s exists in project %s, and that its location is %s", name, r.project, r.location)
	case http.StatusTooManyRequests:
		return "the project's quota in this location is exhausted: wait, or request more quota for Vertex AI"
	}
	return ""
}

// isMissingSession reports whether an error means that a session, and not its engine, is
// missing.
func isMissingSession(err error) bool {
	e, ok := errors.AsType[*serviceError](err)
	return ok && e.code == http.StatusNotFound && (strings.Contains(e.message, "/sessions/") || strings.HasPrefix(strings.ToLower(e.message), "session"))
}

// isUncertain reports whether a failed request may have been carried out.
func isUncertain(err error) bool {
	if _, ok := errors.AsType[*connectionError](err); ok {
		return true
	}
	e, ok := errors.AsType[*serviceError](err)
	return ok && (e.code == http.StatusRequestTimeout || e.code >= 500)
}

func hasCode(err error, code int) bool {
	e, ok := errors.AsType[*serviceError](err)
	return ok && e.code == code
}

// isRetryable reports whether the same request may succeed later.
func isRetryable(code int) bool {
	switch code {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
