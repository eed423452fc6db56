package tool

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memState is a State that records writes in actions.
type memState struct {
	base    *session.State
	actions *session.Actions
}

func (s memState) Get(key string) (any, bool) {
	if v, ok := s.actions.StateDelta[key]; ok {
		return v, v != nil
	}
	return s.base.Get(key)
}

func (s memState) Set(key string, value any) { s.actions.SetState(key, value) }

func (s memState) Update(all ...session.StateUpdate) error {
	for _, u := range all {
		old, _ := s.Get(u.Key)
		v, err := u.Apply(old)
		if err != nil {
			return err
		}
		s.Set(u.Key, v)
	}
	return nil
}

func (s memState) All() map[string]any {
	all := session.NewState(s.base.All())
	all.Apply(s.actions.StateDelta)
	return all.All()
}

// memArtifacts holds the latest version of each artifact; fail is the error of all
// methods.
type memArtifacts struct {
	parts map[string]*genai.Part
	fail  error
}

func (a memArtifacts) Save(_ context.Context, name string, part *genai.Part) (int, error) {
	a.parts[name] = part
	return 0, a.fail
}

func (a memArtifacts) Load(_ context.Context, name string) (*genai.Part, error) {
	if part, ok := a.parts[name]; ok {
		return part, a.fail
	}
	return nil, session.ErrNotFound
}

func (a memArtifacts) Keys(context.Context) ([]string, error) {
	return slices.Sorted(maps.Keys(a.parts)), a.fail
}

// fakeMemories returns the same memories for every query, and records the queries;
// fail is the error of all methods.
type fakeMemories struct {
	Memories
	found []*session.Memory
	asked *[]string
	fail  error
}

func (m fakeMemories) Search(_ context.Context, query string) ([]*session.Memory, error) {
	*m.asked = append(*m.asked, query)
	return m.found, m.fail
}

func (m fakeMemories) SearchOthers(_ context.Context, query string) ([]*session.Memory, error) {
	*m.asked = append(*m.asked, "of others: "+query)
	return m.found, m.fail
}

func newCall(args, state map[string]any) *Call {
	actions := &session.Actions{}
	return &Call{
		ID: "call-1", Args: args, Actions: actions, IdempotencyKey: "inv-1/call-1",
		Origin: model.Origin{
			App: "shop", Agent: "clerk", UserID: "ana", SessionID: "s1", InvocationID: "inv-1", UserText: "hello",
		},
		State:     memState{session.NewState(maps.Clone(state)), actions},
		Artifacts: memArtifacts{},
	}
}

// buildTool builds a single tool from YAML.
func buildTool(t *testing.T, kind, yaml string) (Tool, error) {
	t.Helper()
	k, ok := Kinds().Lookup(kind)
	if !ok {
		t.Fatalf("Kinds().Lookup(%q) found nothing", kind)
	}
	n, ds := spec.Parse("tool.yaml", []byte(yaml))
	if err := ds.Err(); err != nil {
		t.Fatalf("Parse: %v", err)
	}
	plan, ds := k.Decode(n)
	if err := ds.Err(); err != nil {
		return nil, err
	}
	set, err := plan.Build(t.Context(), testEnv())
	if err != nil {
		return nil, err
	}
	return onlyTool(t, set), nil
}

func mustBuildTool(t *testing.T, kind, yaml string) Tool {
	t.Helper()
	tool, err := buildTool(t, kind, yaml)
	if err != nil {
		t.Fatalf("building %s: %v", kind, err)
	}
	return tool
}

func onlyTool(t *testing.T, set Set) Tool {
	t.Helper()
	tools, err := set.Tools(t.Context())
	if err != nil || len(tools) != 1 {
		t.Fatalf("Tools() = %v, %v, want one tool", tools, err)
	}
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return tools[0]
}

func testEnv() Env { return Env{Logger: slog.New(slog.DiscardHandler)} }

func errorString(err error) string {
	if err == nil {
		return ""
	}
	return strings.TrimSpace(err.Error())
}
