package template

import "fmt"

// An Error is a problem at a position in a template or an expression. The loader
// adds Offset to the position of the text and reports a diagnostic.
type Error struct {
	Offset int    // byte offset in the source
	Msg    string // what is wrong, in the terms of YAML authors; often with a hint

	cause error
}

// Error returns Msg.
func (e *Error) Error() string { return e.Msg }

// Unwrap returns the context's error if it ended the evaluation, the error of a
// function that the expression called, or nil.
func (e *Error) Unwrap() error { return e.cause }

// A MissingError reports a required placeholder without a value. Its message is
// ADK's.
type MissingError struct {
	Ref Ref
}

// Error returns ADK's message: Context variable not found, or Artifact not found.
func (e *MissingError) Error() string {
	if e.Ref.Artifact {
		return fmt.Sprintf("Artifact %s not found.", e.Ref.Name)
	}
	return fmt.Sprintf("Context variable not found: `%s`.", e.Ref.Name)
}
