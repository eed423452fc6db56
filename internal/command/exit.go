package command

import (
	"errors"
	"fmt"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
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

// FailRun returns a run's error for people, with [ExitFailure]. Its cause, which has the details,
// replaces an internal error.
func FailRun(err error) error {
	re := runtime.AsRunError(err)
	if re.Code == runtime.CodeInternal && re.Err != nil {
		return FailWith(re.Err)
	}
	if failed, ok := errors.AsType[*model.Error](err); ok && failed.URL != "" {
		return FailWith(failed) // with the address, which a server's clients do not get
	}
	return FailWith(re)
}
