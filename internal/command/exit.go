package command

import (
	"fmt"
)

// Exit codes.
const (
	ExitOK       = 0 // success
	ExitProblems = 1 // the command ran and found problems
	ExitUsage    = 2 // the command line is invalid
	ExitFailure  = 3 // the command failed
	// the command ran and found changes to apply
	ExitChanges = 4
)

// An ExitError is an error with its exit code. A nil Err means that the command has printed
// the reason already.
type ExitError struct {
	Code int
	Err  error
}

// Error returns Err's message, or names the exit code.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *ExitError) Unwrap() error { return e.Err }

// FailWith wraps an error with [ExitFailure]; nil stays nil.
func FailWith(err error) error {
	if err == nil {
		return nil
	}
	return &ExitError{ExitFailure, err}
}

// FailWithf formats an error with [ExitFailure].
func FailWithf(format string, args ...any) error { return FailWith(fmt.Errorf(format, args...)) }
