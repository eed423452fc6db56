// Package tooltest has what tool tests share: calls with a state, artifacts and memories, and tools
// that are built from YAML.
package tooltest

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// MemState is a State that records writes in actions.
type MemState struct {
	base    *session.State
	actions *session.Actions
}

// Get implements [tool.State].
func (s MemState) Get(key string) (any, bool) {
	if v, ok := s.actions.StateDelta[key]; ok {
		return v, v != nil
	}
	return s.base.Get(key)
}

// Set implements [tool.State].
func (s MemState) Set(key string, value any) { s.actions.SetState(key, value) }

// Update implements [tool.State].
func (s MemState) Update(all ...session.StateUpdate) error {
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

// All implements [tool.State].
func (s MemState) All() map[string]any {
	all := session.NewState(s.base.All())
	all.Apply(s.actions.StateDelta)
	return all.All()
}

// MemArtifacts holds each artifact's latest version; all methods return the error fail.
type MemArtifacts struct {
	Parts map[string]*genai.Part
	Fail  error
}

// Save implements [tool.Artifacts].
func (a MemArtifacts) Save(_ context.Context, name string, part *genai.Part) (int, error) {
	a.Parts[name] = part
	return 0, a.Fail
}

// Load implements [tool.Artifacts].
func (a MemArtifacts) Load(_ context.Context, name string) (*genai.Part, error) {
	if part, ok := a.Parts[name]; ok {
		return part, a.Fail
	}
	return nil, session.ErrNotFound
}

// Keys implements [tool.Artifacts].
func (a MemArtifacts) Keys(context.Context) ([]string, error) {
	return slices.Sorted(maps.Keys(a.Parts)), a.Fail
}

// FakeMemories returns the same memories for every query, and records the queries; all methods
// return the error fail.
type FakeMemories struct {
	tool.Memories
	Found []*session.Memory
	Asked *[]string
	Fail  error
}

// Search implements [tool.Memories].
func (m FakeMemories) Search(_ context.Context, query string) ([]*session.Memory, error) {
	*m.Asked = append(*m.Asked, query)
	return m.Found, m.Fail
}

// SearchOthers implements [tool.Memories].
func (m FakeMemories) SearchOthers(_ context.Context, query string) ([]*session.Memory, error) {
	*m.Asked = append(*m.Asked, "of others: "+query)
	return m.Found, m.Fail
}

// NewCall returns a call by the agent clerk in the app shop with this state.
func NewCall(args, state map[string]any) *tool.Call {
	actions := &session.Actions{}
	return &tool.Call{
		ID: "call-1", Args: args, Actions: actions, IdempotencyKey: "inv-1/call-1",
		Origin: model.Origin{
			App: "shop", Agent: "clerk", UserID: "ana", SessionID: "s1", InvocationID: "inv-1", UserText: "hello",
		},
		State:     MemState{session.NewState(maps.Clone(state)), actions},
		Artifacts: MemArtifacts{},
	}
}

// BuildTool builds a single tool from YAML.
func BuildTool(t *testing.T, kinds spec.Kinds[tool.Env, tool.Set], kind, yaml string) (tool.Tool, error) {
	t.Helper()
	k, ok := kinds.Lookup(kind)
	if !ok {
		t.Fatalf("kind %q not found", kind)
	}
	n, ds := spec.Parse("tool.yaml", []byte(yaml))
	if err := ds.Err(); err != nil {
		t.Fatalf("Parse: %v", err)
	}
	plan, ds := k.Decode(n)
	if err := ds.Err(); err != nil {
		return nil, err
	}
	set, err := plan.Build(t.Context(), NewEnv())
	if err != nil {
		return nil, err
	}
	return OnlyTool(t, set), nil
}

// MustBuildTool is BuildTool for valid YAML.
func MustBuildTool(t *testing.T, kinds spec.Kinds[tool.Env, tool.Set], kind, yaml string) tool.Tool {
	t.Helper()
	tool, err := BuildTool(t, kinds, kind, yaml)
	if err != nil {
		t.Fatalf("building %s: %v", kind, err)
	}
	return tool
}

// OnlyTool returns the tool in a set with one, and closes the set when the test ends.
func OnlyTool(t *testing.T, set tool.Set) tool.Tool {
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

// NewEnv returns an environment without a log.
func NewEnv() tool.Env { return tool.Env{Logger: slog.New(slog.DiscardHandler)} }

// ErrorString returns an error's text, "" for nil.
func ErrorString(err error) string {
	if err == nil {
		return ""
	}
	return strings.TrimSpace(err.Error())
}

// FakeRunner records runs, and returns the same result.
type FakeRunner struct {
	Runs   []*tool.ProgramRun
	Result tool.ProgramResult
	Err    error
	Waits  bool
}

// RunProgram implements [tool.ProgramRunner].
func (r *FakeRunner) RunProgram(ctx context.Context, run *tool.ProgramRun) (*tool.ProgramResult, error) {
	r.Runs = append(r.Runs, run)
	if r.Waits {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return &r.Result, r.Err
}

// ParseNode parses YAML.
func ParseNode(t *testing.T, text string) *spec.Node {
	t.Helper()
	n, ds := spec.Parse("tool.yaml", []byte(text))
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	return n
}

// SavedArtifacts describes a call's artifacts: media type and content by name.
func SavedArtifacts(from MemArtifacts) map[string]string {
	all := map[string]string{}
	for name, part := range from.Parts {
		all[name] = fmt.Sprintf("text %q", part.Text)
		if part.InlineData != nil {
			all[name] = fmt.Sprintf("%s %q", part.InlineData.MIMEType, part.InlineData.Data)
		}
	}
	return all
}

// RunAsText returns a call's response as JSON, or its error.
func RunAsText(t *testing.T, it tool.Tool, call *tool.Call) string {
	t.Helper()
	got, err := it.Run(t.Context(), call)
	if err != nil {
		return "error: " + err.Error()
	}
	return template.String(got.Response)
}
