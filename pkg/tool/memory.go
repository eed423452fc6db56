package tool

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// Memories are what the app remembers of the session's user, from this and
// earlier sessions. Nothing gets there by itself.
type Memories interface {
	// Search finds the memories that fit a text, the best first, ten at most.
	Search(ctx context.Context, query string) ([]*session.Memory, error)
	// SearchOthers is Search without what this session left.
	SearchOthers(ctx context.Context, query string) ([]*session.Memory, error)
	// AddSession remembers what was said in this session so far, in the place
	// of what was remembered of it before. An agent that is called as a tool
	// has no session of its own: then it does nothing.
	AddSession(ctx context.Context) error
	// AddEvents remembers what was said in events, as of this session, but for
	// those that are remembered already.
	AddEvents(ctx context.Context, events []*session.Event) error
	// Add keeps memories that come from no session.
	Add(ctx context.Context, memories ...*session.Memory) error
}

// loadMemoryInstruction tells the model that there is a memory.
const loadMemoryInstruction = "You have a memory of what was said in earlier conversations with this user. " +
	"When a question needs something that is not in this conversation, call the function `load_memory` with words to look for."

// A loadMemory lets the model look for memories (adk-python
// tools/load_memory_tool.py).
type loadMemoryTool struct {
	declaration
	capabilities Capabilities
}

func newLoadMemory(_ context.Context, _ Env, c *callToolArgs) (Set, error) {
	d := newDeclaration("load_memory", "Looks for what was said in earlier conversations with the user.",
		objectSchema(map[string]any{"query": map[string]any{"type": "string", "description": "The words to look for."}}, "query"))
	caps, err := c.Call.Capabilities(d.decl)
	return One(&loadMemoryTool{d, caps}), err
}

// Capabilities says what the document asked for.
func (t *loadMemoryTool) Capabilities() Capabilities { return t.capabilities }

// Run implements [Tool]: it answers with a list of memories, as ADK has them.
func (t *loadMemoryTool) Run(ctx context.Context, call *Call) (*Result, error) {
	args, err := CheckArgs(t.decl, call.Args)
	if err != nil {
		return nil, err
	}
	query, _ := args["query"].(string)
	found, err := call.Memories.Search(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("searching the memory: %w", err)
	}
	memories := make([]any, len(found))
	for i, m := range found {
		c := *m
		c.ID = "" // means nothing to a model
		memories[i] = session.Normalize(&c)
	}
	return &Result{Response: map[string]any{"memories": memories}}, nil
}

// EditRequest tells the model that there is a memory.
func (t *loadMemoryTool) EditRequest(_ context.Context, _ *Call, req *model.Request) error {
	req.AppendInstruction(loadMemoryInstruction)
	return nil
}

// The text around memories that the model is shown unasked. The tags and the
// lines between them are those of adk-python tools/preload_memory_tool.py.
const (
	preloadIntro = "This was said in earlier conversations with the user. Use it where it helps to answer.\n"
	preloadStart = "<PAST_CONVERSATIONS>"
	preloadEnd   = "</PAST_CONVERSATIONS>"
)

// A preloadMemory looks for memories of what the user says before each call of
// the model, and shows them to it. The model never calls it.
type preloadMemoryTool struct {
	declaration
	log *slog.Logger
}

// A preloadArgs is the config of preload_memory: it takes no args in YAML.
type preloadArgs struct{}

func newPreloadMemory(_ context.Context, env Env, _ *preloadArgs) (Set, error) {
	return One(&preloadMemoryTool{newDeclaration("preload_memory", "", nil), env.Logger}), nil
}

// Capabilities says that the tool is no function.
func (t *preloadMemoryTool) Capabilities() Capabilities { return Capabilities{Builtin: true} }

// Run always fails: what the tool does, it does before the model is asked.
func (t *preloadMemoryTool) Run(context.Context, *Call) (*Result, error) {
	return nil, fmt.Errorf("%s works before the model is asked and cannot be called", t.decl.Name)
}

// EditRequest appends what is remembered to the instruction. What this session
// left is not repeated: the model sees the conversation. A search that fails is
// noted in the log, and the model is asked without it.
func (t *preloadMemoryTool) EditRequest(ctx context.Context, call *Call, req *model.Request) error {
	if call.Origin.User == "" {
		return nil
	}
	found, err := call.Memories.SearchOthers(ctx, call.Origin.User)
	if err != nil {
		t.log.WarnContext(ctx, "searching the memory", "app", call.Origin.App, "session", call.Origin.SessionID, "error", err)
		return nil
	}
	var lines []string
	for _, m := range found {
		lines = append(lines, formatMemory(m)...)
	}
	if len(lines) > 0 {
		req.AppendInstruction(preloadIntro + preloadStart + "\n" + strings.Join(lines, "\n") + "\n" + preloadEnd)
	}
	return nil
}

// formatMemory are what the model sees of a memory. Its text cannot end the
// block.
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
