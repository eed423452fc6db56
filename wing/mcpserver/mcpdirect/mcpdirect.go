// Package mcpdirect reads and answers an MCP client's usual tool call: one request, and one response.
//
// The SDK opens a session for each request outside a session, and decodes its parts 13 times with a 32 KiB
// buffer each, which costs five turns by an agent; in a session, a call passes through
// several goroutines and an event stream, which costs six. A call that is read here has exactly the form
// that the protocol describes. The SDK handles every other one, so that it alone rejects requests.
package mcpdirect

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/internal/adkjson"
	"agenthost/pkg/session"
)

const (
	method     = "tools/call"
	nameHeader = "Mcp-Name"
	// paramPrefix begins the headers that repeat arguments.
	paramPrefix = "Mcp-Param-"
	// maxID limits the length of a request's ID as JSON.
	maxID = 256
	// sessionHeader has the ID of the client's session.
	sessionHeader = "Mcp-Session-Id"
)

// sessionVersions are the versions with sessions whose clients name them.
var sessionVersions = []string{"2025-06-18", "2025-11-25"}

// DecodeName replaces the header Mcp-Name by its value, if it has the form for values that are not ASCII.
// The SDK compares it with the body as it is.
func DecodeName(header http.Header) {
	encoded, isEncoded := strings.CutPrefix(header.Get(nameHeader), "=?base64?")
	encoded, isWhole := strings.CutSuffix(encoded, "?=")
	if !isEncoded || !isWhole {
		return
	}
	if name, err := base64.StdEncoding.DecodeString(encoded); err == nil {
		header.Set(nameHeader, string(name))
	}
}

// A Call is a tool call with one response.
type Call struct {
	// ID is the request's, in JSON.
	ID json.RawMessage
	// Params are the tool's name, its arguments and the request's metadata.
	Params *mcp.CallToolParamsRaw
	// Capabilities are the client's. Roots are not among them. They are nil in a session, which has them.
	Capabilities *mcp.ClientCapabilities
}

// ReadCall returns the call in a complete request in a version of the protocol; nil if the SDK must handle
// it: it is another request, has a header or a field that is not usual, expects notifications, or is
// invalid.
func ReadCall(header http.Header, version string, body []byte) *Call {
	if !hasUsualHeaders(header) || header.Get("MCP-Protocol-Version") != version || header.Get("Mcp-Method") != method || header.Get(sessionHeader) != "" {
		return nil
	}
	c := readRequest(body)
	if c == nil || c.Params.Name != header.Get(nameHeader) || !isUsualMeta(c.Params.Meta, version) {
		return nil
	}
	capabilities, err := readCapabilities(c.Params.Meta)
	if err != nil {
		return nil
	}
	c.Capabilities = capabilities
	return c
}

// ReadSessionCall returns the call in a request that belongs to a session; nil if the SDK must handle it.
func ReadSessionCall(header http.Header, body []byte) *Call {
	if !hasUsualHeaders(header) || !slices.Contains(sessionVersions, header.Get("MCP-Protocol-Version")) || header.Get(sessionHeader) == "" {
		return nil
	}
	c := readRequest(body)
	if c == nil || header.Get(nameHeader) != "" && c.Params.Name != header.Get(nameHeader) {
		return nil
	}
	for key := range c.Params.Meta {
		if !isTrace(key) {
			return nil
		}
	}
	return c
}

// ReadCanceled returns the ID of the request that a notification cancels; nil for another message.
func ReadCanceled(body []byte) json.RawMessage {
	if !bytes.Contains(body, []byte(`notifications/cancelled`)) {
		return nil
	}
	msg, err := readFields(body, "jsonrpc", "method", "params")
	if err != nil || string(msg["method"]) != `"notifications/cancelled"` {
		return nil
	}
	params, err := readFields(msg["params"], "requestId", "reason", "_meta")
	if err != nil || !isID(params["requestId"]) {
		return nil
	}
	return params["requestId"]
}

// readRequest returns the call in a message without fields that are not usual, or nil.
func readRequest(body []byte) *Call {
	msg, err := readFields(body, "jsonrpc", "id", "method", "params")
	if err != nil || string(msg["jsonrpc"]) != `"2.0"` || string(msg["method"]) != `"`+method+`"` || !isID(msg["id"]) {
		return nil
	}
	params, err := readFields(msg["params"], "name", "arguments", "_meta")
	if err != nil {
		return nil
	}
	given, err := session.DecodeValue(params["name"])
	if err != nil {
		return nil
	}
	name, ok := given.(string)
	if !ok || name == "" {
		return nil
	}
	var meta map[string]any
	if len(params["_meta"]) > 0 {
		if meta, err = session.DecodeMap(params["_meta"]); err != nil {
			return nil
		}
	}
	args := params["arguments"]
	if len(args) > 0 && args[0] != '{' {
		return nil
	}
	return &Call{ID: msg["id"], Params: &mcp.CallToolParamsRaw{Meta: meta, Name: name, Arguments: args}}
}

