package live

import (
	"errors"
	"fmt"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
)

// newRunError returns a run error with a message for the client. The cause, which may be nil, stays
// in the log.
func newRunError(code string, cause error, format string, args ...any) *runtime.RunError {
	return &runtime.RunError{Code: code, Message: spec.HidePaths(fmt.Sprintf(format, args...), cause), Err: cause}
}

func invalidRequest(format string, args ...any) error {
	return newRunError(runtime.CodeInvalidRequest, session.ErrInvalid, format, args...)
}

// errPanicked is all that clients learn about a panic; the log has the details.
var errPanicked = errors.New("it panicked")

// errLiveEnded is the cause with which an ending live run cancels tool calls.
var errLiveEnded = errors.New("the live run has ended")
