package runtime

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
)

// An Invocation is the view that one agent has of a run: the agent, its branch
// and the session. Each agent gets its own; they share the state of the run.
// It is valid until the run ends, and parallel agents may use theirs
// concurrently.
type Invocation struct {
	run    *run
	node   *node
	branch string
	// frame is nil when the invocation cannot be resumed.
	frame *frame
	// input is the output of the previous node of a workflow; nil outside of
	// one.
	input *nodeValue
	// callbackOf is the agent's invocation if this one belongs to a callback
	// of it; nil for the agent itself.
	callbackOf *Invocation
	ended      atomic.Bool
	// endsRun reports whether the run ends with this agent: no other agent, callback
	// or plugin follows.
	endsRun bool
	// toolbox has the agent's tools including those of its toolsets, once they
	// are listed.
	toolbox *toolbox
}

// run is the state that all agents of one invocation share.
type run struct {
	id       string
	host     *Host
	app      *App
	sess     *session.Session
	config   RunConfig
	user     *genai.Content
	userText string
	turn     int
	// state reads the session's state, with its defaults.
	state  func(key string) (any, bool)
	budget *callBudget
	// expressions is the budget that all expressions of the turn share.
	expressions *template.Budget
	// inner marks the run of an agent that is called as a tool.
	inner bool
	// decisions are the answers of the user's message to confirmation and
	// credential requests; nil for any other message.
	decisions *decisions
	// record has the events of a resumed invocation; nil for a new one.
	record *invocationRecord
	// onLastEvent is called before the last event of the run, where that is
	// known; it is never nil in an invocation with endsRun.
	onLastEvent func()
	// commit stores an event. An inner run only appends it to its temporary
	// session.
	commit func(ctx context.Context, ev *session.Event) error
}

// logger is the logger of the host with the attributes of the run.
func (r *run) logger() *slog.Logger { return r.withRunAttrs(r.host.logger) }

// withRunAttrs returns a logger that adds the app, revision, session and
// invocation to every record.
func (r *run) withRunAttrs(logger *slog.Logger) *slog.Logger {
	return logger.With("app", r.app.Name, "revision", r.app.Revision, "session", r.sess.ID, "invocation", r.id)
}

// ID is the invocation ID, which every event of the invocation carries.
func (inv *Invocation) ID() string { return inv.run.id }

// App is the snapshot of the app that runs.
func (inv *Invocation) App() *App { return inv.run.app }

// Session is the session of the run, with the committed events and state.
func (inv *Invocation) Session() *session.Session { return inv.run.sess }

// Agent is the agent that runs.
func (inv *Invocation) Agent() Agent { return inv.node.agent }

// Branch is the dotted path of parallel branches; empty outside of them.
func (inv *Invocation) Branch() string { return inv.branch }

// UserContent is the message that started the invocation.
func (inv *Invocation) UserContent() *genai.Content { return inv.run.user }

// Config is the run config of the invocation.
func (inv *Invocation) Config() RunConfig { return inv.run.config }

// NewEvent returns an event of this agent with a new ID and the current time.
func (inv *Invocation) NewEvent() *session.Event { return inv.newEventWithID(inv.run.host.newID()) }

func (inv *Invocation) newEventWithID(id string) *session.Event {
	ev := &session.Event{
		ID:           id,
		InvocationID: inv.run.id,
		Author:       inv.node.agent.Name(),
		Branch:       inv.branch,
		Timestamp:    inv.run.host.now(),
	}
	if inv.frame != nil {
		ev.NodePath = inv.frame.path
	}
	return ev
}

// RunChild runs a child of this agent on the same branch, for the first time.
// An agent that runs a child repeatedly uses [Invocation.RunChildAgain].
func (inv *Invocation) RunChild(ctx context.Context, i int) Events {
	return inv.RunChildAgain(ctx, i, 1)
}

// RunChildAgain runs a child of this agent on the same branch for the nth time
// in this run, counted from 1. A resumed invocation uses the number to find
// the run that it continues.
func (inv *Invocation) RunChildAgain(ctx context.Context, i, nth int) Events {
	child := inv.childInvocation(i, nth)
	return func(yield func(*session.Event, error) bool) { child.runAgent(ctx, yield) }
}

