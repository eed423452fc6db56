package lsp_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// At each cursor, |, the first completions are these, in this order, each with its detail.
func TestCompletionsInOrder(t *testing.T) {
	const tool = "name: a\ninstruction: x\ntools:\n  - http:\n      name: get_order\n      url: http://shop.test/x\n      params:\n        id: string\n        n: {type: integer, description: How many.}\n"
	for _, tt := range []struct {
		name, file, text string
		want             []string
	}{
		{"arguments in a condition", "root_agent.yaml", tool + "      confirm: args.|\n", []string{"id string", "n integer"}},
		{"arguments after the beginning of a name", "root_agent.yaml", tool + "      confirm: state.last == 1 and args.n| > 3\n", []string{"id string", "n integer"}},
		{"variables of a condition", "root_agent.yaml", tool + "      confirm: |\n", []string{"args object", "state object", "agent string", "invocation object", "run_config object", "session object", "user string"}},
		{"members of a variable", "root_agent.yaml", tool + "      confirm: session.|\n", []string{"app", "id", "user_id"}},
		{"variables of a result", "root_agent.yaml", tool + "      result: |\n", []string{"body", "status integer", "headers object"}},
		{"fields of a response", "root_agent.yaml", tool + "      result: body.|\n", []string{"total in a test's response", "status in a test's response"}},
		{"arguments in a URL", "root_agent.yaml", tool + "      query: {q: \"{|\"}\noutput_key: last\n", []string{"args.id string", "args.n integer", "last state key, string"}},
		{"arguments in an open URL", "root_agent.yaml", "name: a\ninstruction: x\ntools:\n  - http:\n      name: f\n      params: {id: string}\n      url: http://shop.test/{args.|\noutput_key: last\n", []string{"args.id string", "last state key, string"}},
		{"flow style", "root_agent.yaml", "name: a\ninstruction: x\ntools: [{http: {name: f, url: http://shop.test, params: {id: string}, confirm: args.|", []string{"id string"}},
		{"state keys", "root_agent.yaml", "name: a\nwhen: state.|\noutput_key: last\ninstruction: x\n", []string{"last state key, string"}},
		{"keys with a prefix", "root_agent.yaml", "name: a\ninstruction: Help {user:|} and {user:name?}.\noutput_key: last\n", []string{"last state key, string", "user:name state key"}},
		{"declared keys", "root_agent.yaml", "name: a\nstate_schema: {tier: {enum: [free, gold]}, n: integer}\ninstruction: |\n  Help {¦\n", []string{"n state key, integer", "tier state key, free or gold"}},
		{"text without a placeholder", "root_agent.yaml", "name: a\ninstruction: Help |\n", []string{}},
		{"types", "root_agent.yaml", "name: a\ninstruction: x\ntools: [{http: {name: f, url: http://shop.test, params: {id: |}}}]\n", []string{"string", "integer", "number", "boolean", "object", "any", "string?"}},
		{"types in a block", "root_agent.yaml", "name: a\ninstruction: x\noutput_schema:\n  id: |\n", []string{"string", "integer"}},
		{"fields", "root_agent.yaml", "|", []string{"name", "description string", "model", "instruction string, or mcp_prompt"}},
		{"fields of a tool", "root_agent.yaml", "name: a\ninstruction: x\ntools:\n  - http:\n      |\n", []string{"name", "url", "description string", "method string"}},
		{"not the agent itself", "root_agent.yaml", "name: desk\nmodel: fast\ninstruction: x\nsub_agents:\n  - use: |\n", []string{"answer"}},
		{"not an agent around", "app.yaml", strings.Replace(shop, "model: fast}", "model: fast, sub_agents: [{use: |}]}", 1), []string{"desk"}},
		{"files", "root_agent.yaml", "name: a\ninstruction: x\nsub_agents:\n  - config_path: |\n", []string{"more/sub.yaml"}},
		{"files from a file", "more/sub.yaml", "name: sub\ninstruction: x\nsub_agents:\n  - config_path: |\n", []string{}},
		{"scripts", "app.yaml", "models:\n  fast:\n    provider: scripted\n    script: |\n", []string{"s.script.yaml"}},
		{"variables of a route", "app.yaml", strings.Replace(shop, "agents:", "  both: {provider: route, routes: [{when: |}]}\nagents:", 1), []string{"state object", "agent string", "invocation object", "run_config object", "session object", "user string"}},
		{"state in a route", "app.yaml", strings.Replace(shop, "agents:", "  both:\n    provider: route\n    routes:\n      - when: state.|\n        model: fast\nagents: {b: {instruction: x, output_key: last}}\nparts:", 1), []string{"last state key, string"}},
		{"variables of a plugin", "app.yaml", shop + "plugins:\n  - context_filter: {custom_filter: |}\n", []string{"state object", "agent string", "content object", "count integer"}},
		{"members in a plugin", "app.yaml", shop + "plugins:\n  - context_filter:\n      custom_filter: content.|\n", []string{"calls", "responses", "role", "text"}},
		{"state of a plugin's instruction", "app.yaml", strings.Replace(shop, "model: fast}", "model: fast, output_key: last}", 1) + "plugins:\n  - global_instruction: {instruction: 'Be kind to {|'}\n", []string{"last state key, string"}},
		{"variables of a function", "app.yaml", shop + "functions:\n  lib.guard: {when: |, deny: No.}\n", []string{"args object", "state object", "response object", "tool object", "agent string", "error object", "event object"}},
		{"members in a function's list", "app.yaml", shop + "functions:\n  lib.guard:\n    - when: error.|\n      respond: No.\n", []string{"code", "message"}},
		{"arguments of a function's tool", "app.yaml", shop + "functions:\n  lib.f: {expr: {name: f, params: {id: string}, value: args.|}}\n", []string{"id string"}},
		{"expectations", "root_agent.test.yaml", "- name: a\n  user: hi\n  expect:\n    - |\n", []string{"state object", "calls list", "text string"}},
		{"a value after an unclosed bracket", "root_agent.yaml", "name: a\ninstruction: x\nmodel: [|\ndescription: }\n", []string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := startEditor(t)
			defer e.close()
			e.openDocument("root_agent.test.yaml", "- name: a\n  user: hi\n  tools: {get_order: {return: {total: 3, status: sent}}}\n")
			var answer struct {
				Items []struct{ Label, Detail, SortText string }
			}
			text := tt.text
			if !strings.Contains(text, "¦") {
				at := strings.LastIndex(text, "|")
				text = text[:at] + "¦" + text[at+1:]
			}
			e.call("textDocument/completion", e.openAtCursor(tt.file, text), &answer)
			got := []string{}
			for i, item := range answer.Items {
				if i > 0 && item.SortText <= answer.Items[i-1].SortText {
					t.Errorf("%s is sorted before the one above it", item.Label)
				}
				if len(got) < len(tt.want) || len(tt.want) == 0 {
					got = append(got, strings.TrimSpace(item.Label+" "+item.Detail))
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("completions (-want +got):\n%s", diff)
			}
		})
	}
}

// An item in a placeholder replaces all of the name before the cursor, whose colon ends a word for
// editors.
func TestCompletionReplacesPrefixedKey(t *testing.T) {
	e := startEditor(t)
	defer e.close()
	var answer struct {
		Items []struct {
			Label    string
			TextEdit struct {
				Range   struct{ Start, End struct{ Line, Character int } }
				NewText string
			}
		}
	}
	e.call("textDocument/completion", e.openAtCursor("root_agent.yaml", "name: a\ninstruction: 'Help {user:na¦} {user:name?}'\n"), &answer)
	for _, item := range answer.Items {
		r := item.TextEdit.Range
		if item.Label == "user:name" && r.Start.Character == 20 && r.End.Character == 27 && item.TextEdit.NewText == "user:name" {
			return
		}
	}
	t.Errorf("no item replaces user:na: %+v", answer.Items)
}
