// Package a2adirect reads and answers usual A2A 1.0 calls over JSON-RPC without the SDK's transport:
// messages, which may be streamed. The SDK decodes a request three times, encodes each event through several
// values, and hands it to another goroutine, which costs more than the turn.
//
// The SDK reports all errors: a call that is unusual in any way is no [Call]. Responses have the SDK's keys, in
// its order.
package a2adirect

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"agenthost/internal/adkjson"
	"agenthost/pkg/server"
)

// A Call is a message that a client sends.
type Call struct {
	// id is the call's, in JSON.
	id json.RawMessage
	// Streams is set for a client that expects a stream.
	Streams bool
	Request *a2a.SendMessageRequest
}

// The methods.
const (
	sendMethod   = "SendMessage"
	streamMethod = "SendStreamingMessage"
)

// maxID limits a number as an ID, in digits: the SDK's answers have it exactly.
const maxID = 15

// ReadCall returns the call in a request's body, or nil for another one.
func ReadCall(body []byte) *Call {
	c := &Call{Request: &a2a.SendMessageRequest{}}
	var version, method string
	isUsual := readFields(body, callKeys, func(key string, value json.RawMessage) bool {
		switch key {
		case "jsonrpc":
			return readText(value, &version)
		case "id":
			c.id = value
			return isID(value)
		case "method":
			return readText(value, &method)
		}
		return c.readParams(value)
	})
	c.Streams = method == streamMethod
	if !isUsual || version != "2.0" || c.id == nil || c.Request.Message == nil || !c.Streams && method != sendMethod {
		return nil
	}
	return c
}

// The keys in usual objects.
var (
	callKeys    = []string{"jsonrpc", "id", "method", "params"}
	paramKeys   = []string{"message", "configuration", "metadata"}
	messageKeys = []string{"messageId", "contextId", "taskId", "role", "parts", "metadata"}
)

// readFields calls read for each field in an object, and reports whether each has one of the keys, none appears
// twice, and read returned true for all.
func readFields(text []byte, keys []string, read func(key string, value json.RawMessage) bool) bool {
	isUsual, seen := true, 0
	r := &adkjson.Decoder{Buf: text}
	r.ReadObject(func(key []byte) {
		i := slices.IndexFunc(keys, func(one string) bool { return one == string(key) })
		value := r.ReadRawValue()
		isUsual = isUsual && i >= 0 && seen&(1<<i) == 0 && r.Err == nil && read(keys[i], value)
		seen |= 1 << max(i, 0)
	})
	return isUsual && r.CheckEnd() == nil
}

// isID reports whether an ID is a string without escapes, or a number without a sign.
func isID(value json.RawMessage) bool {
	if value[0] == '"' {
		return bytes.IndexByte(value, '\\') < 0
	}
	isDigit := func(c rune) bool { return '0' <= c && c <= '9' }
	return len(value) <= maxID && len(bytes.TrimFunc(value, isDigit)) == 0
}

// readText reads a string.
func readText[T ~string](value json.RawMessage, text *T) bool {
	if value[0] != '"' {
		return false
	}
	if bytes.IndexByte(value, '\\') < 0 { // the decoder has checked the rest
		*text = T(value[1 : len(value)-1])
		return true
	}
	return json.Unmarshal(value, text) == nil
}

func (c *Call) readParams(params json.RawMessage) bool {
	return readFields(params, paramKeys, func(key string, value json.RawMessage) bool {
		switch key {
		case "message":
			c.Request.Message = &a2a.Message{}
			return readMessage(value, c.Request.Message)
		case "configuration":
			return json.Unmarshal(value, &c.Request.Config) == nil
		}
		return json.Unmarshal(value, &c.Request.Metadata) == nil
	})
}

func readMessage(text json.RawMessage, m *a2a.Message) bool {
	return readFields(text, messageKeys, func(key string, value json.RawMessage) bool {
		switch key {
		case "messageId":
			return readText(value, &m.ID)
		case "contextId":
			return readText(value, &m.ContextID)
		case "taskId":
			return readText(value, &m.TaskID)
		case "role":
			m.Role = a2a.MessageRoleUser
			return string(value) == `"ROLE_USER"`
		case "parts":
			return readParts(value, m)
		}
		return json.Unmarshal(value, &m.Metadata) == nil
	})
}

// readParts reads parts. Most messages have one, with text only.
func readParts(value json.RawMessage, m *a2a.Message) bool {
	one, isOne := bytes.CutPrefix(value, []byte(`[{"text":`))
	one, isClosed := bytes.CutSuffix(one, []byte(`}]`))
	if r := (&adkjson.Decoder{Buf: one}); isOne && isClosed && len(one) > 0 && one[0] == '"' {
		r.SkipValue()
		var text a2a.Text
		if r.CheckEnd() == nil && readText(json.RawMessage(one), &text) {
			m.Parts = a2a.ContentParts{{Content: text}}
			return true
		}
	}
	return json.Unmarshal(value, &m.Parts) == nil
}

