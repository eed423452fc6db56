package openaiserver

import (
	"encoding/base64"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// A conversation's items are a view on its session's events. An answer's items are those that its response
// has, with the same IDs; approvals and questions are items, whether or not they are answered. Calls that
// the app's own tools run are none, as in responses.

// A listedItem is an item with its ID.
type listedItem struct {
	id     string
	object any
	// input is the invocation that a user's item began or continued; empty for an answer's item.
	input string
}

// An inputMessage is a user message.
type inputMessage struct {
	ID      string      `json:"id"`
	Type    string      `json:"type"`
	Status  string      `json:"status"`
	Role    string      `json:"role"`
	Content []inputPart `json:"content"`
}

// An inputPart is in a user message. Each type has some of its keys.
type inputPart struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	Detail   string `json:"detail,omitempty"`
	ImageURL string `json:"image_url,omitempty"`
	Filename string `json:"filename,omitempty"`
}

// A callOutput is a client tool's result.
type callOutput struct {
	ID     string `json:"id"`
	Type   string `json:"type"`
	Status string `json:"status"`
	CallID string `json:"call_id"`
	Output string `json:"output"`
}

// An approvalAnswer is a person's answer to an approval.
type approvalAnswer struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Request string `json:"approval_request_id"`
	Approve bool   `json:"approve"`
}

// An itemReader reads a session's events as items.
type itemReader struct {
	h     *handlers
	model *model
	key   session.Key
	// withImages adds the content of images.
	withImages bool
	// writers build the items of an invocation's answers.
	writers map[string]*responseWriter
	// questions are those so far, by their calls, and called the calls that clients run.
	questions map[string]*protocol.Question
	called    map[string]bool
	items     []listedItem
}

// readItems returns the items in events, in order.
func (i *itemReader) readItems(events []*session.Event) ([]listedItem, error) {
	i.writers, i.questions, i.called = map[string]*responseWriter{}, map[string]*protocol.Question{}, map[string]bool{}
	for _, ev := range events {
		if ev.Partial || ev.Content == nil || ev.Actions.Compaction != nil {
			continue
		}
		read := i.readAnswer
		if ev.IsFromUser() {
			read = i.readMessage
		}
		n := len(i.items)
		if err := read(ev); err != nil {
			return nil, err
		}
		for ; ev.IsFromUser() && n < len(i.items); n++ {
			i.items[n].input = ev.InvocationID
		}
	}
	return i.items, nil
}

// readAnswer adds what an agent has written and called.
func (i *itemReader) readAnswer(ev *session.Event) error {
	if protocol.ReadFailure(ev) != nil {
		return nil
	}
	o := i.writers[ev.InvocationID]
	if o == nil {
		o = &responseWriter{turn: &turn{h: i.h, model: i.model, place: &place{key: i.key}}}
		o.object = &responseObject{ID: encodeResponseID(i.key, ev.InvocationID)}
		i.writers[ev.InvocationID] = o
	}
	o.turn.readTurn(ev)
	if err := o.turn.readEvent(ev, o); err != nil {
		return err
	}
	for _, c := range ev.Calls() {
		i.called[c.ID] = i.called[c.ID] || o.turn.isClientCall(ev, c)
		q := protocol.NewQuestion(c)
		if q == nil || ev.Provenance.Imported {
			continue
		}
		i.questions[c.ID] = q
		if err := o.addQuestion(q); err != nil {
			return err
		}
	}
	for _, object := range o.object.Output {
		i.items = append(i.items, listedItem{id: readItemID(object), object: object})
	}
	o.object.Output = nil
	return nil
}

func readItemID(object any) string {
	switch item := object.(type) {
	case *messageItem:
		return item.ID
	case *reasoningItem:
		return item.ID
	case *approvalItem:
		return item.ID
	case *callItem:
		return item.ID
	}
	return ""
}

// readMessage adds what the user has written and answered.
func (i *itemReader) readMessage(ev *session.Event) error {
	m := &inputMessage{ID: "msg_" + ev.ID, Type: "message", Status: statusCompleted, Role: roleUser}
	for _, p := range ev.Content.Parts {
		if p != nil && p.FunctionResponse != nil {
			if err := i.readResponse(p.FunctionResponse, m); err != nil {
				return err
			}
			continue
		}
		if part := i.readPart(p); part.Type != "" {
			m.Content = append(m.Content, part)
		}
	}
	if len(m.Content) > 0 {
		i.items = append(i.items, listedItem{id: m.ID, object: m})
	}
	return nil
}

// readResponse adds the answer to a call. One to a question in words belongs to the message.
func (i *itemReader) readResponse(f *genai.FunctionResponse, m *inputMessage) error {
	q := i.questions[f.ID]
	text, isText := f.Response["result"].(string)
	if !isText || len(f.Response) > 1 {
		encoded, err := server.EncodeJSON(f.Response)
		if err != nil {
			return err
		}
		text = string(encoded)
	}
	switch {
	case q != nil && runtime.ReadApproval(q.Call) != nil:
		confirmed, _ := f.Response["confirmed"].(bool)
		item := &approvalAnswer{"mcpr_" + f.ID, "mcp_approval_response", f.ID, confirmed}
		i.items = append(i.items, listedItem{id: item.ID, object: item})
	case q != nil:
		if f.Name != runtime.RequestCredential { // not the secrets of a permission
			m.Content = append(m.Content, inputPart{Type: "input_text", Text: text})
		}
	case i.called[f.ID]:
		item := &callOutput{"fco_" + f.ID, "function_call_output", statusCompleted, f.ID, text}
		i.items = append(i.items, listedItem{id: item.ID, object: item})
	}
	return nil
}

// readPart returns a message's part; without a type for one that has nothing for clients.
func (i *itemReader) readPart(p *genai.Part) inputPart {
	switch {
	case p == nil:
	case p.Text != "":
		return inputPart{Type: "input_text", Text: p.Text}
	case p.InlineData != nil && strings.HasPrefix(p.InlineData.MIMEType, "image/"):
		part := inputPart{Type: "input_image", Detail: "auto"}
		if i.withImages {
			part.ImageURL = "data:" + p.InlineData.MIMEType + ";base64," + base64.StdEncoding.EncodeToString(p.InlineData.Data)
		}
		return part
	case p.InlineData != nil:
		return inputPart{Type: "input_file", Filename: p.InlineData.DisplayName}
	case p.FileData != nil:
		return inputPart{Type: "input_file", Filename: p.FileData.DisplayName}
	}
	return inputPart{}
}
