package a2adirect

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// message returns a call with a message's fields and the fields of other objects.
func message(fields, params, call string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{` + fields + `}` + params + `}` + call + `}`
}

const usual = `"messageId":"m","role":"ROLE_USER","parts":[{"text":"hello"}]`

// A usual call has what the SDK reads of it. An unusual one is left to the SDK.
func TestReadCall(t *testing.T) {
	for body, isUsual := range map[string]bool{
		message(usual, "", ""): true,
		message(`"contextId":"c \u00fc","taskId":"t","metadata":{"a":1},`+usual, `,"metadata":{"b":[1.5]},"configuration":{"historyLength":0,"acceptedOutputModes":["text/plain"],"returnImmediately":true}`, ""): true,
		message(`"messageId":"m","role":"ROLE_USER","parts":[{"text":"a \"b\" \n ü"}]`, "", ""):                                                                                                                   true,
		message(`"messageId":"m","role":"ROLE_USER","parts":[{"text":"a"},{"data":{"x":1}},{"url":"https://example.com","filename":"f"}]`, "", ""):                                                                true,
		message(`"messageId":"m","role":"ROLE_USER","parts":[{"text":"a","metadata":{"x":1}}]`, "", ""):                                                                                                           true,
		`{"jsonrpc":"2.0","id":"x-1","method":"SendStreamingMessage","params":{"message":{` + usual + `}}}`:                                                                                                       true,
		"": false, "[]": false, "{}": false, message(usual, "", "")[:40]: false, message(usual, "", "") + "x": false,
		message(usual, `,"tenant":"x"`, ""):                                                                      false,
		message(usual, "", `,"extra":1`):                                                                         false,
		message(usual, "", `,"id":2`):                                                                            false,
		message(usual+`,"MessageId":"n"`, "", ""):                                                                false,
		message(usual+`,"role":"ROLE_USER"`, "", ""):                                                             false,
		message(`"messageId":7,"role":"ROLE_USER","parts":[]`, "", ""):                                           false,
		message(`"messageId":"m","role":"ROLE_AGENT","parts":[]`, "", ""):                                        false,
		message(`"messageId":"m","role":"ROLE_USER","parts":[{"text":7}]`, "", ""):                               false,
		message(`"messageId":"m","role":"ROLE_USER","parts":[{"text":"a"}`, "", ""):                              false,
		message(`"messageId":"m","role":"ROLE_USER","parts":[{"text":"a","url":"https://example.com"}]`, "", ""): false,
		message(usual, `,"configuration":{"historyLength":"x"}`, ""):                                             false,
		`{"jsonrpc":"1.0","id":1,"method":"SendMessage","params":{"message":{` + usual + `}}}`:                   false,
		`{"jsonrpc":"2.0","id":-1,"method":"SendMessage","params":{"message":{` + usual + `}}}`:                  false,
		`{"jsonrpc":"2.0","id":1.5,"method":"SendMessage","params":{"message":{` + usual + `}}}`:                 false,
		`{"jsonrpc":"2.0","id":12345678901234567,"method":"SendMessage","params":{"message":{` + usual + `}}}`:   false,
		`{"jsonrpc":"2.0","id":"\u0041","method":"SendMessage","params":{"message":{` + usual + `}}}`:            false,
		`{"jsonrpc":"2.0","id":{},"method":"SendMessage","params":{"message":{` + usual + `}}}`:                  false,
		`{"jsonrpc":"2.0","method":"SendMessage","params":{"message":{` + usual + `}}}`:                          false,
		`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{}}`:                                            false,
		`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}`:                                        false,
		`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{` + usual + `}}}`:                  false,
	} {
		if c := checkCall(t, []byte(body)); (c != nil) != isUsual {
			t.Errorf("%s is read: %t, want %t", body, c != nil, isUsual)
		}
	}
}

// checkCall reads a call, and compares it with what the SDK reads.
func checkCall(t *testing.T, body []byte) *Call {
	t.Helper()
	c := ReadCall(body)
	if c == nil {
		return nil
	}
	var want struct {
		JSONRPC, Method string
		ID              any
		Params          json.RawMessage
	}
	var request a2a.SendMessageRequest
	if err := json.Unmarshal(body, &want); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if err := json.Unmarshal(want.Params, &request); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	var id any
	if err := json.Unmarshal(c.id, &id); err != nil || id != want.ID || want.JSONRPC != "2.0" || c.Streams != (want.Method == streamMethod) {
		t.Errorf("%s: the call is %+v", body, c)
	}
	if !reflect.DeepEqual(c.Request, &request) {
		got, _ := json.Marshal(c.Request)
		t.Errorf("%s: read %s", body, got)
	}
	return c
}

func FuzzReadCall(f *testing.F) {
	f.Add([]byte(message(usual, `,"configuration":{"historyLength":0}`, "")))
	f.Add([]byte(message(`"messageId":"m","role":"ROLE_USER","parts":[{"text":"a\ud800"},{"raw":"AA=="}]`, "", `,"id":3`)))
	f.Fuzz(func(t *testing.T, body []byte) { checkCall(t, body) })
}

// A response is what the SDK encodes.
func TestAppendResponse(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 0, 0, 250e6, time.UTC)
	data := a2a.NewDataPart(map[string]any{"x": 1.5})
	data.SetMeta("k", "v")
	file := a2a.NewRawPart([]byte{1})
	file.Filename, file.MediaType = "f", "image/png"
	meta := map[string]any{"a": map[string]any{"b": true}}
	m := &a2a.Message{ID: "m", ContextID: "c", Role: a2a.MessageRoleAgent, TaskID: "t", Metadata: meta, Parts: a2a.ContentParts{a2a.NewTextPart("Ü \"x\"\n"), data, file, a2a.NewFileURLPart("https://example.com", "text/plain")}}
	artifact := &a2a.Artifact{ID: "a-1", Name: "n", Parts: m.Parts, Metadata: meta}
	for _, ev := range []a2a.Event{
		m,
		&a2a.Message{ID: "m", Extensions: []string{"e"}},
		&a2a.Task{ID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.TaskStateWorking}},
		&a2a.Task{
			ID: "t", ContextID: "c", Metadata: meta, Artifacts: []*a2a.Artifact{artifact, {ID: "a-2"}, {ID: "a-3", Description: "d", Extensions: []string{"e"}}},
			History: []*a2a.Message{m, {ID: "n", Role: a2a.MessageRoleUser, ReferenceTasks: []a2a.TaskID{"u"}, Parts: a2a.ContentParts{}}}, Status: a2a.TaskStatus{Message: m, Timestamp: &at},
		},
		&a2a.TaskStatusUpdateEvent{TaskID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.TaskStateFailed, Message: m, Timestamp: &at}, Metadata: meta},
		&a2a.TaskStatusUpdateEvent{},
		&a2a.TaskArtifactUpdateEvent{TaskID: "t", ContextID: "c", Append: true, LastChunk: true, Artifact: artifact, Metadata: meta},
		&a2a.TaskArtifactUpdateEvent{},
	} {
		want, err := json.Marshal(a2a.StreamResponse{Event: ev})
		if err != nil {
			t.Fatal(err)
		}
		got, err := (&Call{id: []byte("1")}).AppendResponse([]byte("data: "), ev)
		if err != nil || string(got) != fmt.Sprintf(`data: {"jsonrpc":"2.0","id":1,"result":%s}`, want) {
			t.Errorf("got %s %v, want %s", got, err, want)
		}
	}
	ev := &a2a.TaskStatusUpdateEvent{Metadata: map[string]any{"x": func() {}}}
	if got, err := (&Call{id: []byte("1")}).AppendResponse([]byte("x"), ev); err == nil || string(got) != "x" {
		t.Errorf("a value without a JSON form: %s %v", got, err)
	}
}
