package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
)

// TestInjectMissingValue: a missing inject value is reported with the expression's position, as an
// instruction's is.
func TestInjectMissingValue(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	e.Load(t, testenv.Files(t, "app", map[string][]byte{
		"root_agent.yaml": []byte("name: a\nmodel: demo\ninstruction_provider: inject(\"{city}\")\n"),
		"app.yaml":        []byte("models: {demo: {provider: scripted, script: s.yaml}}\n"),
		"s.yaml":          []byte("- text: x\n"),
	}))
	got := formatRun(e.Host.Run(t.Context(), userMessage(key, "x")))
	if !strings.HasPrefix(got, "error MISSING_VALUE: Context variable not found: `city`. (agent a, ") ||
		!strings.HasSuffix(got, "root_agent.yaml:3:23; write {city?} if it may be missing)\n") {
		t.Errorf("Run = %s", got)
	}
}

// TestInstructionFunc: Go code computes an instruction from what it may read,
// and injects on request (semantics 4.2). Its failure ends the run before the
// model is called.
func TestInstructionFunc(t *testing.T) {
	for _, tt := range []struct {
		name string
		fn   runtime.InstructionFunc
		want string
	}{
		{"reads", func(_ context.Context, inv *runtime.Invocation) (string, error) {
			tier, _ := inv.Lookup("user:tier")
			return fmt.Sprintf("%s for %v, {user:tier}.", inv.Agent().Name(), tier), nil
		}, "a: a for gold, {user:tier}.\n"},
		{"injects", func(ctx context.Context, inv *runtime.Invocation) (string, error) {
			return inv.Inject(ctx, "Be {user:tier}{x?}.")
		}, "a: Be gold.\n"},
		{"misses", func(ctx context.Context, inv *runtime.Invocation) (string, error) {
			return inv.Inject(ctx, "{x}")
		}, "error MISSING_VALUE: Context variable not found: `x`. (agent a; write {x?} if it may be missing)\n"},
		{"fails", func(context.Context, *runtime.Invocation) (string, error) {
			return "", errors.New("no file")
		}, "error CALLBACK_FAILED: instruction_provider of agent a failed: no file\n"},
		{"panics", func(context.Context, *runtime.Invocation) (string, error) { panic("boom") }, "error CALLBACK_FAILED: instruction_provider of agent a failed: it panicked\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := testenv.New(t, nil)
			repeat := modelFunc(func(_ context.Context, req *model.Request) (*genai.Content, error) {
				text, _, _ := strings.Cut(req.Instruction(), "\n")
				return model.ModelText(text), nil
			})
			deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: repeat, InstructionProvider: tt.fn}), nil)
			got := formatRun(e.Host.Run(t.Context(), userMessage(e.Session(t, "app", "s", map[string]any{"user:tier": "gold"}), "x")))
			if got != tt.want {
				t.Errorf("Run() = %q, want %q", got, tt.want)
			}
		})
	}
}
