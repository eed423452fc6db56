package mcptool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/internal/limit"
)

// The library closes the connection when it cannot decode a message, and thereby loses the result
// from an executed call. So each message passes a messageFilter first, for every transport. It does
// two things:
//
//   - It repairs the envelope: the version, ids that return as strings, errors that are texts,
//     batches. A response that cannot be repaired becomes an error for its request.
//   - It wraps call and list results: the library sees only an object with the
//     original text, which unwrapResult returns. decode.go reads it, and keeps what it can.

// resultKey is the _meta member that has the result as the server sent it. Every result is wrapped,
// so no server can forge it.
const resultKey = "agenthost/result"

// unreadableCode is the code for errors that replace unreadable responses.
const unreadableCode = -32099

// The methods that a stateless connection begins with.
const (
	discoverMethod = "server/discover"
	listenMethod   = "subscriptions/listen"
)

// callMethod is the request that calls a tool.
const callMethod = "tools/call"

// The extension's requests. The header Mcp-Name has the task's ID.
const (
	getTaskMethod    = "tasks/get"
	updateTaskMethod = "tasks/update"
	cancelTaskMethod = "tasks/cancel"
)

// taskMethods lists the extension's requests.
func taskMethods() []string { return []string{getTaskMethod, updateTaskMethod, cancelTaskMethod} }

// wrappedMethods are the requests with wrapped results.
func wrappedMethods() []string {
	return append(taskMethods(), callMethod, "tools/list", "resources/list", "resources/read", "prompts/list", "prompts/get")
}

// unwrapResult returns the result that the server sent.
func unwrapResult(meta mcp.Meta) []byte {
	raw, _ := meta[resultKey].(string)
	return []byte(raw)
}

// A messageFilter repairs one connection's messages. It is safe for concurrent use.
type messageFilter struct {
	guard  *connGuard
	logger *slog.Logger
	// server is its name, and clean prepares its text for the log.
	server string
	clean  func(text string) string

	// skipped counts the connection's lines and messages that were left out.
	skipped *atomic.Int64

	mu sync.Mutex
	// methods are the methods of requests without a response, by id as JSON.
	methods map[string]string
	// description is the _meta of server/discover: each request of a stateless connection has it.
	description map[string]json.RawMessage
}

// A message is one message from the server, repaired.
type message struct {
	members    map[string]json.RawMessage
	isResponse bool
	// isWrapped is set for a response whose result the library gets wrapped.
	isWrapped bool
}

// newFilter returns a new connection's filter.
func (l *link) newFilter(guard *connGuard) *messageFilter {
	return &messageFilter{guard: guard, logger: l.logger, server: l.server.displayName(), clean: l.cleanText, skipped: new(atomic.Int64), methods: map[string]string{}}
}

// newCallFilter returns a filter for the HTTP response to one request, whatever id it has.
func (f *messageFilter) newCallFilter(id, method string) *messageFilter {
	return &messageFilter{guard: f.guard, logger: f.logger, server: f.server, clean: f.clean, skipped: f.skipped, methods: map[string]string{id: method}}
}

// recordMessage records a message to the server. It returns a request's id, or the id of the
// server's request that the message answers; both are "" for a notification.
func (f *messageFilter) recordMessage(raw []byte) (request, response string) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params json.RawMessage
	}
	switch err := json.Unmarshal(raw, &m); {
	case err != nil:
		return "", ""
	case m.Method == "" && len(m.ID) > 0:
		return "", plainID(m.ID)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case m.Method == "notifications/cancelled":
		var p struct {
			RequestID json.RawMessage `json:"requestId"`
		}
		if json.Unmarshal(m.Params, &p) == nil {
			delete(f.methods, string(p.RequestID))
		}
	case m.Method != "" && len(m.ID) > 0:
		if m.Method == discoverMethod {
			f.description = readDescription(m.Params)
		}
		f.guard.recordMethod(m.Method)
		f.methods[string(m.ID)] = m.Method
		return string(m.ID), ""
	}
	return "", ""
}

// describeClient returns the members of _meta that describe the client in each request of a stateless
// connection.
func (f *messageFilter) describeClient() map[string]json.RawMessage {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.description
}

// readDescription returns a request's _meta.
func readDescription(params json.RawMessage) map[string]json.RawMessage {
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if json.Unmarshal(params, &p) != nil { // the library encodes an object
		return nil
	}
	return p.Meta
}

