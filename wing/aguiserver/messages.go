package aguiserver

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// The host stores no messages: a thread's messages follow from the session's events, with the same IDs as
// in the stream. The client's own messages have its IDs, which the user's event has in its
// metadata:
//
//	user's text         the client's ID, otherwise the event's
//	answer, calls       the event's ID; partial events have it as well
//	thoughts            the event's ID and -reasoning
//	result              result- and the call's ID; for a client tool, the client's ID

// metadataKey is the key for a run's record in its events' custom metadata.
const metadataKey = "ag_ui"

// newMetadata returns a run's record: its ID, and the client's message IDs by the call that they answer.
// The text's message has the key text.
func newMetadata(runID string, messages map[string]any) map[string]any {
	return map[string]any{metadataKey: map[string]any{"run": runID, "messages": messages}}
}

// textKey is the key for the text's message.
const textKey = "text"

// readMetadata returns an event's run, and the client's message ID for a key.
func readMetadata(ev *session.Event, key string) (run, id string) {
	record, _ := ev.CustomMetadata[metadataKey].(map[string]any)
	run, _ = record["run"].(string)
	messages, _ := record["messages"].(map[string]any)
	id, _ = messages[key].(string)
	return run, id
}

// The parts of message IDs.
const (
	thoughtsSuffix = "-reasoning"
	resultPrefix   = "result-"
)

func thoughtsID(event string) string { return event + thoughtsSuffix }

func resultID(call string) string { return resultPrefix + call }

// trimID returns the ID of the event or call that a message's ID begins or ends with.
func trimID(id string) string {
	return strings.TrimPrefix(strings.TrimSuffix(id, thoughtsSuffix), resultPrefix)
}

// findMessages sets the event's index for each ID in places that a message of the events has. It is the
// same as in listMessages, without the messages.
func findMessages(events []*session.Event, places map[string]int) {
	find := func(id string, i int) {
		if _, ok := places[id]; ok {
			places[id] = i
		}
	}
	for i, ev := range events {
		find(ev.ID, i)
		for _, f := range ev.Responses() {
			find(f.ID, i)
		}
		if !ev.IsFromUser() {
			continue
		}
		record, _ := ev.CustomMetadata[metadataKey].(map[string]any)
		messages, _ := record["messages"].(map[string]any)
		for _, v := range messages {
			if id, ok := v.(string); ok {
				find(trimID(id), i)
			}
		}
	}
}

// listMessages returns a session's messages.
func listMessages(events []*session.Event, reasoning bool, l *lineage) []message {
	all := []message{}
	seen := &seenCalls{}
	for _, ev := range events {
		if ev.Partial || ev.Actions.Compaction != nil || ev.Content == nil {
			continue
		}
		seen.addEvent(ev)
		list := seen.listAgentMessages
		if ev.IsFromUser() {
			list = seen.listUserMessages
		}
		n := len(all)
		all = append(all, list(ev, reasoning)...)
		for ; !ev.IsFromUser() && n < len(all); n++ {
			all[n].SubagentRunID = l.findOwner(ev)
		}
	}
	return all
}

// seenCalls are calls, by their ID, without a result from their tool.
type seenCalls struct {
	// longRunning are those whose result arrives later, and requests the runtime's own.
	longRunning, requests map[string]bool
	// files counts the bytes of files and signatures in messages.
	files int
}

// maxFiles limits the bytes of files and signatures in a MESSAGES_SNAPSHOT: clients read events of at most 10 MiB.
const maxFiles = 4 << 20

func (s *seenCalls) addEvent(ev *session.Event) {
	if len(ev.LongRunningToolIDs) > 0 && s.longRunning == nil {
		s.longRunning = map[string]bool{}
	}
	for _, id := range ev.LongRunningToolIDs {
		s.longRunning[id] = true
	}
	for _, c := range ev.Calls() {
		if !runtime.IsRequest(ev, c) {
			continue
		}
		if s.requests == nil {
			s.requests = map[string]bool{}
		}
		s.requests[c.ID] = true
	}
}

// isFinalResult reports whether a response ends its call. One that waits for an approval or for
// credentials has none yet, and neither has a long-running tool's call.
func (s *seenCalls) isFinalResult(ev *session.Event, f *genai.FunctionResponse) bool {
	return !s.longRunning[f.ID] && ev.Actions.RequestedToolConfirmations[f.ID] == nil && ev.Actions.RequestedAuthConfigs[f.ID] == nil
}

func (s *seenCalls) listUserMessages(ev *session.Event, _ bool) []message {
	var all []message
	var parts []contentPart
	for _, p := range ev.Content.Parts {
		switch {
		case p == nil:
		case p.FunctionResponse != nil && !s.requests[p.FunctionResponse.ID]:
			f := p.FunctionResponse
			_, id := readMetadata(ev, f.ID)
			if id == "" {
				id = resultID(f.ID)
			}
			all = append(all, message{ID: id, Role: roleTool, ToolCallID: f.ID, Content: encodeText(encodeResult(f.Response))})
		case p.InlineData != nil:
			parts = append(parts, s.encodeFile(p.InlineData))
		case p.Text != "":
			parts = append(parts, contentPart{Type: "text", Text: p.Text})
		}
	}
	if len(parts) == 0 {
		return all
	}
	m := message{ID: ev.ID, Role: roleUser}
	if _, id := readMetadata(ev, textKey); id != "" {
		m.ID = id
	}
	if len(parts) == 1 && parts[0].Type == "text" {
		m.Content = encodeText(parts[0].Text)
	} else {
		m.Content, _ = server.EncodeJSON(parts)
	}
	return append(all, m)
}

