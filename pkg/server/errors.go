package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"agenthost/internal/jsonbody"
	"agenthost/internal/limit"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

// unavailableRetryAfter is the Retry-After in seconds while the store is unavailable.
// The store has already retried by then.
const unavailableRetryAfter = 2

// statusClientGone is nginx's status for a client that closed the connection.
const statusClientGone = 499

var errShuttingDown = &Error{Status: http.StatusServiceUnavailable, Code: runtime.CodeCanceled, Detail: "server is shutting down, retry later", RetryAfter: time.Second}

// Error details reveal no more than the status: not whether a user, session or path
// exists.
var (
	errUnauthenticated = errors.New("unauthenticated")
	// ErrPermissionDenied reports that the caller may not do it.
	ErrPermissionDenied = errors.New("permission denied")
	// ErrAuthUnavailable reports that callers cannot be authenticated now.
	ErrAuthUnavailable = errors.New("authentication unavailable")
)

func badRequest(message string) error {
	return &runtime.RunError{Code: runtime.CodeInvalidRequest, Message: message, Err: session.ErrInvalid}
}

// An Error is an error with its response. The server writes it as {"detail": …}, with
// Retry-After if retrying can help.
type Error struct {
	// Status is the response status.
	Status int
	// Code identifies the error for stream clients, such as NOT_FOUND.
	Code string
	// Detail describes the error to clients.
	Detail string
	// RetryAfter is the wait before another attempt, in whole seconds; 0 if retrying cannot
	// help.
	RetryAfter time.Duration
}

// NewError returns an error with a status, its usual code, and for 503 a Retry-After of 5
// seconds.
func NewError(status int, detail string) *Error {
	e := &Error{Status: status, Code: runtime.CodeInvalidRequest, Detail: detail}
	switch status {
	case http.StatusUnauthorized:
		e.Code = "UNAUTHENTICATED"
	case http.StatusNotFound:
		e.Code = "NOT_FOUND"
	case http.StatusInternalServerError:
		e.Code = runtime.CodeInternal
	case http.StatusServiceUnavailable:
		e.Code, e.RetryAfter = runtime.CodeUnavailable, 5*time.Second
	}
	return e
}

// Error returns the response detail.
func (e *Error) Error() string { return e.Detail }

func notFoundError(detail string) error { return NewError(http.StatusNotFound, detail) }

func appNotFound(app string) error { return notFoundError("App not found: " + app) }

func forbiddenError(detail string) error { return NewError(http.StatusForbidden, detail) }

// invalidVersionError reports a version that is not a number.
type invalidVersionError struct{}

// Error returns the response detail.
func (invalidVersionError) Error() string { return "Invalid version ID" }

// bodyReadError reports a request body that could not be read to its end.
type bodyReadError struct{ err error }

// Error returns the message for the log.
func (e *bodyReadError) Error() string { return "reading the request body: " + e.err.Error() }

// Unwrap returns the connection's error.
func (e *bodyReadError) Unwrap() error { return e.err }

// WrapBodyError marks an error from reading a request body, for handlers that read it
// themselves: the response is 408 if the client was too slow, 413 above the limit, otherwise
// 400.
func WrapBodyError(err error) error { return &bodyReadError{err} }

// A sessionError adds the session to an error if the path does not name it.
type sessionError struct {
	key session.Key
	err error
}

// WithSessionKey adds the session to an error, for the log, if the path does not name it.
func WithSessionKey(key session.Key, err error) error { return &sessionError{key, err} }

// WrapRunError adds the session to an error that ended a run. Invalid data that comes
// from the run itself, such as an event that cannot be stored, becomes an internal
// error: it is not the client's fault.
func WrapRunError(key session.Key, err error) error {
	var re *runtime.RunError
	if errors.Is(err, session.ErrInvalid) && !errors.As(err, &re) {
		err = runtime.AsRunError(err)
	}
	return WithSessionKey(key, err)
}

