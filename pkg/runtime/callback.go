package runtime

import (
	"context"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// Callbacks are functions that an agent asks at certain moments of its run
// (adk-python agents/callback_context.py and the callbacks of its agents). Each
// list is asked in order until one answers; a nil answer lets things go their
// way. An error ends the run: a [*RunError] is told as it is. Functions are
// called by many goroutines at once. The model's and the tools' lists matter to
// LLM agents only.
type Callbacks struct {
	// BeforeAgent: the answer becomes an event in place of the agent's run, and
	// AfterAgent is not asked. Other agents of the run go on.
	BeforeAgent []AgentFunc
	// AfterAgent: the answer becomes an event more, behind the agent's own.
	AfterAgent []AgentFunc
	// BeforeModel may change the request; an answer takes the place of the
	// model's, is not counted as a call, and is not shown to AfterModel.
	BeforeModel []BeforeModelFunc
	// AfterModel: the answer replaces the model's. It is asked about each
	// piece of a streamed answer, and about the whole.
	AfterModel []AfterModelFunc
	// OnModelError: the answer takes the place of a failed call's.
	OnModelError []ModelErrorFunc
	// BeforeTool may change the arguments; an answer takes the place of the
	// tool's. AfterTool is asked all the same.
	BeforeTool []BeforeToolFunc
	// AfterTool: the answer replaces the tool's. It is not asked about
	// failures that OnToolError let pass.
	AfterTool []AfterToolFunc
	// OnToolError: the answer takes the place of a failed call's. It is asked
	// about tools that do not exist too, and is then the last word.
	OnToolError []ToolErrorFunc
}

// The kinds of callbacks. What a request holds is shared with the session:
// replace its contents, never change them. A changed response begins as a
// Clone of the model's, which keeps it the piece or the whole that it was.
type (
	// AgentFunc is asked before or after an agent.
	AgentFunc func(ctx context.Context, m *CallbackContext) (*genai.Content, error)
	// BeforeModelFunc is asked before a model.
	BeforeModelFunc func(ctx context.Context, m *CallbackContext, req *model.Request) (*model.Response, error)
	// AfterModelFunc is asked after a model.
	AfterModelFunc func(ctx context.Context, m *CallbackContext, resp *model.Response) (*model.Response, error)
	// ModelErrorFunc is asked when a call of a model failed.
	ModelErrorFunc func(ctx context.Context, m *CallbackContext, req *model.Request, err error) (*model.Response, error)
	// BeforeToolFunc is asked before a tool.
	BeforeToolFunc func(ctx context.Context, t tool.Tool, call *tool.Call) (*tool.Result, error)
	// AfterToolFunc is asked after a tool; the result is nil when the tool
	// answered nothing.
	AfterToolFunc func(ctx context.Context, t tool.Tool, call *tool.Call, result *tool.Result) (*tool.Result, error)
	// ToolErrorFunc is asked when a tool failed.
	ToolErrorFunc func(ctx context.Context, t tool.Tool, call *tool.Call, err error) (*tool.Result, error)
)

// A CallbackContext is what a callback sees: the invocation of its agent, and what it
// may write to. It is valid during the call.
type CallbackContext struct {
	*Invocation
	// State reads the session's state with this moment's own writes on top.
	State tool.State
	// Actions ride on the event that the moment leads to: the callback's own,
	// or the model's. Before and after an agent, written state alone makes an
	// event without content.
	Actions *session.Actions
	// Artifacts of the session and its user.
	Artifacts tool.Artifacts
	// Memories of the session's user, to which a callback may add the session.
	Memories tool.Memories
	// Event is the last that the agent, or one below it, said in this run: what
	// callbacks after an agent are asked about. It is nil elsewhere, and where
	// nothing was said.
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

// Add puts the lists of more behind those of c.
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

// countFunctions is how many functions there are in all.
func (c *Callbacks) countFunctions() int {
	return len(c.BeforeAgent) + len(c.AfterAgent) + len(c.BeforeModel) + len(c.AfterModel) +
		len(c.OnModelError) + len(c.BeforeTool) + len(c.AfterTool) + len(c.OnToolError)
}
