package runtime_test

import (
	"context"
	"testing"

	"google.golang.org/genai"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// plainAgent is an agent from another program, which does not embed Base.
type plainAgent struct{}

func (*plainAgent) Name() string               { return "plain" }
func (*plainAgent) Description() string        { return "" }
func (*plainAgent) SubAgents() []runtime.Agent { return nil }
func (*plainAgent) Run(context.Context, *runtime.Invocation) runtime.Events {
	return func(func(*session.Event, error) bool) {}
}

// TestAgentWithoutBase: callbacks and conditions that an agent cannot have are errors, and are not
// silently dropped; the control embeds Base.
func TestAgentWithoutBase(t *testing.T) {
	callbacks := runtime.Callbacks{BeforeAgent: []runtime.AgentFunc{
		func(context.Context, *runtime.CallbackContext) (*genai.Content, error) { return nil, nil },
	}}
	base := &testAgent{Base: runtime.Base{AgentName: "base"}}
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"callbacks", runtime.AddCallbacks(&plainAgent{}, callbacks), "agent plain cannot have callbacks: its type *runtime_test.plainAgent does not embed runtime.Base"},
		{"when", runtime.SetCondition(&plainAgent{}, &runtime.Condition{}), "agent plain cannot have a when: its type *runtime_test.plainAgent does not embed runtime.Base"},
		{"no callbacks", runtime.AddCallbacks(&plainAgent{}, runtime.Callbacks{}), ""},
		{"no when", runtime.SetCondition(&plainAgent{}, nil), ""},
		{"callbacks with base", runtime.AddCallbacks(base, callbacks), ""},
		{"when with base", runtime.SetCondition(base, &runtime.Condition{}), ""},
	} {
		got := ""
		if tt.err != nil {
			got = tt.err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if len(base.Callbacks.BeforeAgent) != 1 {
		t.Error("the agent that embeds Base has no callback")
	}
}
