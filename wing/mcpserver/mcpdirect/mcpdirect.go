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
	c, meta := readRequest(body)
	if c == nil || c.Params.Name != header.Get(nameHeader) || meta.version != version || meta.capabilities == nil {
		return nil
	}
	c.Capabilities = &mcp.ClientCapabilities{}
	if string(meta.capabilities) != "{}" && (meta.capabilities[0] != '{' || json.Unmarshal(meta.capabilities, c.Capabilities) != nil) {
		return nil
	}
	return c
}

// ReadSessionCall returns the call in a request that belongs to a session; nil if the SDK must handle it.
func ReadSessionCall(header http.Header, body []byte) *Call {
	if !hasUsualHeaders(header) || !slices.Contains(sessionVersions, header.Get("MCP-Protocol-Version")) || header.Get(sessionHeader) == "" {
		return nil
	}
	c, meta := readRequest(body)
	if c == nil || header.Get(nameHeader) != "" && c.Params.Name != header.Get(nameHeader) || meta.hasClient() {
		return nil
	}
	return c
}

// ReadCanceled returns the ID of the request that a notification cancels; nil for another message.
func ReadCanceled(body []byte) json.RawMessage {
	if !bytes.Contains(body, []byte(`notifications/cancelled`)) {
		return nil
	}
	msg, ok := readFields(body, "jsonrpc", "method", "params")
	if !ok || string(msg[1]) != `"notifications/cancelled"` {
		return nil
	}
	params, ok := readFields(msg[2], "requestId", "reason", "_meta")
	if !ok || !isID(params[0]) {
		return nil
	}
	return params[0]
}

// readRequest returns the call in a message without fields that are not usual, and its metadata; nil for
// another message.
func readRequest(body []byte) (*Call, *metadata) {
	msg, ok := readFields(body, "jsonrpc", "id", "method", "params")
	if !ok || string(msg[0]) != `"2.0"` || !isID(msg[1]) || string(msg[2]) != `"`+method+`"` {
		return nil, nil
	}
	params, ok := readFields(msg[3], "name", "arguments", "_meta")
	if !ok {
		return nil, nil
	}
	name, args := readText(params[0]), params[1]
	meta := readMeta(params[2])
	if name == "" || meta == nil || len(args) > 0 && args[0] != '{' {
		return nil, nil
	}
	return &Call{ID: msg[1], Params: &mcp.CallToolParamsRaw{Meta: meta.given, Name: name, Arguments: args}}, meta
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

// maxFields is how many fields a message's objects have.
const maxFields = 4

// readFields returns the values of an object's fields in the order of their names, and reports whether the
// text is an object without other fields.
func readFields(text []byte, names ...string) (fields [maxFields]json.RawMessage, ok bool) {
	r, isUsual := &adkjson.Decoder{Buf: text}, true
	r.ReadObject(func(key []byte) {
		i := slices.IndexFunc(names, func(name string) bool { return name == string(key) })
		value := r.ReadRawValue()
		if i < 0 {
			isUsual = false
			return
		}
		fields[i] = value
	})
	return fields, r.CheckEnd() == nil && isUsual
}

// readText returns a string that is not empty; an empty one for other JSON.
func readText(text json.RawMessage) string {
	given, _ := session.DecodeValue(text)
	value, _ := given.(string)
	return value
}

// isID reports whether an ID is a string or an integer.
func isID(text json.RawMessage) bool {
	return len(text) > 0 && len(text) <= maxID && (text[0] == '"' || strings.Trim(string(text), "0123456789") == "")
}

// A metadata is a request's, with usual keys only.
type metadata struct {
	// given has the version and the trace.
	given mcp.Meta
	// version is the protocol's; empty without one.
	version string
	// capabilities are the client's as JSON, and info is its name and version; nil without them.
	capabilities, info json.RawMessage
}

// hasClient reports whether the metadata describes the client, as it does outside a session.
func (m *metadata) hasClient() bool { return m.version != "" || m.capabilities != nil || m.info != nil }

// readMeta decodes metadata, which may be absent. It returns nil for metadata that expects notifications
// or has an unusual value.
func readMeta(text json.RawMessage) *metadata {
	m := &metadata{}
	if len(text) == 0 {
		return m
	}
	r, isUsual := &adkjson.Decoder{Buf: text}, true
	r.ReadObject(func(key []byte) {
		value := r.ReadRawValue()
		switch string(key) {
		case mcp.MetaKeyProtocolVersion:
			m.version = readText(value)
			m.addKey(mcp.MetaKeyProtocolVersion, m.version)
		case mcp.MetaKeyClientCapabilities:
			m.capabilities = value
		case mcp.MetaKeyClientInfo:
			m.info = value
			isUsual = isUsual && isUsualInfo(value)
		case "traceparent", "tracestate", "baggage":
			trace, err := session.DecodeValue(value)
			isUsual = isUsual && err == nil
			m.addKey(string(key), trace)
		default:
			isUsual = false
		}
	})
	if r.CheckEnd() != nil || !isUsual {
		return nil
	}
	return m
}

func (m *metadata) addKey(key string, value any) {
	if m.given == nil {
		m.given = mcp.Meta{}
	}
	m.given[key] = value
}

// isUsualInfo reports whether a client's description has a name, a title and a version only.
func isUsualInfo(text json.RawMessage) bool {
	fields, ok := readFields(text, "name", "title", "version")
	for _, field := range fields {
		ok = ok && (len(field) == 0 || field[0] == '"')
	}
	return ok
}

// EncodeResult returns the response with a result, which has no metadata of its own. Info is the server's name and version in JSON; in a
// session, which has them, results have neither these nor a type.
func (c *Call) EncodeResult(result *mcp.CallToolResult, info json.RawMessage) ([]byte, error) {
	if c.Capabilities == nil {
		return c.encodeField("result", result)
	}
	kind := "complete"
	if result.InputRequests != nil {
		kind = "input_required"
	}
	text, err := result.MarshalJSON()
	if err != nil {
		return nil, err
	}
	response := c.beginResponse(len(text) + len(info))
	response = append(response, `"result":{"resultType":"`+kind+`","_meta":{"`+mcp.MetaKeyServerInfo+`":`...)
	response = append(append(response, info...), "},"...)
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
