package tool

// An AnswerError is a failure with a response: if the failure does not end the
// run, the model gets Response instead of {"error": …}.
type AnswerError struct {
	Err      error
	Response map[string]any
}

// Error returns the message of the cause.
func (e *AnswerError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *AnswerError) Unwrap() error { return e.Err }
