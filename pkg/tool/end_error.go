package tool

// An EndError is a failure that ends the invocation, whatever the tool's traits
// say, and that no callback may answer for: what is wrong is not the tool.
type EndError struct{ Err error }

// Error is the text of the cause.
func (e *EndError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *EndError) Unwrap() error { return e.Err }
