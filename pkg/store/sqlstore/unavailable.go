package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"agenthost/pkg/session"
)

// An unavailableState is the reason why the store is unavailable. It is a
// [session.ErrUnavailable].
type unavailableState string

const (
	errUnreachable  = unavailableState("database unreachable")
	errUnwritable   = unavailableState("database not writable")
	errNoConnection = unavailableState("database server has no free connection")
	errReplaced     = unavailableState("database file removed or replaced")
)

// Error returns the reason.
func (s unavailableState) Error() string { return "session store: " + string(s) }

// Is matches session.ErrUnavailable.
func (unavailableState) Is(target error) bool { return target == session.ErrUnavailable }

// classifyError returns an error as an unavailableState if the store caused it,
// and not the request.
func (d *dialect) classifyError(err error) error {
	var state unavailableState
	switch {
	case err == nil || errors.Is(err, session.ErrUnavailable):
		return err
	case d.isUnwritable(err):
		state = errUnwritable
	case d.server == nil:
		return err
	case d.server.isConnectionLimit(err):
		state = errNoConnection
	case d.isConnectionLost(err):
		state = errUnreachable
	default:
		return err
	}
	return fmt.Errorf("%w: %s", state, connectReason(err))
}

// The limits of retries: the number of attempts after a conflict, and the total
// time if the server is unreachable or has no free connection.
const (
	maxConflictAttempts = 10
	maxReconnectTime    = 2 * time.Second
	maxConnectionWait   = 10 * time.Second
	maxRetryPause       = 100 * time.Millisecond
)

// retries counts the retries of one call.
type retries struct {
	n     int
	since time.Time
}

// nextPause returns the delay before the next attempt, or false if the limit is
// reached.
func (r *retries) nextPause(d *dialect, err error) (time.Duration, bool) {
	most := maxReconnectTime
	switch {
	case d.server == nil || err == nil:
		return 0, false
	case d.server.isConnectionLimit(err):
		most = maxConnectionWait
	case d.isConnectionLost(err):
	case d.server.isRetryable(err) && r.n+1 < maxConflictAttempts:
	default:
		return 0, false
	}
	if r.n == 0 {
		r.since = time.Now()
	}
	pause := min(5*time.Millisecond<<min(r.n, 5), maxRetryPause)
	r.n++
	return pause, time.Since(r.since)+pause <= most
}

// retryOpen opens the database of a server. It retries while the server has no
// free connection.
func retryOpen[T any](ctx context.Context, d dialect, open func() (T, error)) (T, error) {
	var r retries
	for {
		opened, err := open()
		var openErr *openError
		if err != nil && !errors.As(err, &openErr) && d.isConnectionLost(err) {
			err = newUnreachableError(err)
		}
		if err == nil || !d.server.isConnectionLimit(err) {
			return opened, err
		}
		pause, again := r.nextPause(&d, err)
		if !again || sleepContext(ctx, pause) != nil {
			return opened, err
		}
	}
}

// newUnreachableError is the error for a server that could not be reached when
// its database was opened. It includes a hint.
func newUnreachableError(err error) error {
	return &openError{fmt.Sprintf("database unreachable: %s; %s", connectReason(err), connectHint(err)), err}
}

// An openError replaces the message of a driver error.
type openError struct {
	text string
	err  error
}

func (e *openError) Error() string { return e.text }

func (e *openError) Unwrap() error { return e.err }

// connectReason returns the cause in one line. The PostgreSQL driver adds a
// line for each address it tried.
func connectReason(err error) string {
	var refused *pgconn.PgError
	var network *net.OpError
	switch {
	case errors.As(err, &refused):
		return refused.Error()
	case errors.As(err, &network):
		return network.Error()
	default:
		return strings.Join(strings.Fields(err.Error()), " ")
	}
}

func connectHint(err error) string {
	code, number := sqlState(err), mysqlCode(err)
	switch {
	case code == "3D000" || number == 1049:
		return "create the database first, or name one that exists in the URL"
	case code == "28P01" || code == "28000" || number == 1044 || number == 1045:
		return "check the user and password in the URL, and the user's permissions on the server"
	case code != "" || number != 0:
		return "see the log of the server"
	default:
		return "check that the server is running, and the host and port in the URL"
	}
}

func sleepContext(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