// AppendResponse appends the response that has an event or a result. After an error it returns dst unchanged.
func (c *Call) AppendResponse(dst []byte, ev a2a.Event) ([]byte, error) {
	e := &encoder{buf: append(append(append(dst, `{"jsonrpc":"2.0","id":`...), c.id...), `,"result":{`...)}
	switch ev := ev.(type) {
	case *a2a.Task:
		e.addKey("task")
		e.addTask(ev)
	case *a2a.TaskStatusUpdateEvent:
		e.addKey("statusUpdate")
		e.addStatusUpdate(ev)
	case *a2a.TaskArtifactUpdateEvent:
		e.addKey("artifactUpdate")
		e.addArtifactUpdate(ev)
	default:
		e.buf = e.buf[:len(e.buf)-1]
		e.addValue(a2a.StreamResponse{Event: ev})
		e.buf = e.buf[:len(e.buf)-1]
	}
	if e.err != nil {
		return dst, e.err
	}
	return append(e.buf, "}}"...), nil
}

// An encoder appends values as the SDK encodes them.
type encoder struct {
	buf []byte
	err error
}

// addKey begins a field.
func (e *encoder) addKey(name string) {
	if e.buf[len(e.buf)-1] != '{' {
		e.buf = append(e.buf, ',')
	}
	e.buf = append(append(append(e.buf, '"'), name...), `":`...)
}

func (e *encoder) addText(name, value string) {
	e.addKey(name)
	e.buf = adkjson.AppendString(e.buf, value)
}

func (e *encoder) addOptionalText(name, value string) {
	if value != "" {
		e.addText(name, value)
	}
}

func (e *encoder) addMetadata(m map[string]any) {
	if len(m) > 0 {
		e.addKey("metadata")
		e.addValue(m)
	}
}

// addValue adds a value that no method has.
func (e *encoder) addValue(v any) {
	if e.err == nil {
		e.buf, e.err = server.AppendJSON(e.buf, v)
	}
}

func (e *encoder) addTask(t *a2a.Task) {
	e.buf = append(e.buf, '{')
	e.addText("id", string(t.ID))
	addList(e, "artifacts", t.Artifacts, e.addArtifact)
	e.addText("contextId", t.ContextID)
	addList(e, "history", t.History, e.addMessage)
	e.addMetadata(t.Metadata)
	e.addStatus(&t.Status)
	e.buf = append(e.buf, '}')
}

// addList adds a field with a list unless it is empty.
func addList[T any](e *encoder, name string, list []T, add func(T)) {
	if len(list) > 0 {
		e.addKey(name)
		addItems(e, list, add)
	}
}

func addItems[T any](e *encoder, list []T, add func(T)) {
	e.buf = append(e.buf, '[')
	for i, item := range list {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		add(item)
	}
	e.buf = append(e.buf, ']')
}

func (e *encoder) addStatusUpdate(u *a2a.TaskStatusUpdateEvent) {
	e.buf = append(e.buf, '{')
	e.addText("contextId", u.ContextID)
	e.addStatus(&u.Status)
	e.addText("taskId", string(u.TaskID))
	e.addMetadata(u.Metadata)
	e.buf = append(e.buf, '}')
}

func (e *encoder) addStatus(s *a2a.TaskStatus) {
	e.addKey("status")
	e.buf = append(e.buf, '{')
	if s.Message != nil {
		e.addKey("message")
		e.addMessage(s.Message)
	}
	e.addText("state", s.State.String())
	if s.Timestamp != nil {
		e.addKey("timestamp")
		e.buf = append(s.Timestamp.AppendFormat(append(e.buf, '"'), time.RFC3339Nano), '"')
	}
	e.buf = append(e.buf, '}')
}

func (e *encoder) addMessage(m *a2a.Message) {
	if m.Extensions != nil || m.ReferenceTasks != nil {
		e.addValue(m)
		return
	}
	e.buf = append(e.buf, '{')
	e.addText("messageId", m.ID)
	e.addOptionalText("contextId", m.ContextID)
	e.addMetadata(m.Metadata)
	e.addParts(m.Parts)
	e.addText("role", m.Role.String())
	e.addOptionalText("taskId", string(m.TaskID))
	e.buf = append(e.buf, '}')
}

func (e *encoder) addArtifactUpdate(u *a2a.TaskArtifactUpdateEvent) {
	e.buf = append(e.buf, '{')
	if u.Append {
		e.addKey("append")
		e.buf = append(e.buf, "true"...)
	}
	e.addKey("artifact")
	e.addArtifact(u.Artifact)
	e.addText("contextId", u.ContextID)
	if u.LastChunk {
		e.addKey("lastChunk")
		e.buf = append(e.buf, "true"...)
	}
	e.addText("taskId", string(u.TaskID))
	e.addMetadata(u.Metadata)
	e.buf = append(e.buf, '}')
}

func (e *encoder) addArtifact(a *a2a.Artifact) {
	if a == nil || a.Extensions != nil || a.Description != "" {
		e.addValue(a)
		return
	}
	e.buf = append(e.buf, '{')
	e.addText("artifactId", string(a.ID))
	e.addMetadata(a.Metadata)
	e.addOptionalText("name", a.Name)
	e.addParts(a.Parts)
	e.buf = append(e.buf, '}')
}

func (e *encoder) addParts(parts a2a.ContentParts) {
	e.addKey("parts")
	if parts == nil {
		e.buf = append(e.buf, "null"...)
		return
	}
	addItems(e, parts, e.addPart)
}

func (e *encoder) addPart(p *a2a.Part) {
	text, isText := a2a.Text(""), false
	if p != nil && p.Filename == "" && p.MediaType == "" {
		text, isText = p.Content.(a2a.Text)
	}
	if !isText {
		e.addValue(p)
		return
	}
	e.buf = append(e.buf, '{')
	e.addText("text", string(text))
	e.addMetadata(p.Metadata)
	e.buf = append(e.buf, '}')
}
