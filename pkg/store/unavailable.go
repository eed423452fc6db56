package store

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

// A storeState says why the store cannot be used at the moment. It is a
// [session.ErrUnavailable].
type unavailableState string

const (
	errUnreachable  = unavailableState("the database cannot be reached")
	errUnwritable   = unavailableState("the database cannot be written")
	errNoConnection = unavailableState("the database server has no connection free")
	errReplaced     = unavailableState("the database file was removed or replaced")
)

// Error is the state.
func (s unavailableState) Error() string { return "session store: " + string(s) }

// Is makes it the error that callers know.
func (unavailableState) Is(target error) bool { return target == session.ErrUnavailable }

// classifyError returns an error as a storeState when it is one of the store, and not of
// what was asked for.
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

// The bounds of trying again: how often for the sake of others, and for how long
// when the server is gone, or has no connection free.
const (
	maxConflictAttempts = 10
	maxReconnectTime    = 2 * time.Second
	maxConnectionWait   = 10 * time.Second
	maxRetryPause       = 100 * time.Millisecond
)

// retries counts the attempts of one call after its first one.
type retries struct {
	n     int
	since time.Time
}

// nextPause returns how long to wait before the next attempt, or false when there is
// none.
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

// retryOpen opens a server's database, again while the server has no connection free.
func retryOpen[T any](ctx context.Context, d dialect, open func() (T, error)) (T, error) {
	var r retries
	for {
		opened, err := open()
		var told *openError
		if err != nil && !errors.As(err, &told) && d.isConnectionLost(err) {
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

// newUnreachableError is the error of a server that could not be reached when its
// database was opened, with what may be wrong.
func newUnreachableError(err error) error {
	return &openError{fmt.Sprintf("the database cannot be reached: %s; %s", connectReason(err), connectHint(err)), err}
}

// An openError has a text of its own for what a driver said.
type openError struct {
	text string
	err  error
}

func (e *openError) Error() string { return e.text }

func (e *openError) Unwrap() error { return e.err }

// connectReason is the cause in one line. PostgreSQL's driver has a line for each
// address that it tried, behind the name of the user.
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
		return "check user and password in the URL, and what the server lets them use"
	case code != "" || number != 0:
		return "look at the server's log"
	default:
		return "check that the server runs, and host and port in the URL"
	}
}
