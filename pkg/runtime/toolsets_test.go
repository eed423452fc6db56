package runtime_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"agenthost/internal/testenv"
	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
)

// TestToolsetsSameName: if two sets have a tool with the same name, the model gets the first set's
// tool, and a warning is logged.
func TestToolsetsSameName(t *testing.T) {
	var log bytes.Buffer
	e := testenv.New(t, &testenv.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	var ran []string
	set := func(name string) tool.Set {
		return tool.One(&testTool{name: "search", run: func(context.Context, *tool.Call) (*tool.Result, error) {
			ran = append(ran, name)
			return &tool.Result{Response: map[string]any{"ok": true}}, nil
		}})
	}
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("search"), Toolsets: []tool.Set{set("first"), set("second")}}), nil)
	if got := formatRun(e.Host.Run(t.Context(), userMessage(e.Session(t, "app", "s", nil), "go"))); !strings.HasSuffix(got, "a: done\n") {
		t.Errorf("Run() = %s", got)
	}
	if strings.Join(ran, " ") != "first" || strings.Count(log.String(), "tool skipped: another tool of the agent has its name") != 1 || !strings.Contains(log.String(), "agent=a tool=search") {
		t.Errorf("executed %s, log:\n%s", ran, log.String())
	}
}
