package acpserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"agenthost/internal/limit"
	"agenthost/pkg/protocol"
	"agenthost/pkg/server"
)

// JSON-RPC error codes, and those of the protocol.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeUnknownMethod  = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
	codeCancelled      = -32800
	codeNotFound       = -32002
)

// A message is a request, a notification or a response.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  *string         `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *wireError      `json:"error"`
}

// A wireError is an error on the wire.
type wireError struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Data    map[string]any `json:"data,omitempty"`
}

// Error returns the message.
func (e *wireError) Error() string { return e.Message }

func newWireError(code int, format string, args ...any) *wireError {
	return &wireError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// newParamsError returns an error about a request's params.
func newParamsError(format string, args ...any) *wireError {
	return newWireError(codeInvalidParams, "params."+format, args...)
}

// maxShown limits what an error repeats from a message, in characters.
const maxShown = 100

// maxID limits a request's ID in bytes, which its response repeats.
const maxID = 256

// decodeLine returns a line's message. The error is the response; with an ID, if the line has one.
func decodeLine(text []byte) (*message, *wireError) {
	if text[0] == '[' {
		return nil, newWireError(codeInvalidRequest, "batches are not supported: send one message in each line")
	}
	if err := limit.RequestBody.CheckJSON(text); err != nil {
		return nil, newWireError(codeInvalidRequest, "%s", err)
	}
	m := &message{}
	if err := json.Unmarshal(text, m); err != nil {
		if wrong := describeType("message", err); wrong != "" {
			return nil, newWireError(codeInvalidRequest, "%s", wrong)
		}
		return nil, newWireError(codeParse, "message is not valid JSON: %s", protocol.TruncateText(err.Error(), maxShown))
	}
	switch {
	case !isID(m.ID):
		m.ID = nil
		return m, newWireError(codeInvalidRequest, "id must be a string or an integer of at most %d bytes", maxID)
	case m.Version != "2.0":
		return m, newWireError(codeInvalidRequest, `jsonrpc must be "2.0", got %q`, protocol.TruncateText(m.Version, maxShown))
	case m.Method == nil && (m.ID == nil || m.Result == nil && m.Error == nil):
		return m, newWireError(codeInvalidRequest, "method is required")
	}
	return m, nil
}

// isID reports whether a message's ID is valid, or absent.
func isID(id json.RawMessage) bool {
	switch {
	case len(id) == 0 || string(id) == "null":
		return true
	case len(id) > maxID:
		return false
	}
	return id[0] == '"' || (id[0] == '-' || id[0] >= '0' && id[0] <= '9') && !bytes.ContainsAny(id, ".eE")
}

// decodeParams reads a request's params. The error names the place of a wrong value.
func decodeParams(params json.RawMessage, into any) error {
	params = bytes.TrimSpace(params)
	if len(params) == 0 || params[0] != '{' {
		return newWireError(codeInvalidParams, "params must be an object")
	}
	return decodeValue("params", params, into)
}

// decodeValue reads a part of the params at a place.
func decodeValue(place string, text json.RawMessage, into any) error {
	err := json.Unmarshal(text, into)
	if err == nil {
		return nil
	}
	if wrong := describeType(place, err); wrong != "" {
		return newWireError(codeInvalidParams, "%s", wrong)
	}
	return newWireError(codeInvalidParams, "%s: %s", place, protocol.TruncateText(err.Error(), maxShown))
}

// describeType names the place of a value with a wrong type; it is empty for another error.
func describeType(place string, err error) string {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return ""
	}
	if wrong.Field != "" {
		place += "." + wrong.Field
	}
	return fmt.Sprintf("%s must be %s, got %s", protocol.TruncateText(place, maxShown), nameKind(wrong.Type), protocol.TruncateText(wrong.Value, maxShown))
}

func nameKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "an integer"
}

// encodeRequest returns a request's line; a notification's with the ID 0.
func encodeRequest(id int, method string, params any) ([]byte, error) {
	return server.EncodeJSON(struct {
		Version string `json:"jsonrpc"`
		ID      int    `json:"id,omitempty"`
		Method  string `json:"method"`
		Params  any    `json:"params"`
	}{"2.0", id, method, params})
}

// encodeResponse returns a response's line.
func encodeResponse(id json.RawMessage, result any, failed *wireError) ([]byte, error) {
	if failed == nil {
		return server.EncodeJSON(struct {
			Version string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Result  any             `json:"result"`
		}{"2.0", id, result})
	}
	if id == nil {
		id = json.RawMessage("null")
	}
	return server.EncodeJSON(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   *wireError      `json:"error"`
	}{"2.0", id, failed})
}
