package live

import (
	"errors"
	"fmt"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
)

// newRunError returns an error of the run with a message for the client. The cause, which may be nil,
// stays in the log.
func newRunError(code string, cause error, format string, args ...any) *runtime.RunError {
	return &runtime.RunError{Code: code, Message: spec.HidePaths(fmt.Sprintf(format, args...), cause), Err: cause}
}

func invalidRequest(format string, args ...any) error {
	return newRunError(runtime.CodeInvalidRequest, session.ErrInvalid, format, args...)
}

// errPanicked is all that clients see of a panic; the log has the details.
var errPanicked = errors.New("it panicked")

// errLiveEnded is the cause of tool calls that the end of a live run cancels.
var errLiveEnded = errors.New("the live run has ended")