// Error returns the wrapped error's message.
func (e *sessionError) Error() string { return e.err.Error() }

// Unwrap returns the wrapped error.
func (e *sessionError) Unwrap() error { return e.err }

// A failure is the response to an error.
type failure struct {
	status int
	// code identifies the error for stream clients.
	code string
	// detail is a string or a list of [jsonbody.Detail].
	detail any
	// retryAfter is the Retry-After in seconds; 0 if retrying cannot help.
	retryAfter int
}

// classifyError is the only mapping from errors to statuses.
func classifyError(key session.Key, err error) failure {
	var (
		invalid *jsonbody.InvalidError
		large   *http.MaxBytesError
		own     *Error
		re      *runtime.RunError
		limited *rateLimitError
		unread  *bodyReadError
		crowded *limit.Error
		rules   *session.LimitError
	)
	switch {
	case errors.Is(err, errUnauthenticated):
		return failure{http.StatusUnauthorized, "UNAUTHENTICATED", "Not authenticated", 0}
	case errors.Is(err, ErrPermissionDenied):
		return failure{http.StatusForbidden, "FORBIDDEN", "Forbidden", 0}
	case errors.Is(err, ErrAuthUnavailable):
		return failure{http.StatusServiceUnavailable, "UNAVAILABLE", "Authentication is unavailable, retry later", 5}
	case errors.As(err, &limited):
		return failure{http.StatusTooManyRequests, "RATE_LIMITED", limited.Error(), limited.retryAfterSeconds()}
	case errors.As(err, &invalid):
		return failure{http.StatusUnprocessableEntity, runtime.CodeInvalidRequest, invalid.Details, 0}
	case errors.As(err, &invalidVersionError{}):
		return failure{http.StatusUnprocessableEntity, runtime.CodeInvalidRequest, err.Error(), 0}
	case errors.As(err, &large):
		detail := fmt.Sprintf("Request body exceeds the limit of %d bytes", large.Limit)
		return failure{http.StatusRequestEntityTooLarge, runtime.CodeInvalidRequest, detail, 0}
	case errors.As(err, &crowded):
		return failure{http.StatusRequestEntityTooLarge, runtime.CodeInvalidRequest, "Request body exceeds " + crowded.Excess(), 0}
	case errors.As(err, &unread):
		if errors.Is(unread.err, os.ErrDeadlineExceeded) { // the client was too slow
			return failure{http.StatusRequestTimeout, runtime.CodeInvalidRequest, "Request body timed out", 0}
		}
		return failure{http.StatusBadRequest, runtime.CodeInvalidRequest, "Request body is incomplete", 0}
	case errors.As(err, &own):
		return failure{own.Status, own.Code, own.Detail, int(own.RetryAfter / time.Second)}
	case errors.As(err, &rules):
		return failure{http.StatusRequestEntityTooLarge, runtime.CodeInvalidRequest, rules.Error(), 0}
	case errors.As(err, &re):
		return classifyRunError(re)
	default:
		return classifyStoreError(key, err)
	}
}

func classifyRunError(re *runtime.RunError) failure {
	f := failure{http.StatusInternalServerError, re.Code, re.Message, 0}
	switch re.Code {
	case runtime.CodeAppNotFound, runtime.CodeSessionNotFound:
		f.status = http.StatusNotFound
	case runtime.CodeForbidden:
		f.status = http.StatusForbidden
	case runtime.CodeInvalidRequest:
		f.status = http.StatusBadRequest
	case runtime.CodeSessionBusy, runtime.CodeSessionTaken:
		f.status, f.retryAfter = http.StatusConflict, 1
	case runtime.CodeCanceled:
		f.status, f.retryAfter = http.StatusServiceUnavailable, 1
	case runtime.CodeTimeLimit: // no Retry-After: the next attempt would cost and fail as well
		f.status = http.StatusGatewayTimeout
	case runtime.CodeUnavailable:
		f.status, f.retryAfter = http.StatusServiceUnavailable, unavailableRetryAfter
	}
	return f
}

