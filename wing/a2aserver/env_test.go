package a2aserver_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"go.uber.org/goleak"

	"agenthost/internal/servertest"
	"agenthost/pkg/server"
	"agenthost/wing/a2aserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newOptions(opts *a2aserver.Options, auth *server.Auth) *servertest.Options {
	return &servertest.Options{Server: &server.Options{Auth: auth, Extensions: []func(*server.Services) *server.Extension{a2aserver.Extend(opts)}}}
}

// desk is an app whose model repeats what it reads.
const desk = `
-- apps/desk/app.yaml --
description: Answers questions about orders.
resumability_config: {is_resumable: true}
models:
  demo: {provider: scripted, script: demo.script.yaml}
a2a_server:
  agents: [writer]
  version: 2.1.0
  provider: {organization: Example, url: https://example.com}
-- apps/desk/root_agent.yaml --
name: desk
model: demo
instruction: Answer.
tools:
  - expr:
      name: refund
      description: Pays money back.
      params: {amount: number}
      value: '{"paid": args.amount}'
      confirm: args.amount > 100
  - expr:
      name: save_report
      description: Saves a report.
      params: {title: string}
      value: '{"saved": args.title}'
      save_artifact: {"reports/{args.title}.md": '"Sales went up."'}
  - name: get_user_choice
  - name: request_input
sub_agents:
  - {name: writer, model: demo, instruction: Write.}
-- apps/desk/demo.script.yaml --
- {when: responses.refund != nil, text: "Paid back."}
- {when: responses.save_report != nil, text: "Saved."}
- {when: responses.get_user_choice != nil, text: "You chose {responses.get_user_choice.result}."}
- {when: user contains "small refund", calls: [{name: refund, args: {amount: 5}}]}
- {when: user contains "refund", calls: [{name: refund, args: {amount: 500}}]}
- {when: user contains "report", calls: [{name: save_report, args: {title: may}}]}
- {when: user contains "choose", calls: [{name: get_user_choice, args: {options: [Green, Black]}}]}
- {when: user contains "fail", error: {code: 400, message: the model is broken}}
- {when: user contains "wait", delay: 1h, text: "Late."}
- {when: user contains "story", text: "Once, in a town, it rained.", chunks: 3}
- {when: user contains "think", thought: "It is 4.", text: "4"}
- {when: agent == "writer", text: "A note."}
- {text: "You wrote: {user}"}
-- apps/direct/app.yaml --
models:
  demo: {provider: scripted, script: demo.script.yaml}
a2a_server: {direct_messages: true}
resumability_config: {is_resumable: true}
-- apps/direct/root_agent.yaml --
name: direct
model: demo
instruction: Answer.
-- apps/direct/demo.script.yaml --
- {when: user contains "fail", error: {code: 400, message: the model is broken}}
- {text: "Direct."}
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

// newAuth returns authentication for the users u, v and w.
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
