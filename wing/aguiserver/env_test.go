package aguiserver_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"go.uber.org/goleak"

	"agenthost/internal/servertest"
	"agenthost/pkg/server"
	"agenthost/wing/aguiserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newOptions(opts *aguiserver.Options, auth *server.Auth) *servertest.Options {
	return &servertest.Options{Server: &server.Options{Auth: auth, Extensions: []func(*server.Services) *server.Extension{aguiserver.Extend(opts)}}}
}

// desk is an app whose model repeats what it reads of the conversation.
const desk = `
-- apps/desk/app.yaml --
description: Answers questions about orders.
models:
  demo: {provider: scripted, script: demo.script.yaml}
agui_server: {agents: [writer], client_instructions: true, client_tools: true, client_state: [city, tier]}
-- apps/desk/root_agent.yaml --
name: desk
model: demo
instruction: "Answer. {temp:client_instructions?} City: {city?}"
state_schema:
  tier: {type: string, writable: agent}
  city: string?
  paid: number?
  "a/b~c": number?
tools:
  - expr:
      name: refund
      description: Pays money back.
      params: {amount: number, note: "string?"}
      value: '{"paid": args.amount}'
      set: {paid: args.amount, "temp:x": 1, "a/b~c": args.amount}
      confirm: {when: args.amount > 100, edit: [amount, note]}
  - expr: {name: lookup, description: Finds an order., params: {id: string}, value: args.id, set: {"user:last": args.id}}
  - expr: {name: clear, description: Removes the sum., params: {x: "string?"}, value: '"ok"', set: {paid: nil}}
  - name: get_user_choice
  - name: request_input
sub_agents:
  - {name: writer, model: demo, description: Writes., instruction: Write.}
-- apps/desk/demo.script.yaml --
- {when: agent == "writer" and user contains "story", text: "Once, in a town, it rained.", chunks: 3}
- {when: agent == "writer", text: "A note."}
- {when: responses.refund != nil, text: "Refund: {responses.refund}."}
- {when: responses.get_weather != nil, text: "It is {responses.get_weather.result} in Rome."}
- {when: responses.lookup != nil, text: "Found {responses.lookup.result}."}
- {when: responses.clear != nil, text: "Cleared."}
- {when: responses.get_user_choice != nil, text: "You chose {responses.get_user_choice}."}
- {when: responses.adk_request_input != nil, text: "To {responses.adk_request_input}."}
- {when: user contains "weather", calls: [{name: get_weather, args: {city: Rome}}]}
- {when: user contains "both", calls: [{name: refund, args: {amount: 500}}, {name: refund, args: {amount: 600}}]}
- {when: user contains "little refund", calls: [{name: refund, args: {amount: 5}}]}
- {when: user contains "refund", calls: [{name: refund, args: {amount: 500, note: late}}]}
- {when: user contains "choose", calls: [{name: get_user_choice, args: {options: [Green, Black]}}]}
- {when: user contains "where to", calls: [{name: adk_request_input, args: {message: "Where to?", response_schema: {type: object, properties: {street: {type: string}}, required: [street]}}}]}
- {when: user contains "lookup", calls: [{name: lookup, args: {id: o7}}]}
- {when: user contains "clear", calls: [{name: clear, args: {}}]}
- {when: user contains "write", calls: [{name: transfer_to_agent, args: {agent_name: writer}}]}
- {when: user contains "fail", error: {code: 400, message: the model is broken}}
- {when: user contains "story", text: "Once, in a town, it rained.", chunks: 3}
- {when: user contains "think", thought: "It is 4.", text: "4"}
- {when: instruction contains "French", text: "Bonjour"}
- {when: instruction contains "Rome", text: "In Rome."}
- {text: "You wrote: {user}"}
-- apps/plain/app.yaml --
models:
  demo: {provider: scripted, script: demo.script.yaml}
agui_server: {reasoning: false}
-- apps/plain/root_agent.yaml --
name: plain
model: demo
instruction: "Answer. {temp:client_instructions?} {city?}"
-- apps/plain/demo.script.yaml --
- {when: user contains "think", thought: "It is 4.", text: "4"}
- {when: instruction contains "French", text: "Bonjour"}
- {when: instruction contains "Rome", text: "In Rome."}
- {text: "Plain."}
-- apps/hidden/root_agent.yaml --
name: hidden
model: demo
instruction: Answer.
-- apps/hidden/app.yaml --
models:
  demo: {provider: scripted, script: demo.script.yaml}
-- apps/hidden/demo.script.yaml --
- {text: "Hidden."}
`

// Each file in testdata/http is an exchange; see [servertest.RunExchanges].
func TestExchanges(t *testing.T) {
	servertest.RunExchanges(t, "testdata/http/*.txtar", func(t *testing.T, ar *txtar.Archive) (*servertest.Env, string) {
		own := txtar.Parse([]byte(desk)).Files
		ar.Files = append(ar.Files[:len(ar.Files):len(ar.Files)], own...)
		e, dir := servertest.NewExchangeEnv(t, ar, &servertest.Folders{}, newOptions(nil, nil))
		ar.Files = ar.Files[:len(ar.Files)-len(own)]
		return e, dir
	})
}

// newAuth returns authentication for the users u and v.
func newAuth(t *testing.T) *server.Auth {
	t.Helper()
	file := filepath.Join(t.TempDir(), "auth.yaml")
	text := `tokens:
  - {token: token-of-u-0123456789, claims: {sub: u}}
  - {token: token-of-v-0123456789, claims: {sub: v}}
  - {token: token-of-w-0123456789, claims: {sub: w, apps: [other]}}
user_id: claims.sub
apps: claims.apps == nil || app in claims.apps
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	auth, err := server.ReadAuth(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(auth.Close)
	return auth
}

// newEnv returns a server with the app desk.
func newEnv(t *testing.T, auth *server.Auth) *servertest.Env {
	t.Helper()
	e, _ := servertest.NewExchangeEnv(t, txtar.Parse([]byte(desk)), &servertest.Folders{}, newOptions(nil, auth))
	return e
}