func hasUsualHeaders(header http.Header) bool {
	for name := range header {
		if strings.HasPrefix(name, paramPrefix) {
			return false
		}
	}
	return header.Get("Content-Type") == "application/json" && header.Get("Last-Event-ID") == "" && acceptsBoth(header.Values("Accept"))
}

// acceptsBoth reports whether a client takes JSON and event streams, which the protocol requires.
func acceptsBoth(values []string) bool {
	var isJSON, isStream bool
	for _, value := range values {
		for media := range strings.SplitSeq(value, ",") {
			switch strings.TrimSpace(media) {
			case "application/json":
				isJSON = true
			case "text/event-stream":
				isStream = true
			case "*/*":
				isJSON, isStream = true, true
			}
		}
	}
	return isJSON && isStream
}

// errUnusual reports JSON that is not an object with usual fields.
var errUnusual = errors.New("not an object with usual fields")

// readFields returns the fields of an object that has no others than the named ones.
func readFields(text []byte, names ...string) (map[string]json.RawMessage, error) {
	r := &adkjson.Decoder{Buf: text}
	fields := r.ReadRawMap()
	if r.CheckEnd() != nil {
		return nil, errUnusual
	}
	for name := range fields {
		if !slices.Contains(names, name) {
			return nil, errUnusual
		}
	}
	return fields, nil
}

// isID reports whether an ID is a string or an integer.
func isID(text json.RawMessage) bool {
	return len(text) > 0 && len(text) <= maxID && (text[0] == '"' || strings.Trim(string(text), "0123456789") == "")
}

// isUsualMeta reports whether a request's metadata expects no notification, and has valid values.
func isUsualMeta(meta map[string]any, version string) bool {
	if meta[mcp.MetaKeyProtocolVersion] != version {
		return false
	}
	for key, value := range meta {
		switch key {
		case mcp.MetaKeyProtocolVersion, mcp.MetaKeyClientCapabilities:
		case mcp.MetaKeyClientInfo:
			if !isUsualInfo(value) {
				return false
			}
		default:
			if !isTrace(key) {
				return false
			}
		}
	}
	return true
}

// isTrace reports whether a key of the metadata has the trace context.
func isTrace(key string) bool { return key == "traceparent" || key == "tracestate" || key == "baggage" }

// readCapabilities decodes what a client can do.
func readCapabilities(meta map[string]any) (*mcp.ClientCapabilities, error) {
	given, ok := meta[mcp.MetaKeyClientCapabilities].(map[string]any)
	all := &mcp.ClientCapabilities{}
	switch {
	case !ok:
		return nil, errUnusual
	case len(given) == 0:
		return all, nil
	}
	text, err := json.Marshal(given)
	if err != nil {
		return nil, err
	}
	return all, json.Unmarshal(text, all)
}

func isUsualInfo(value any) bool {
	info, ok := value.(map[string]any)
	for key, field := range info {
		_, isText := field.(string)
		ok = ok && isText && slices.Contains([]string{"name", "title", "version"}, key)
	}
	return ok
}

// EncodeResult returns the response with a result. Info is the server's name and version in JSON; in a
// session, which has them, results have neither these nor a type.
func (c *Call) EncodeResult(result *mcp.CallToolResult, info json.RawMessage) ([]byte, error) {
	if c.Capabilities == nil {
		return c.encodeField("result", result)
	}
	own, kind := *result, "complete"
	own.Meta = maps.Clone(own.Meta)
	if own.Meta == nil {
		own.Meta = mcp.Meta{}
	}
	own.Meta[mcp.MetaKeyServerInfo] = info
	if own.InputRequests != nil {
		kind = "input_required"
	}
	text, err := own.MarshalJSON()
	if err != nil {
		return nil, err
	}
	response := c.beginResponse(len(text))
	response = append(response, `"result":{"resultType":"`+kind+`",`...)
	return append(append(response, text[1:]...), '}'), nil
}

// EncodeError returns the response with an error.
func (c *Call) EncodeError(failure *jsonrpc.Error) ([]byte, error) {
	return c.encodeField("error", failure)
}

// encodeField returns the response with one field besides the ID.
func (c *Call) encodeField(name string, value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	response := append(c.beginResponse(len(text)), `"`+name+`":`...)
	return append(append(response, text...), '}'), nil
}

// beginResponse returns the beginning of a response, with room for its rest.
func (c *Call) beginResponse(size int) []byte {
	response := make([]byte, 0, size+len(c.ID)+100)
	response = append(response, `{"jsonrpc":"2.0","id":`...)
	return append(append(response, c.ID...), ',')
}
