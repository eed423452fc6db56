package template

import "fmt"

// An Error is a problem at a place of a text or an expression. The loader
// adds Offset to the place of the text and makes a diagnostic of it.
type Error struct {
	Offset int    // byte offset in the source
	Msg    string // what is wrong, in ordinary words; often with a hint

	cause error
}

// Error returns Msg.
func (e *Error) Error() string { return e.Msg }

// Unwrap returns the context's error when it ended an evaluation, the error of
// a function that the expression called, or nil.
func (e *Error) Unwrap() error { return e.cause }

// A MissingError is a required placeholder without a value. Its text is the
// one that ADK prints.
type MissingError struct {
	Ref Ref
}

// Error returns ADK's text: Context variable not found, or Artifact not found.
func (e *MissingError) Error() string {
	if e.Ref.Artifact {
		return fmt.Sprintf("Artifact %s not found.", e.Ref.Name)
	}
	return fmt.Sprintf("Context variable not found: `%s`.", e.Ref.Name)
}
