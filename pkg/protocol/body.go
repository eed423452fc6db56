package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"agenthost/pkg/server"
)

// A FieldError is a value in a request's body that has the wrong type.
type FieldError struct {
	// Field is the path of the value; empty for the body.
	Field, Message string
}

// Error returns the message for the client.
func (e *FieldError) Error() string { return e.Message }

// ReadObject reads a request's body, a JSON object, into q. The error is a [*FieldError], or one of the
// server's.
func ReadObject(s *server.Services, w http.ResponseWriter, r *http.Request, q any) error {
	var text json.RawMessage
	if err := s.ReadJSON(w, r, &text); err != nil {
		return err
	}
	err := json.Unmarshal(text, q)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong) && wrong.Field != "":
		return &FieldError{wrong.Field, fmt.Sprintf("%s must be %s, got %s", wrong.Field, nameType(wrong.Type.Kind().String()), wrong.Value)}
	case err != nil:
		return &FieldError{"", "The body must be a JSON object"}
	}
	return nil
}

// nameType names a Go type as JSON's.
func nameType(kind string) string {
	switch kind {
	case "bool":
		return "a boolean"
	case "int":
		return "an integer"
	case "slice":
		return "an array"
	case "map", "struct":
		return "an object"
	}
	return "a " + kind
}