// classifyStoreError maps store errors, which may also occur during a run: other requests may
// delete or change the session at any time.
func classifyStoreError(key session.Key, err error) failure {
	switch {
	case errors.Is(err, session.ErrNotFound):
		return failure{http.StatusNotFound, runtime.CodeSessionNotFound, "Session not found", 0}
	case errors.Is(err, session.ErrExists):
		return failure{http.StatusConflict, "SESSION_EXISTS", "Session already exists: " + key.ID, 0}
	case errors.Is(err, session.ErrBusy):
		detail := fmt.Sprintf("session %s is busy with another run, retry later", key.ID)
		return failure{http.StatusConflict, runtime.CodeSessionBusy, detail, 1}
	case errors.Is(err, session.ErrFenced):
		detail := fmt.Sprintf("session %s was taken over by another host, retry later", key.ID)
		return failure{http.StatusConflict, runtime.CodeSessionTaken, detail, 1}
	case errors.Is(err, session.ErrStale):
		detail := fmt.Sprintf("session %s was changed by another writer, retry later", key.ID)
		return failure{http.StatusConflict, "SESSION_STALE", detail, 1}
	case errors.Is(err, session.ErrUnavailable):
		detail := unavailableMessage(err) + ", retry later"
		return failure{http.StatusServiceUnavailable, runtime.CodeUnavailable, detail, unavailableRetryAfter}
	case errors.Is(err, session.ErrInvalid):
		return failure{http.StatusBadRequest, runtime.CodeInvalidRequest, spec.ClientText(err), 0}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return classifyRunError(runtime.AsRunError(err))
	default:
		return failure{http.StatusInternalServerError, runtime.CodeInternal, internalDetail, 0}
	}
}

// unavailableMessage names the store that is unavailable.
func unavailableMessage(err error) string {
	if down := (*store.ArtifactsUnavailable)(nil); errors.As(err, &down) {
		return "artifact store unavailable"
	}
	return "session store unavailable"
}

// writeError responds with an error. If the client has disconnected, it only records
// the status; during a shutdown, canceled requests still get a response.
func (s *Services) writeError(w http.ResponseWriter, r *http.Request, err error) {
	var unread *bodyReadError // its request has ended too, but the client may still read
	if r.Context().Err() != nil && s.runs.isOpen() && !errors.As(err, &unread) {
		w.WriteHeader(statusClientGone)
		return
	}
	f := s.logFailure(r, err)
	if f.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.retryAfter))
	}
	if f.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	writeDetail(w, f.status, f.detail)
}

// LogError returns the response to a request error that the handler cannot return, such as
// one after it has started to respond, and logs the cause if the response omits it.
func (s *Services) LogError(r *http.Request, err error) *Error {
	f := s.logFailure(r, err)
	detail, _ := f.detail.(string)
	return &Error{f.status, f.code, detail, time.Duration(f.retryAfter) * time.Second}
}

// logFailure classifies an error and logs the cause if the response omits it.
func (s *Services) logFailure(r *http.Request, err error) failure {
	key := PathKey(r)
	var a *sessionError
	if errors.As(err, &a) {
		key = a.key
	}
	f := classifyError(key, err)
	log, message := s.opts.Logger.ErrorContext, "request failed"
	switch {
	case errors.Is(err, session.ErrUnavailable):
		log, message = s.opts.Logger.WarnContext, unavailableMessage(err)
	case f.status != http.StatusInternalServerError:
		return f
	}
	args := []any{"method", r.Method, "path", r.URL.Path, "app", key.App, "user", key.User, "session", key.ID, "code", f.code, "error", err}
	if re := (*runtime.RunError)(nil); errors.As(err, &re) && re.Err != nil {
		args = append(args, "cause", re.Err) // which clients do not see
	}
	log(r.Context(), message, args...)
	return f
}
