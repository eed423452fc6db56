package protocol_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/genai"

	"agenthost/internal/servertest"
	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// twoAgents run in parallel, and each of their calls waits for the user: the tool's with the request "pay",
// and a question otherwise.
const twoAgents = `
-- apps/desk/app.yaml --
models: {demo: {provider: scripted, script: demo.script.yaml}}
-- apps/desk/demo.script.yaml --
- {when: responses.refund != nil, text: "{agent} paid {responses.refund.paid}."}
- {when: responses.get_user_choice != nil, text: "{agent} chose {responses.get_user_choice.result}."}
- {when: user contains "pay", calls: [{name: refund, args: {amount: 7}}]}
- calls: [{name: get_user_choice, args: {options: [red, blue]}}]
-- apps/desk/root_agent.yaml --
agent_class: ParallelAgent
name: desk
sub_agents:
  - config_path: first.yaml
  - config_path: second.yaml
-- apps/desk/first.yaml --
name: first
model: demo
instruction: Pay.
tools: [{name: get_user_choice}, {expr: {name: refund, description: Pays., params: {amount: number}, value: '{"paid": args.amount}', confirm: "true"}}]
-- apps/desk/second.yaml --
name: second
model: demo
instruction: Pay.
tools: [{name: get_user_choice}, {expr: {name: refund, description: Pays., params: {amount: number}, value: '{"paid": args.amount}', confirm: "true"}}]
`

// A message that answers calls in several events is a turn for each event. One with an answer that belongs
// to no open call, or with text next to a decision, is rejected before anything runs.
func TestRunWithAnswersToTwoEvents(t *testing.T) {
	var services *server.Services
	e, _ := servertest.NewExchangeEnv(t, txtar.Parse([]byte(twoAgents)), &servertest.Folders{}, &servertest.Options{Server: &server.Options{
		Extensions: []func(*server.Services) *server.Extension{func(s *server.Services) *server.Extension {
			services = s
			return &server.Extension{}
		}},
	}})
	text := &genai.Part{Text: "and thanks"}
	unknown := &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: "nope", Name: runtime.RequestConfirmation, Response: map[string]any{"confirmed": true}}}
	for i, tt := range []struct {
		request     string
		first, last []*genai.Part
		want        string
	}{
		{"pay", nil, nil, "first paid 7. second paid 7."},
		{"pay", []*genai.Part{unknown}, nil, `no request for confirmation "nope" in this session`},
		{"pay", nil, []*genai.Part{text}, "must not contain anything else"},
		{"choose", nil, nil, "first chose red. second chose red."},
		{"choose", nil, []*genai.Part{text}, "first chose red. second chose red."},
	} {
		key := e.CreateSession(t, "desk", fmt.Sprint("s", i))
		run := func(message *genai.Content) (string, error) {
			var texts []string
			err := protocol.Run(t.Context(), services, &runtime.RunRequest{App: key.App, UserID: key.User, SessionID: key.ID, Message: message}, func(ev *session.Event) error {
				if ev.IsFinal() && ev.Content != nil && ev.Content.Parts[0].Text != "" {
					texts = append(texts, ev.Content.Parts[0].Text)
				}
				return nil
			})
			slices.Sort(texts) // the agents' calls are in any order
			return strings.Join(texts, " "), err
		}
		if _, err := run(genai.NewContentFromText(tt.request, genai.RoleUser)); err != nil {
			t.Fatal(err)
		}
		sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
		if err != nil {
			t.Fatal(err)
		}
		answers := &genai.Content{Role: genai.RoleUser, Parts: tt.first}
		for _, open := range runtime.Pending(sess.Events()) {
			for _, c := range open.Calls {
				response := map[string]any{"confirmed": true}
				if c.Name == "get_user_choice" {
					response = map[string]any{"result": "red"}
				}
				answers.Parts = append(answers.Parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: c.ID, Name: c.Name, Response: response}})
			}
		}
		answers.Parts = append(answers.Parts, tt.last...)
		before := len(sess.Events())
		got, err := run(answers)
		if err != nil {
			got = err.Error()
			if sess, _ = e.Store.Sessions.Get(t.Context(), key, nil); len(sess.Events()) != before {
				t.Errorf("%s: a rejected message has stored events", got)
			}
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.request, got, tt.want)
		}
	}
}