// acceptRequest reports whether a server request or notification is for the library: notifications
// without a handler are left out.
func (f *messageFilter) acceptRequest(id, method json.RawMessage) bool {
	if !isNull(id) {
		return f.guard.openRequest(plainID(id))
	}
	name := strings.Trim(string(method), `"`)
	return name == "notifications/progress" || name == "notifications/cancelled" || name == "notifications/subscriptions/acknowledged" ||
		strings.HasSuffix(name, "/list_changed")
}

// maxBatch limits the messages in a batch: a two-byte element becomes hundreds in memory.
const maxBatch = 1000

// repairMessages returns the messages for the library in what the server sent: none, if it is left
// out, one, or a batch's. request is the answered request's id, if the transport has it.
func (f *messageFilter) repairMessages(raw []byte, request string) []message {
	raw = bytes.TrimSpace(bytes.TrimPrefix(raw, []byte("\uFEFF")))
	if err := limit.MCPMessage.CheckValues(raw); err != nil {
		return f.rejectResponse(raw, request, err.Error())
	}
	batch := []json.RawMessage{raw}
	if len(raw) > 0 && raw[0] == '[' {
		var err error
		switch batch, err = splitList(raw, maxBatch); {
		case errors.Is(err, errLongList):
			return f.rejectResponse(raw, request, fmt.Sprintf("the batch exceeds the limit of %d messages", maxBatch))
		case err != nil:
			return f.rejectResponse(raw, request, "it is not valid JSON: "+err.Error())
		}
	}
	var messages []message
	for _, one := range batch {
		messages = append(messages, f.repairMessage(one, request)...)
	}
	return messages
}

func (f *messageFilter) repairMessage(raw []byte, request string) []message {
	if f.guard.isAborted() {
		return nil
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return f.rejectResponse(raw, request, "it is not valid JSON: "+err.Error())
	}
	_, hasResult := m["result"]
	_, hasVersion := m["jsonrpc"]
	failure := m["error"]
	switch isRequest := len(m["method"]) > 0 && m["method"][0] == '"'; {
	case isRequest && hasVersion:
		if !f.acceptRequest(m["id"], m["method"]) {
			return nil
		}
		m["jsonrpc"] = json.RawMessage(`"2.0"`)
		return []message{{members: m}}
	case isRequest, !hasVersion && !hasResult && isNull(failure): // such as a log line
		f.logSkipped(raw)
		return nil
	}
	id, method := f.findRequest(m["id"], request)
	if id == "" && isNull(m["id"]) && !isNull(failure) {
		if ids := f.pendingIDs(); len(ids) == 1 { // the error can only belong to the only request
			id, method = f.findRequest(json.RawMessage(ids[0]), "")
		}
	}
	if id == "" {
		f.logSkipped(raw)
		return nil
	}
	response := message{members: map[string]json.RawMessage{"jsonrpc": json.RawMessage(`"2.0"`), "id": json.RawMessage(id)}, isResponse: true}
	if isNull(failure) {
		response.members["result"] = m["result"]
		if !hasResult {
			response.members["result"] = json.RawMessage("null")
		}
		response.isWrapped = slices.Contains(wrappedMethods(), method)
	} else {
		response.members["error"] = repairError(failure)
	}
	return []message{response}
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// encodeText returns the message's text for the library.
func (m message) encodeText() []byte {
	members := m.members
	if m.isWrapped {
		members = maps.Clone(members)
		members["result"] = wrapResult(members["result"])
	}
	return encodeMembers(members)
}

// encodeMembers encodes an object with valid members.
func encodeMembers(m map[string]json.RawMessage) []byte {
	raw, err := encodeJSON(m)
	if err != nil { // the members were decoded before
		return []byte("{}")
	}
	return raw
}

// encodeJSON encodes without HTML escapes: they are six times as long as their character.
func encodeJSON(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// wrapResult returns an object that has a result as text.
func wrapResult(raw json.RawMessage) json.RawMessage {
	wrapped, err := encodeJSON(map[string]any{"_meta": map[string]string{resultKey: string(raw)}})
	if err != nil { // a string has an encoding
		return json.RawMessage("{}")
	}
	return wrapped
}

// repairError returns a protocol error with an integer code and a string.
func repairError(raw json.RawMessage) json.RawMessage {
	var e struct{ Code, Message, Data json.RawMessage }
	fixed := map[string]any{"code": -32603, "message": string(raw)}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		fixed["message"] = text
	} else if json.Unmarshal(raw, &e) == nil {
		var code float64
		if json.Unmarshal(e.Code, &code) == nil && code == float64(int32(code)) {
			fixed["code"] = int32(code)
		}
		if json.Unmarshal(e.Message, &text) == nil {
			fixed["message"] = text
		} else if !isNull(e.Message) {
			fixed["message"] = string(e.Message)
		}
		if !isNull(e.Data) {
			fixed["data"] = e.Data
		}
	}
	out, err := json.Marshal(fixed)
	if err != nil {
		return json.RawMessage(`{"code":-32603,"message":""}`)
	}
	return out
}

// plainID returns an id as a number if it is one in quotes, or with the fraction 0.
func plainID(raw json.RawMessage) string {
	text := strings.Trim(string(raw), `"`)
	if n, err := strconv.ParseFloat(text, 64); err == nil && n == float64(int64(n)) {
		return strconv.FormatInt(int64(n), 10)
	}
	return string(raw)
}

// methodOf returns the method of a request without a response, or "".
func (f *messageFilter) methodOf(id string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.methods[id]
}

func (f *messageFilter) pendingIDs() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := make([]string, 0, len(f.methods))
	for id := range f.methods {
		ids = append(ids, id)
	}
	return ids
}

