package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"agenthost/internal/testenv"
	"agenthost/pkg/connection"
	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// A consentSet lists its tool for users who have consented.
type consentSet struct {
	consented bool
	listed    int
	confirm   bool
}

func (s *consentSet) Close() error { return nil }

func (s *consentSet) Tools(context.Context) ([]tool.Tool, error) {
	s.listed++
	if !s.consented {
		return nil, errors.Join(errors.New("server"), connection.NewConsentError(func(_ context.Context, _, callID string) (map[string]any, error) {
			return map[string]any{"credentialKey": "connection:crm", "call": callID}, nil
		}))
	}
	traits := tool.Capabilities{}
	if s.confirm {
		traits.Confirm = alwaysConfirm()
	}
	d, err := declare.Tool("find", "Finds.", map[string]any{
		"type": "object", "required": []any{"name", "tenant"},
		"properties": map[string]any{"name": map[string]any{"type": "string"}, "tenant": map[string]any{"type": "integer"}},
	})
	if err != nil {
		return nil, err
	}
	return []tool.Tool{&setTestTool{d, traits}}, nil
}

type setTestTool struct {
	*tool.Declared
	capabilities tool.Capabilities
}

func (t *setTestTool) Capabilities() tool.Capabilities { return t.capabilities }

func (t *setTestTool) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	call, err := t.CheckCall(ctx, call)
	if err != nil {
		return nil, err
	}
	return &tool.Result{Response: map[string]any{"found": call.Args}}, nil
}

// newToolsetFlow returns a workflow that calls find with the name in the state key who.
func newToolsetFlow(t *testing.T, set tool.Set, name string) runtime.Agent {
	t.Helper()
	args := func(_ context.Context, m *runtime.CallbackContext, _ any) (any, error) {
		who, _ := m.State.Get("who")
		return map[string]any{"name": who}, nil
	}
	w, err := runtime.NewWorkflow("flow", &runtime.WorkflowOptions{
		Nodes: []runtime.Agent{runtime.NewToolsetNode("call", set, name, &runtime.ToolNodeOptions{Args: args, OutputKey: "out"})},
		Edges: []runtime.Edge{{From: runtime.Start, To: 0}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestToolsetNodeConsent: a node whose set lists its tools only after the user's consent requests the
// consent, and then calls the tool with the input that the request has: the parameters that are missing
// are taken from the state, and the call still needs its approval.
func TestToolsetNodeConsent(t *testing.T) {
	set := &consentSet{confirm: true}
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", map[string]any{"who": "Ann", "tenant": 7.0})
	deployApp(t, e, newToolsetFlow(t, set, "find"), &runtime.AppOptions{Resumable: true})
	formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
	want := `wf_auth:flow@1/call@1 adk_request_credential {"authConfig":{"call":"flow@1/call@1","credentialKey":"connection:crm"},` +
		`"functionCallId":"wf_auth:flow@1/call@1","payload":{"args":{},"input":{"name":"Ann"},"tool_name":"find"}}`
	if got := openCall(t, e, key); got != want {
		t.Fatalf("open call\n%s\nwant\n%s", got, want)
	}
	set.consented = true
	formatRun(e.Host.Run(t.Context(), answerRequest(t, e, key, map[string]any{"exchangedAuthCredential": map[string]any{}})))
	if got := openCall(t, e, key); !strings.HasPrefix(got, "wf_tool_confirmation:flow@1/call@1 adk_request_input ") ||
		!strings.Contains(got, `"payload":{"args":{"name":"Ann","tenant":7},"tool_name":"find"}`) {
		t.Fatalf("after the consent: %s", got)
	}
	formatRun(e.Host.Run(t.Context(), answerRequest(t, e, key, map[string]any{"confirmed": true})))
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, _ := sess.State.Get("out")
	raw, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(raw); got != `{"found":{"name":"Ann","tenant":7}}` || openCall(t, e, key) != "" {
		t.Errorf("out = %s", got)
	}
	if set.listed != 3 {
		t.Errorf("the tools were listed %d times, want once in each run", set.listed)
	}
}

// TestToolsetNodeErrors: the run ends with the reason if the set has no such tool, and names the
// similar one. Arguments that do not fit the tool's schema are the node's output, as for any tool.
func TestToolsetNodeErrors(t *testing.T) {
	for _, test := range []struct {
		name, tool string
		state      map[string]any
		want       string
	}{
		{"unknown", "fimd", map[string]any{}, `node call cannot call fimd: unknown tool "fimd", did you mean find?: the tools are find`},
		{"wrong type", "find", map[string]any{"who": "Ann", "tenant": "x"}, "tenant: got string, want integer"},
		{"missing", "find", map[string]any{"who": "Ann"}, "tenant"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := testenv.New(t, nil)
			key := e.Session(t, "app", "s", test.state)
			deployApp(t, e, newToolsetFlow(t, &consentSet{consented: true}, test.tool), nil)
			got := formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
			if !strings.Contains(got, test.want) {
				t.Errorf("run\n%s\nwant %s", got, test.want)
			}
		})
	}
}
