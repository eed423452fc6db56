package tool

// An EndError is a failure that ends the invocation, whatever the tool's
// capabilities, and that no callback may handle: its cause is outside the tool.
type EndError struct{ Err error }

// Error returns the message of the cause.
func (e *EndError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *EndError) Unwrap() error { return e.Err }
