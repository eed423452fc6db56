package engine

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// A Fault is what a driver error means. An error can have several, and none if the engine did not
// cause it.
type Fault uint

const (
	// Conflict is a violation of a unique index, a foreign key or NOT NULL.
	Conflict Fault = 1 << iota
	// Unwritable is a database that is full or read-only.
	Unwritable
	// Damaged is a database that cannot be read: pages, rows, or missing tables and columns.
	Damaged
	// Busy is a database file that another program has locked.
	Busy
	// Interrupted is a statement on a file that was stopped when its context ended.
	Interrupted
	// Lost is a connection or a server that is unusable.
	Lost
	// Limited is a server that has no free connection.
	Limited
	// Aborted is a transaction that the server aborted in favor of another one.
	Aborted
	// Overtaken is a table, a column or an index that another program has created meanwhile.
	Overtaken
	// NoDatabase is a server without the database.
	NoDatabase
	// Denied is a server that rejects the user.
	Denied
	// Answered is any error that a server returned.
	Answered
)

// Has reports whether f includes all faults in g.
func (f Fault) Has(g Fault) bool { return f&g == g }

// NewUnreachableError is the error for a server that could not be reached when its database
// was opened. It includes a hint.
func NewUnreachableError(err error, f Fault) error {
	return &UnreachableError{fmt.Sprintf("database unreachable: %s; %s", ConnectReason(err), connectHint(f)), err}
}

// An UnreachableError replaces a driver error's message.
type UnreachableError struct {
	text string
	err  error
}

// Error returns the message.
func (e *UnreachableError) Error() string { return e.text }

// Unwrap returns the driver error.
func (e *UnreachableError) Unwrap() error { return e.err }

// ConnectReason returns the cause in one line. The PostgreSQL driver adds a line for each
// address it tried.
func ConnectReason(err error) string {
	var refused interface {
		error
		SQLState() string
	}
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

func connectHint(f Fault) string {
	switch {
	case f.Has(NoDatabase):
		return "create the database first, or name one that exists in the URL"
	case f.Has(Denied):
		return "check the user and password in the URL, and the user's permissions on the server"
	case f.Has(Answered):
		return "see the log of the server"
	default:
		return "check that the server is running, and the host and port in the URL"
	}
}
