package tool

// An AnswerError is a failure that the tool has an answer for: where the failure does
// not end the run, the model gets this response instead of {"error": …}.
type AnswerError struct {
	Err      error
	Response map[string]any
}

// Error is the text of the cause.
func (e *AnswerError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *AnswerError) Unwrap() error { return e.Err }