// encodeFile returns a file as a part, and beyond the limit its type only.
func (s *seenCalls) encodeFile(file *genai.Blob) contentPart {
	if s.files += len(file.Data); s.files > maxFiles {
		return contentPart{Type: "text", Text: "[" + file.MIMEType + "]"}
	}
	return contentPart{Type: nameKind(file.MIMEType), Source: &partSource{"data", base64.StdEncoding.EncodeToString(file.Data), file.MIMEType}}
}

// boundValue returns a signature, and beyond the limit none.
func (s *seenCalls) boundValue(value string) string {
	if s.files += len(value); s.files > maxFiles {
		return ""
	}
	return value
}

// nameKind returns the part type for a file.
func nameKind(mimeType string) string {
	kind, _, _ := strings.Cut(mimeType, "/")
	switch kind {
	case "image", "audio", "video":
		return kind
	}
	return "document"
}

func (s *seenCalls) listAgentMessages(ev *session.Event, reasoning bool) []message {
	var all []message
	text, thoughts := readTexts(ev)
	var signed signatures
	if reasoning {
		signed = readSignatures(ev)
	}
	if thoughts != "" && reasoning {
		all = append(all, message{ID: thoughtsID(ev.ID), Role: roleReasoning, Content: encodeText(thoughts), EncryptedValue: s.boundValue(signed.thoughts)})
	}
	m := message{ID: ev.ID, Role: roleAssistant, EncryptedValue: s.boundValue(signed.text)}
	if text != "" {
		m.Content = encodeText(text)
	}
	for _, c := range ev.Calls() {
		if !s.requests[c.ID] {
			m.ToolCalls = append(m.ToolCalls, toolCall{c.ID, "function", callFunction{c.Name, string(encodeArgs(c))}, s.boundValue(signed.calls[c.ID])})
		}
	}
	if text != "" || len(m.ToolCalls) > 0 {
		all = append(all, m)
	}
	for _, f := range ev.Responses() {
		if s.isFinalResult(ev, f) {
			all = append(all, message{ID: resultID(f.ID), Role: roleTool, ToolCallID: f.ID, Content: encodeText(encodeResult(f.Response))})
		}
	}
	return all
}

// signatures are the models' signatures in an event, which prove to the model that it has had the thoughts
// before. Clients get them because the protocol has them; the host sends those in the session to the model,
// and ignores what a client returns.
type signatures struct {
	text, thoughts string
	// calls are those by their calls.
	calls map[string]string
}

// readSignatures returns an event's signatures. A message has the last one.
func readSignatures(ev *session.Event) signatures {
	var all signatures
	if ev.Content == nil {
		return all
	}
	for _, p := range ev.Content.Parts {
		if p == nil || len(p.ThoughtSignature) == 0 {
			continue
		}
		value := base64.StdEncoding.EncodeToString(p.ThoughtSignature)
		switch {
		case p.FunctionCall != nil:
			if all.calls == nil {
				all.calls = map[string]string{}
			}
			all.calls[p.FunctionCall.ID] = value
		case p.Thought:
			all.thoughts = value
		default:
			all.text = value
		}
	}
	return all
}

// readTexts returns an event's text and thoughts.
func readTexts(ev *session.Event) (text, thoughts string) {
	if ev.IsPlainResult() {
		return ev.ResultText(), ""
	}
	if ev.Content == nil {
		return "", ""
	}
	if len(ev.Content.Parts) == 1 && ev.Content.Parts[0] != nil { // as in each chunk
		if p := ev.Content.Parts[0]; p.Thought {
			return "", p.Text
		}
		return ev.Content.Parts[0].Text, ""
	}
	var words, thought strings.Builder
	for _, p := range ev.Content.Parts {
		switch {
		case p == nil:
		case p.Thought:
			thought.WriteString(p.Text)
		default:
			words.WriteString(p.Text)
		}
	}
	return words.String(), thought.String()
}

func encodeText(text string) json.RawMessage {
	encoded, _ := server.EncodeJSON(text)
	return encoded
}

// encodeResult returns a response as a tool message's text.
func encodeResult(response map[string]any) string {
	if text, ok := response["result"].(string); ok && len(response) == 1 {
		return text
	}
	encoded, _ := server.EncodeJSON(response)
	return string(encoded)
}

// encodeArgs returns a call's arguments as JSON.
func encodeArgs(c *genai.FunctionCall) []byte {
	if args, err := server.EncodeJSON(c.Args); err == nil && c.Args != nil {
		return args
	}
	return []byte("{}")
}
