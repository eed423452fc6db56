package tool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// loadMemoryInstruction makes the model aware of the memory.
const loadMemoryInstruction = "You have a memory of earlier conversations with this user. " +
	"When a question needs information that is not in this conversation, call the function `load_memory` with a search query."

// A loadMemoryTool lets the model search memories (adk-python
// tools/load_memory_tool.py).
type loadMemoryTool struct {
	declaration
	capabilities Capabilities
}

func newLoadMemory(_ context.Context, _ Env, c *callToolArgs) (Set, error) {
	d := newDeclaration("load_memory", "Searches earlier conversations with the user.",
		objectSchema(map[string]any{"query": map[string]any{"type": "string", "description": "The search query."}}, "query"))
	caps, err := c.Call.Capabilities(d.decl)
	return One(&loadMemoryTool{d, caps}), err
}

// Capabilities returns the settings of the document.
func (t *loadMemoryTool) Capabilities() Capabilities { return t.capabilities }

// Run implements [Tool]: it returns a list of memories, in ADK's format.
func (t *loadMemoryTool) Run(ctx context.Context, call *Call) (*Result, error) {
	args, err := CheckArgs(ctx, t.decl, call.Args)
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
		c.ID = "" // the ID is of no use to a model
		memories[i] = session.Normalize(&c)
	}
	return &Result{Response: map[string]any{"memories": memories}}, nil
}

// A ProfileReader is a [Memories] that may have profiles of the user.
type ProfileReader interface {
	// LoadProfiles returns the profiles of the user by the names of their schemas. A store
	// without profiles is an error.
	LoadProfiles(ctx context.Context) (map[string]any, error)
}

// A loadProfilesTool lets the model read the profiles of the user (adk-python
// VertexAiLoadProfilesTool).
type loadProfilesTool struct {
	declaration
	capabilities Capabilities
}

func newLoadProfiles(_ context.Context, _ Env, c *callToolArgs) (Set, error) {
	d := newDeclaration("load_profiles", "Returns the profiles of the user: structured data from earlier conversations, by schema.", nil)
	caps, err := c.Call.Capabilities(d.decl)
	return One(&loadProfilesTool{d, caps}), err
}

// Capabilities returns the settings of the document.
func (t *loadProfilesTool) Capabilities() Capabilities { return t.capabilities }

// Run returns the profiles by their schemas.
func (t *loadProfilesTool) Run(ctx context.Context, call *Call) (*Result, error) {
	reader, ok := call.Memories.(ProfileReader)
	if !ok {
		return nil, errors.New("the memory store has no profiles")
	}
	profiles, err := reader.LoadProfiles(ctx)
	if err != nil {
		return nil, fmt.Errorf("loading profiles: %w", err)
	}
	return &Result{Response: map[string]any{"profiles": profiles}}, nil
}

// EditRequest appends the instruction about the memory.
func (t *loadMemoryTool) EditRequest(_ context.Context, _ *Call, req *model.Request) error {
	req.AppendNote(loadMemoryInstruction)
	return nil
}

// The text around memories that the model is shown unasked. The tags and the
// lines between them are those of adk-python tools/preload_memory_tool.py.
const (
	preloadIntro = "These are excerpts from earlier conversations with the user. Use them where they help to answer.\n"
	preloadStart = "<PAST_CONVERSATIONS>"
	preloadEnd   = "</PAST_CONVERSATIONS>"
)

// A preloadMemoryTool searches memories for the user's message before each
// model call, and adds them to the request. The model never calls it.
type preloadMemoryTool struct {
	declaration
	log *slog.Logger
}

// A preloadArgs is the config of preload_memory: it takes no args in YAML.
type preloadArgs struct{}

func newPreloadMemory(_ context.Context, env Env, _ *preloadArgs) (Set, error) {
	return One(&preloadMemoryTool{newDeclaration("preload_memory", "", nil), env.Logger}), nil
}

// Capabilities marks the tool as built in: it is not offered as a function.
func (t *preloadMemoryTool) Capabilities() Capabilities { return Capabilities{RequestOnly: true} }

// Run always fails: the tool only edits requests.
func (t *preloadMemoryTool) Run(context.Context, *Call) (*Result, error) {
	return nil, fmt.Errorf("%s runs before each model call and cannot be called", t.decl.Name)
}

// EditRequest appends the memories found to the instruction. Memories of this
// session are excluded: the model sees the conversation. A failed search is
// logged, and the request is sent without memories.
func (t *preloadMemoryTool) EditRequest(ctx context.Context, call *Call, req *model.Request) error {
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

// formatMemory returns the lines of a memory in the prompt. Its text cannot
// close the block.
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
