package runtime_test

import (
	"strings"
	"testing"

	"agenthost/internal/testenv"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// newEntryApp returns an app whose agent has the sets, with an entry for find.
func newEntryApp(t *testing.T, resumable bool, sets ...tool.Set) *runtime.App {
	t.Helper()
	root := runtime.NewLLM("a", &runtime.LLMOptions{Model: textModel("done"), Toolsets: sets})
	entry, err := runtime.NewToolEntry(root, "find", "a")
	if err != nil {
		t.Fatal(err)
	}
	if decl, isKnown := entry.Declaration(); isKnown || decl.Name != "find" || entry.Name() != "tool:find" {
		t.Errorf("the entry %s has the declaration %v", entry.Name(), decl)
	}
	app, err := runtime.NewApp("app", root, &runtime.AppOptions{Resumable: resumable, Entries: []*runtime.ToolNode{entry}})
	if err != nil {
		t.Fatal(err)
	}
	return app
}

func runEntry(t *testing.T, e *testenv.Env, key session.Key, args string) string {
	t.Helper()
	req := userMessage(key, args)
	req.Agent = "tool:find"
	return formatRun(e.Host.Run(t.Context(), req))
}

// An entry calls a tool that its set lists only after the user's consent, and that then needs an
// approval. Its arguments are only the client's: none is taken from the state.
func TestToolEntryOfSet(t *testing.T) {
	for _, resumable := range []bool{false, true} {
		set := &consentSet{confirm: true}
		e := testenv.New(t, nil)
		key := e.Session(t, "app", "s", map[string]any{"tenant": 7.0})
		e.Host.Swap(newEntryApp(t, resumable, &consentSet{}, set))
		runEntry(t, e, key, `{"name":"Ann","tenant":3}`)
		if got := openCall(t, e, key); !strings.Contains(got, "adk_request_credential") {
			t.Fatalf("the open call is %s", got)
		}
		set.consented = true
		formatRun(e.Host.Run(t.Context(), answerRequest(t, e, key, map[string]any{"exchangedAuthCredential": map[string]any{}})))
		if got := openCall(t, e, key); !strings.Contains(got, "adk_request_confirmation") || !strings.Contains(got, `"args":{"name":"Ann","tenant":3}`) {
			t.Fatalf("after the consent: %s", got)
		}
		if got := formatRun(e.Host.Run(t.Context(), answerRequest(t, e, key, map[string]any{"confirmed": true}))); !strings.Contains(got, `map[found:map[name:Ann tenant:3]]`) {
			t.Errorf("the result is %s", got)
		}
		set.confirm = false
		if got := runEntry(t, e, key, `{"name":"Ann"}`); !strings.Contains(got, "tenant") || strings.Contains(got, "found") {
			t.Errorf("without an argument that the state has: %s", got)
		}
		if got := runEntry(t, e, key, `{"name":"Ann","tenant":3}`); !strings.Contains(got, `map[found:map[name:Ann tenant:3]]`) {
			t.Errorf("the next call is %s", got)
		}
	}
}

// A tool that no set has is an error that names the choice. An app has an entry once, and for an agent
// in its tree. The tree does not have the entry.
func TestToolEntryProblems(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	root := runtime.NewLLM("a", &runtime.LLMOptions{Model: textModel("done"), Toolsets: []tool.Set{&consentSet{consented: true}}})
	entry, err := runtime.NewToolEntry(root, "fimd", "a")
	if err != nil {
		t.Fatal(err)
	}
	app := deployApp(t, e, root, &runtime.AppOptions{Entries: []*runtime.ToolNode{entry}})
	req := userMessage(key, "{}")
	req.Agent = entry.Name()
	if got := formatRun(e.Host.Run(t.Context(), req)); !strings.Contains(got, `node tool:fimd cannot call fimd: unknown tool "fimd", did you mean find?`) {
		t.Errorf("the run is %s", got)
	}
	if got := strings.Join(app.AgentNames(), " "); got != "a" || app.Agent(entry.Name()) != nil {
		t.Errorf("the agents are %s", got)
	}
	req.Agent = "tool:find"
	if got := formatRun(e.Host.Run(t.Context(), req)); !strings.Contains(got, `agent "tool:find" cannot answer`) {
		t.Errorf("a call of a tool that is not an entry: %s", got)
	}
	other := runtime.NewLLM("b", &runtime.LLMOptions{Model: textModel("done")})
	for want, opts := range map[string]*runtime.AppOptions{
		"the agent of tool:fimd is not in the agent tree": {Entries: []*runtime.ToolNode{entry}},
	} {
		if _, err := runtime.NewApp("app", other, opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	again, err := runtime.NewToolEntry(root, "fimd", "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runtime.NewApp("app", root, &runtime.AppOptions{Entries: []*runtime.ToolNode{entry, again}}); err == nil || !strings.Contains(err.Error(), "duplicate entry tool:fimd") {
		t.Errorf("two entries: %v", err)
	}
}

// An entry may call an agent that is called as a tool, with the model that the agent inherits.
func TestToolEntryOfAgent(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	sub := runtime.NewLLM("find", nil)
	root := runtime.NewLLM("a", &runtime.LLMOptions{Model: textModel("done"), Tools: []tool.Tool{runtime.NewAgentTool(sub, nil)}})
	entry, err := runtime.NewToolEntry(root, "find", "")
	if err != nil {
		t.Fatal(err)
	}
	deployApp(t, e, root, &runtime.AppOptions{Entries: []*runtime.ToolNode{entry}})
	if got := runEntry(t, e, key, `{"request":"go"}`); !strings.Contains(got, `map[result:done]`) {
		t.Errorf("the run is %s", got)
	}
}