// findRequest returns the request that a response answers, and removes it: the one with its id, or
// the transport's. The id is "" if there is none.
func (f *messageFilter) findRequest(raw json.RawMessage, request string) (id, method string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range []string{string(raw), plainID(raw), request} {
		if method, ok := f.methods[id]; ok {
			delete(f.methods, id)
			return id, method
		}
	}
	return "", ""
}

var (
	firstID = regexp.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"[^"]*"\s*,\s*)?"id"\s*:\s*("?\d+"?)`)
	lastID  = regexp.MustCompile(`"id"\s*:\s*("?\d+"?)\s*(?:,\s*"jsonrpc"\s*:\s*"[^"]*"\s*)?\}\s*$`)
)

// maxIDText bounds the text that is searched for an id.
const maxIDText = 200

// rejectResponse returns an error for an unreadable response's request. If there is no such
// request, the text is left out.
func (f *messageFilter) rejectResponse(raw []byte, request, reason string) []message {
	id := json.RawMessage("null")
	if m := firstID.FindSubmatch(raw[:min(len(raw), maxIDText)]); m != nil {
		id = m[1]
	} else if m := lastID.FindSubmatch(raw[max(0, len(raw)-maxIDText):]); m != nil {
		id = m[1]
	}
	known, _ := f.findRequest(id, request)
	if known == "" {
		f.logSkipped(raw)
		return nil
	}
	return []message{newRejection(known, reason)}
}

// newRejection returns the error that replaces a response.
func newRejection(id, reason string) message {
	text, err := json.Marshal("the server's response cannot be read: " + reason)
	if err != nil {
		text = []byte(`""`)
	}
	return message{isResponse: true, members: map[string]json.RawMessage{
		"jsonrpc": json.RawMessage(`"2.0"`), "id": json.RawMessage(id), "error": fmt.Appendf(nil, `{"code":%d,"message":%s}`, unreadableCode, text),
	}}
}

// isUnreadable reports whether an error replaces an unreadable response.
func isUnreadable(err error) bool {
	answered := findAnswer(err)
	return answered != nil && answered.Code == unreadableCode
}

// maxLogged bounds how many messages are logged from one connection, and maxLoggedText each one, in
// characters.
const (
	maxLogged     = 20
	maxLoggedText = 200
)

// logSkipped logs server text other than messages.
func (f *messageFilter) logSkipped(raw []byte) {
	count := f.skipped.Add(1)
	if count > maxLogged {
		return
	}
	text := cutText(f.clean(string(raw[:min(len(raw), 8*maxLoggedText)])), maxLoggedText)
	f.logger.Warn("mcp server sent text other than messages, skipped", "server", f.server, "text", text, "last_logged", count == maxLogged)
}

// errTooLarge reports a message that exceeds limit.MCPMessage.Bytes.
var errTooLarge = errors.New("it exceeds the limit of " + strconv.Itoa(limit.MCPMessage.Bytes>>20) + " MiB")

// isAnswer reports whether an error is about a server answer, so that the connection works.
func isAnswer(err error) bool {
	limit := limitError{}
	return findAnswer(err) != nil || errors.As(err, &limit)
}

// findAnswer returns the error that the server answered a request with, or nil. The library wraps
// transport errors in an error with the same type.
func findAnswer(err error) *jsonrpc.Error {
	answered := (*jsonrpc.Error)(nil)
	if errors.As(err, &answered) && answered.Code != rejectedByTransport {
		return answered
	}
	return nil
}

// rejectedByTransport is the library's code for requests that were not sent.
const rejectedByTransport = -32005
