package protocol

import (
	"testing"

	"google.golang.org/genai"

	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

func encode(t *testing.T, v any) string {
	t.Helper()
	text, err := server.EncodeJSON(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// editable is an approval whose sum may be changed.
func editable() *genai.FunctionCall {
	c := approval("pay", "", map[string]any{"sum": 5, "to": "Ana"})
	number := map[string]any{"type": "number"}
	c.Args["editableArgs"] = map[string]any{"type": "object", "properties": map[string]any{"sum": number, "note": map[string]any{"type": "string"}}, "required": []any{"sum"}}
	c.Args["toolConfirmation"].(map[string]any)["payload"] = map[string]any{"sum": 5}
	return c
}

// A form's schema describes the answer, and an answer becomes the response that the call waits for.
func TestForms(t *testing.T) {
	choice := &genai.FunctionCall{ID: "c", Name: tool.UserChoice, Args: map[string]any{"options": []any{"Green", "Black"}}}
	street := map[string]any{"type": "object", "properties": map[string]any{"street": map[string]any{"type": "string"}}, "required": []any{"street"}}
	custom := approval("pay", "Pay?", nil)
	custom.Args["toolConfirmation"].(map[string]any)["payload"] = map[string]any{"level": 1}
	const approved = `{"properties":{"approved":{"type":"boolean"}},"required":["approved"],"type":"object"}`
	const edited = `{"properties":{"approved":{"type":"boolean"},"editedArgs":{"properties":{"note":{"type":"string"},"sum":{"type":"number"}},"type":"object"}},"required":["approved"],"type":"object"}`
	const levels = `{"properties":{"approved":{"type":"boolean"},"payload":{}},"required":["approved"],"type":"object"}`
	for _, c := range []struct {
		call           *genai.FunctionCall
		message        string
		schema, answer string
		want           string
	}{
		{approval("pay", "", map[string]any{"sum": 5}), "Approve the call of pay?", approved, `{"approved":true}`, `{"confirmed":true}`},
		{approval("pay", "Pay?\u202e", nil), "Pay?\\u202e", approved, `{"approved":false}`, `{"confirmed":false}`},
		{approval("pay", "Pay?", nil), "Pay?", approved, `true`, "approved must be true or false"},
		{approval("pay", "Pay?", nil), "Pay?", approved, `{"approved":true,"editedArgs":{"sum":1}}`, "editedArgs is not accepted: the call's arguments cannot be changed"},
		{editable(), "Approve the call of pay?", edited, `{"approved":true}`, `{"confirmed":true,"payload":{"sum":5}}`},
		{editable(), "Approve the call of pay?", edited, `{"approved":true,"editedArgs":{"sum":1,"to":"Ana"}}`, `{"confirmed":true,"payload":{"sum":1}}`},
		{editable(), "Approve the call of pay?", edited, `{"approved":true,"editedArgs":{"sum":1,"to":"Eve"}}`, `{"confirmed":true,"payload":{"sum":1,"to":"Eve"}}`}, // the runtime rejects to
		{editable(), "Approve the call of pay?", edited, `{"approved":true,"editedArgs":{"note":"x"}}`, `{"confirmed":true,"payload":{"note":"x","sum":null}}`},
		{editable(), "Approve the call of pay?", edited, `{"approved":true,"editedArgs":7}`, "editedArgs must be an object"},
		{custom, "Pay?", levels, `{"approved":true}`, `{"confirmed":true,"payload":{"level":1}}`},
		{custom, "Pay?", levels, `{"approved":true,"payload":{"level":2}}`, `{"confirmed":true,"payload":{"level":2}}`},
		{choice, "Choose one", `{"enum":["Green","Black"],"type":"string"}`, `"Black"`, `{"result":"Black"}`},
		{choice, "Choose one", `{"enum":["Green","Black"],"type":"string"}`, `"Red"`, "value must be one of 'Green', 'Black'"},
		{input(nil), "Where to?", `{"type":"string"}`, `"Tea Street"`, `{"result":"Tea Street"}`},
		{input(street), "Where to?", encode(t, street), `{"street":"Tea"}`, `{"street":"Tea"}`},
		{input(street), "Where to?", encode(t, street), `{}`, "missing property 'street'"},
		{credential("https://id.example/authorize"), "Authorize the connection", "null", `null`, `{}`},
	} {
		f := NewForm(c.call)
		if f == nil {
			t.Errorf("%s is not a form", c.call.Name)
			continue
		}
		if f.Message != c.message || encode(t, f.Schema) != c.schema {
			t.Errorf("got the form %q %s, want %q %s", f.Message, encode(t, f.Schema), c.message, c.schema)
		}
		value, err := session.DecodeValue([]byte(c.answer))
		if err != nil {
			t.Fatal(err)
		}
		response, err := f.ReadAnswer(t.Context(), value)
		got := errorText(err)
		if err == nil {
			got = encode(t, response)
		}
		if got != c.want {
			t.Errorf("%s %s: got %s, want %s", c.message, c.answer, got, c.want)
		}
	}
}

// A cancelled approval is rejected, and a cancelled question is an error for the agent.
func TestCancelledForms(t *testing.T) {
	for _, c := range []struct {
		call *genai.FunctionCall
		want string
	}{
		{approval("pay", "", nil), `{"confirmed":false}`},
		{input(nil), `{"error":"cancelled by the user"}`},
		{credential("https://id.example/authorize"), `{}`},
	} {
		if got := encode(t, NewForm(c.call).Cancel()); got != c.want {
			t.Errorf("%s: got %s, want %s", c.call.Name, got, c.want)
		}
	}
	if f := NewForm(&genai.FunctionCall{Name: "slow"}); f != nil {
		t.Errorf("a long-running tool is a form: %v", f)
	}
}

// The forms are those of the oldest event that waits, because one message answers them.
func TestOpenForms(t *testing.T) {
	event := func(id string, calls ...*genai.FunctionCall) *session.Event {
		ev := &session.Event{ID: id, Author: "a", InvocationID: "i"}
		ev.Content = &genai.Content{Role: genai.RoleModel}
		for i, c := range calls {
			own := *c
			own.ID = id + string(rune('0'+i))
			ev.Content.Parts = append(ev.Content.Parts, &genai.Part{FunctionCall: &own})
			ev.LongRunningToolIDs = append(ev.LongRunningToolIDs, own.ID)
		}
		return ev
	}
	slow := &genai.FunctionCall{Name: "slow"}
	forms, calls := ListOpen([]*session.Event{event("x", slow), event("y", input(nil), slow, input(nil)), event("z", input(nil))})
	got := ""
	for _, f := range forms {
		got += f.Call.ID + " "
	}
	for _, c := range calls {
		got += c.ID + " "
	}
	if want := "y0 y2 x0 y1 "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