// childInvocation returns the invocation of a child on the same branch.
func (inv *Invocation) childInvocation(i, nth int) *Invocation {
	return inv.newChildInvocation(inv.node.children[i], inv.branch, nth)
}

// newChildInvocation returns the invocation of an agent that this one runs. If
// this invocation has ended, the new one has too.
func (inv *Invocation) newChildInvocation(n *node, branch string, nth int) *Invocation {
	below := &Invocation{}
	inv.initChildInvocation(below, n, branch, nth)
	return below
}

// initChildInvocation initializes below as the invocation of an agent that
// this one runs.
func (inv *Invocation) initChildInvocation(below *Invocation, n *node, branch string, nth int) {
	below.run, below.node, below.branch = inv.run, n, branch
	below.frame = inv.frame.childFrame(inv.run.record, n.agent.Name(), nth)
	if inv.hasEnded() {
		below.EndInvocation()
	}
}

// withBranch returns the invocation on another branch.
func (inv *Invocation) withBranch(branch string) *Invocation {
	return &Invocation{run: inv.run, node: inv.node, branch: branch, frame: inv.frame, input: inv.input}
}

// endsWithAgent reports that nothing follows the agent itself: no callback
// after it, and no event that marks its end.
func (inv *Invocation) endsWithAgent() bool {
	return inv.frame == nil && (inv.node.hooks == nil || len(inv.node.hooks.afterAgent) == 0)
}

// EndInvocation ends the run of this agent, as ADK's end_invocation does: its
// model is not called again, no sub-agent starts, and no callback after the
// agent is called. A model response in progress and its tool calls are still
// completed and yielded. Enclosing agents continue.
func (inv *Invocation) EndInvocation() {
	if inv.callbackOf != nil {
		inv = inv.callbackOf
	}
	inv.ended.Store(true)
}

func (inv *Invocation) hasEnded() bool { return inv.ended.Load() }

// runAgent runs the agent with its condition, callbacks and span. It returns
// false when the run is over.
func (inv *Invocation) runAgent(ctx context.Context, yield func(*session.Event, error) bool) bool {
	ctx, span := inv.run.host.beginSpan(ctx, SpanAgent, inv.node.agent.Name())
	defer span.end(inv.run.host.now)
	yield = span.recordErrors(yield)
	if inv.frame != nil {
		return inv.runFrame(ctx, yield)
	}
	if inv.node.when != nil {
		return inv.runIfCondition(ctx, yield)
	}
	return inv.runUnconditionally(ctx, yield)
}

// runUnconditionally runs the agent with its callbacks.
func (inv *Invocation) runUnconditionally(ctx context.Context, yield func(*session.Event, error) bool) bool {
	if inv.node.hooks != nil {
		return inv.runWithCallbacks(ctx, yield)
	}
	return inv.runAgentBody(ctx, yield)
}

// subBranch returns the branch of a child of a parallel agent (adk-python
// agents/parallel_agent.py).
func (inv *Invocation) subBranch(child *node) string {
	if inv.branch == "" {
		return child.branch
	}
	return inv.branch + "." + child.branch
}

// requestOrigin identifies the caller of a model or tool.
func (inv *Invocation) requestOrigin() model.Origin {
	r := inv.run
	return model.Origin{
		App: r.app.Name, Agent: inv.node.agent.Name(),
		UserID: r.sess.User, SessionID: r.sess.ID, InvocationID: r.id,
		User: r.userText, Step: r.budget.usedCalls(), Turn: r.turn, State: r.state, Now: r.host.now,
	}
}

var errBudget = errors.New("no model calls left")

// callBudget counts the model calls of an invocation, including those of
// agents that are called as tools.
type callBudget struct {
	limit int
	used  atomic.Int64
}

func (b *callBudget) usedCalls() int { return int(b.used.Load()) }

// spendCall takes one call from the budget. It fails when the limit is
// reached; a limit of zero or less is none.
func (b *callBudget) spendCall() error {
	if used := b.used.Add(1); b.limit > 0 && used > int64(b.limit) {
		return failf(CodeLLMCallsLimit, errBudget, "Max number of llm calls limit of `%d` exceeded", b.limit)
	}
	return nil
}
