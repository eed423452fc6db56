package runtime

import (
	"context"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// Callbacks are functions that are called at certain points of an agent's run
// (adk-python agents/callback_context.py and the callbacks of its agents). The
// functions of a list are called in order until one returns an answer; nil
// continues normally. An error ends the run; a [*RunError] is reported
// unchanged. Functions are called concurrently. The lists for models and tools
// apply to LLM agents only.
type Callbacks struct {
	// BeforeAgent: an answer becomes an event instead of the agent's run, and
	// AfterAgent is not called. Other agents of the run continue.
	BeforeAgent []AgentFunc
	// AfterAgent: an answer becomes an additional event after the agent's own.
	AfterAgent []AgentFunc
	// BeforeModel may change the request. An answer replaces the model call,
	// does not count as a call, and is not passed to AfterModel.
	BeforeModel []BeforeModelFunc
	// AfterModel: an answer replaces the model's response. It is called for
	// each partial response of a stream and for the whole response.
	AfterModel []AfterModelFunc
	// OnModelError: an answer replaces the error of a failed call.
	OnModelError []ModelErrorFunc
	// BeforeTool may change the arguments. An answer replaces the tool call;
	// AfterTool is called nevertheless.
	BeforeTool []BeforeToolFunc
	// AfterTool: an answer replaces the tool's result. It is not called for
	// errors that OnToolError did not handle.
	AfterTool []AfterToolFunc
	// OnToolError: an answer replaces the error of a failed call. It is also
	// called for unknown tools; AfterTool is not called then.
	OnToolError []ToolErrorFunc
}

// The types of callbacks. The contents of a request are shared with the session:
// replace them, never change them. To change a response, return a changed Clone,
// which preserves whether the response is partial.
type (
	// AgentFunc is called before or after an agent.
	AgentFunc func(ctx context.Context, m *CallbackContext) (*genai.Content, error)
	// BeforeModelFunc is called before a model.
	BeforeModelFunc func(ctx context.Context, m *CallbackContext, req *model.Request) (*model.Response, error)
	// AfterModelFunc is called after a model.
	AfterModelFunc func(ctx context.Context, m *CallbackContext, resp *model.Response) (*model.Response, error)
	// ModelErrorFunc is called when a model call fails.
	ModelErrorFunc func(ctx context.Context, m *CallbackContext, req *model.Request, err error) (*model.Response, error)
	// BeforeToolFunc is called before a tool.
	BeforeToolFunc func(ctx context.Context, t tool.Tool, call *tool.Call) (*tool.Result, error)
	// AfterToolFunc is called after a tool; the result is nil when the tool
	// returned none.
	AfterToolFunc func(ctx context.Context, t tool.Tool, call *tool.Call, result *tool.Result) (*tool.Result, error)
	// ToolErrorFunc is called when a tool fails.
	ToolErrorFunc func(ctx context.Context, t tool.Tool, call *tool.Call, err error) (*tool.Result, error)
)

// A CallbackContext is the context of a callback: the invocation of its agent,
// and the state, actions and artifacts that it can write. It is valid during
// the call.
type CallbackContext struct {
	*Invocation
	// State reads the session's state including the writes of this callback.
	State tool.State
	// Actions are added to the resulting event: the callback's own, or that of
	// the model response. Before and after an agent, a state write alone
	// yields an event without content.
	Actions *session.Actions
	// Artifacts of the session and its user.
	Artifacts tool.Artifacts
	// Memories of the session's user; a callback can add the session.
	Memories tool.Memories
	// Event is the last event of the agent, or of one below it, in this run.
	// It is set for callbacks after an agent only, and nil if there is none.
	Event *session.Event
}

func (inv *Invocation) newCallbackContext(actions *session.Actions) *CallbackContext {
	r := inv.run
	return &CallbackContext{
		Invocation: inv, Actions: actions,
		State:     &callState{run: r, actions: actions},
		Artifacts: &callArtifacts{store: r.host.store.Artifacts, key: r.sess.Key, actions: actions},
		Memories:  &callMemories{r},
	}
}

// Add appends the lists of more to those of c.
func (c *Callbacks) Add(more *Callbacks) {
	c.BeforeAgent = append(c.BeforeAgent, more.BeforeAgent...)
	c.AfterAgent = append(c.AfterAgent, more.AfterAgent...)
	c.BeforeModel = append(c.BeforeModel, more.BeforeModel...)
	c.AfterModel = append(c.AfterModel, more.AfterModel...)
	c.OnModelError = append(c.OnModelError, more.OnModelError...)
	c.BeforeTool = append(c.BeforeTool, more.BeforeTool...)
	c.AfterTool = append(c.AfterTool, more.AfterTool...)
	c.OnToolError = append(c.OnToolError, more.OnToolError...)
}

// countFunctions returns the number of functions in all lists.
func (c *Callbacks) countFunctions() int {
	return len(c.BeforeAgent) + len(c.AfterAgent) + len(c.BeforeModel) + len(c.AfterModel) +
		len(c.OnModelError) + len(c.BeforeTool) + len(c.AfterTool) + len(c.OnToolError)
}
