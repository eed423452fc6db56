package builtin

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"agenthost/internal/toolconfig"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// loadMemoryInstruction makes the model aware of the memory.
const loadMemoryInstruction = "You have a memory of earlier conversations with this user. " +
	"When a question needs information that is not in this conversation, call the function `load_memory` with a search query."

// A loadMemoryTool lets the model search memories (adk-python
// tools/load_memory_tool.py).
type loadMemoryTool struct {
	toolconfig.Declarer
	capabilities tool.Capabilities
}

func newLoadMemory(_ context.Context, _ tool.Env, c *toolconfig.BuiltinConfig) (tool.Set, error) {
	d := toolconfig.NewDeclarer("load_memory", "Searches earlier conversations with the user.",
		toolconfig.ObjectSchema(map[string]any{"query": map[string]any{"type": "string", "description": "The search query."}}, "query"))
	caps, err := c.Call.Capabilities(d.Declaration())
	return tool.One(&loadMemoryTool{d, caps}), err
}

// Capabilities returns the document's settings.
func (t *loadMemoryTool) Capabilities() tool.Capabilities { return t.capabilities }

// Run implements [tool.Tool]: it lists memories in ADK's format.
func (t *loadMemoryTool) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	args, err := declare.CheckArgs(ctx, t.Declaration(), call.Args)
	if err != nil {
		return nil, err
	}
	query, _ := args["query"].(string)
	found, err := call.Memories.Search(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("searching memory: %w", err)
	}
	memories := make([]any, len(found))
	for i, m := range found {
		c := *m
		c.ID = "" // the ID is useless to a model
		memories[i] = session.Normalize(&c)
	}
	return &tool.Result{Response: map[string]any{"memories": memories}}, nil
}

// EditRequest appends the instruction about the memory.
func (t *loadMemoryTool) EditRequest(_ context.Context, _ *tool.Call, req *model.Request) error {
	req.AppendNote(loadMemoryInstruction)
	return nil
}

// The text around memories that the model is shown unasked. The tags and the lines between them are
// from adk-python tools/preload_memory_tool.py.
const (
	preloadIntro = "These are excerpts from earlier conversations with the user. Use them where they help to answer.\n"
	preloadStart = "<PAST_CONVERSATIONS>"
	preloadEnd   = "</PAST_CONVERSATIONS>"
)

// A preloadMemoryTool searches memories for the user's message before each
// model call, and adds them to the request. The model never calls it.
type preloadMemoryTool struct {
	toolconfig.Declarer
	log *slog.Logger
}

// A preloadArgs configures preload_memory: it takes no args in YAML.
type preloadArgs struct{}

func newPreloadMemory(_ context.Context, env tool.Env, _ *preloadArgs) (tool.Set, error) {
	return tool.One(&preloadMemoryTool{toolconfig.NewDeclarer("preload_memory", "", nil), env.Logger}), nil
}

// Capabilities marks the tool as built in: it is not offered as a function.
func (t *preloadMemoryTool) Capabilities() tool.Capabilities {
	return tool.Capabilities{RequestOnly: true}
}

// Run always fails: the tool only edits requests.
func (t *preloadMemoryTool) Run(context.Context, *tool.Call) (*tool.Result, error) {
	return nil, fmt.Errorf("%s runs before each model call and cannot be called", t.Declaration().Name)
}

// EditRequest appends the memories found to the instruction. This session's memories are excluded:
// the model sees the conversation. A failed search is logged, and the request is sent without
// memories.
func (t *preloadMemoryTool) EditRequest(ctx context.Context, call *tool.Call, req *model.Request) error {
	if call.Origin.UserText == "" {
		return nil
	}
	found, err := call.Memories.SearchOthers(ctx, call.Origin.UserText)
	if err != nil {
		t.log.WarnContext(ctx, "memory search failed", "app", call.Origin.App, "session", call.Origin.SessionID, "error", err)
		return nil
	}
	var lines []string
	for _, m := range found {
		lines = append(lines, formatMemory(m)...)
	}
	if len(lines) > 0 {
		req.AppendNote(preloadIntro + preloadStart + "\n" + strings.Join(lines, "\n") + "\n" + preloadEnd)
	}
	return nil
}

// formatMemory returns a memory's lines in the prompt. Its text cannot close the block.
func formatMemory(m *session.Memory) []string {
	text := strings.NewReplacer(preloadStart, "", preloadEnd, "").Replace(m.Text())
	if text == "" {
		return nil
	}
	var lines []string
	if !m.Timestamp.IsZero() {
		lines = append(lines, "Time: "+m.Timestamp.UTC().Format(time.RFC3339Nano))
	}
	if m.Author != "" {
		text = m.Author + ": " + text
	}
	return append(lines, text)
}
