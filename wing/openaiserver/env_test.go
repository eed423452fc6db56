package openaiserver_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"go.uber.org/goleak"

	"agenthost/internal/servertest"
	"agenthost/pkg/server"
	"agenthost/wing/openaiserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newOptions(opts *openaiserver.Options, auth *server.Auth) *servertest.Options {
	return &servertest.Options{Server: &server.Options{Auth: auth, Extensions: []func(*server.Services) *server.Extension{openaiserver.Extend(opts)}}}
}

// desk is an app whose model repeats what it reads of the conversation.
const desk = `
-- apps/desk/app.yaml --
description: Answers questions about orders.
models:
  demo: {provider: scripted, script: demo.script.yaml}
openai_server: {agents: [writer], client_instructions: true, client_tools: true}
-- apps/desk/root_agent.yaml --
name: desk
model: demo
instruction: "Answer. {temp:client_instructions?}"
tools:
  - expr:
      name: refund
      description: Pays money back.
      params: {amount: number}
      value: '{"paid": args.amount}'
      confirm: args.amount > 100
  - name: get_user_choice
sub_agents:
  - {name: writer, model: demo, instruction: Write.}
-- apps/desk/demo.script.yaml --
- {when: user contains "always", calls: [{name: refund, args: {amount: 5}}]}
- {when: responses.refund != nil, text: "Paid back."}
- {when: responses.get_weather != nil, text: "It is {responses.get_weather.result} in Rome."}
- {when: user contains "weather", calls: [{name: get_weather, args: {city: Rome}}]}
- {when: responses.get_user_choice != nil, text: "You chose {responses.get_user_choice.result}."}
- {when: user contains "speak", text: "I speak.", parts: [{inlineData: {mimeType: "audio/L16;rate=24000", data: AQID}}, {inlineData: {mimeType: "audio/L16;rate=24000", data: BAUG}}]}
- {when: user contains "chant", parts: [{inlineData: {mimeType: audio/ogg, data: AQID}}]}
- {when: user contains "both", calls: [{name: refund, args: {amount: 5}}, {name: refund, args: {amount: 6}}]}
- {when: user contains "refund", calls: [{name: refund, args: {amount: 500}}]}
- {when: user contains "choose", calls: [{name: get_user_choice, args: {options: [Green, Black]}}]}
- {when: user contains "fail", error: {code: 400, message: the model is broken}}
- {when: user contains "wait", delay: 1h, text: "Late."}
- {when: user contains "story", text: "Once, in a town, it rained.", chunks: 3}
- {when: user contains "think", thought: "It is 4.", text: "4"}
- {when: instruction contains "French", text: "Bonjour"}
- {when: agent == "writer", text: "A note."}
- {text: "You wrote: {user}"}
-- apps/plain/app.yaml --
models:
  demo: {provider: scripted, script: demo.script.yaml}
openai_server: {}
-- apps/plain/root_agent.yaml --
name: plain
model: demo
instruction: Answer.
-- apps/plain/demo.script.yaml --
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
func newEnv(t *testing.T, auth *server.Auth) *servertest.Env { return newReplica(t, auth, "") }

// newReplica returns a server with the app desk, on a store that others may share.
func newReplica(t *testing.T, auth *server.Auth, url string) *servertest.Env {
	t.Helper()
	opts := newOptions(nil, auth)
	opts.URL = url
	e, _ := servertest.NewExchangeEnv(t, txtar.Parse([]byte(desk)), &servertest.Folders{}, opts)
	return e
}
