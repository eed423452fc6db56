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

// An Invocation is one agent's view of a run: which agent, on which branch, of
// which session. Each agent gets its own; what belongs to the run as a whole
// is shared. It is valid until the run ends, and parallel agents may use theirs
// at the same time.
type Invocation struct {
	run    *run
	node   *node
	branch string
	// frame is nil where the invocation cannot be resumed.
	frame *frame
	// input is what the node before gave, in a workflow; nil elsewhere.
	input *nodeValue
	// callbackOf is the agent's own invocation where this one is a callback's; nil
	// for the agent itself.
	callbackOf *Invocation
	ended      atomic.Bool
	// endsRun says that the run ends with the agent: nothing around it has
	// anything to say or to do after it.
	endsRun bool
	// toolbox are the agent's tools with those of its sets, once they were asked.
	toolbox *toolbox
}

// run is what all agents of one invocation share.
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
	// expressions is what all expressions of the turn may use up together.
	expressions *template.Budget
	// inner is a run of an agent that is called as a tool.
	inner bool
	// decisions are what the user's message says about calls that waited for a
	// person, a credential included; nil for any other message.
	decisions *decisions
	// record is what the invocation did before it was resumed; nil if it is
	// new.
	record *invocationRecord
	// onLastEvent is called before the last event of the run, where that is
	// known; it is never nil where an invocation endsRun.
	onLastEvent func()
	// commit stores an event; nil only keeps it in the session at hand, as
	// for an agent that is called as a tool.
	commit func(ctx context.Context, ev *session.Event) error
}

// logger is the host's, with what the run is.
func (r *run) logger() *slog.Logger { return r.withRunAttrs(r.host.logger) }

// withRunAttrs is a log that says of every line which run it is about, and which
// revision of the app.
func (r *run) withRunAttrs(logger *slog.Logger) *slog.Logger {
	return logger.With("app", r.app.Name, "revision", r.app.Revision, "session", r.sess.ID, "invocation", r.id)
}

// ID is the invocation's id, on every event of it.
func (inv *Invocation) ID() string { return inv.run.id }

// App is the snapshot of the app that runs.
func (inv *Invocation) App() *App { return inv.run.app }

// Session is the session that the run belongs to. Its events and state are
// those that are committed.
func (inv *Invocation) Session() *session.Session { return inv.run.sess }

// Agent is the agent that runs.
func (inv *Invocation) Agent() Agent { return inv.node.agent }

// Branch is the dotted path of parallel branches; empty outside of any.
func (inv *Invocation) Branch() string { return inv.branch }

// UserContent is the message that began the invocation.
func (inv *Invocation) UserContent() *genai.Content { return inv.run.user }

// Config is how the invocation runs.
func (inv *Invocation) Config() RunConfig { return inv.run.config }

// NewEvent makes an event of this agent with a new id and the current time.
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

// RunChild runs one of this agent's children on the same branch, for the first
// time. See [Invocation.RunChildAgain] for an agent that runs one more often.
func (inv *Invocation) RunChild(ctx context.Context, i int) Events {
	return inv.RunChildAgain(ctx, i, 1)
}

// RunChildAgain runs one of this agent's children on the same branch for the
// nth time in this run, from 1 on. A resumed invocation tells by the number
// which of the runs it goes on with.
func (inv *Invocation) RunChildAgain(ctx context.Context, i, nth int) Events {
	child := inv.childInvocation(i, nth)
	return func(yield func(*session.Event, error) bool) { child.runAgent(ctx, yield) }
}

// childInvocation is the invocation of one of this agent's children on the same branch.
func (inv *Invocation) childInvocation(i, nth int) *Invocation {
	return inv.newChildInvocation(inv.node.children[i], inv.branch, nth)
}

// newChildInvocation is the invocation of an agent below this one. What has ended begins
// nothing more.
func (inv *Invocation) newChildInvocation(n *node, branch string, nth int) *Invocation {
	below := &Invocation{}
	inv.initChildInvocation(below, n, branch, nth)
	return below
}

// initChildInvocation makes an empty invocation that of an agent below this one.
func (inv *Invocation) initChildInvocation(below *Invocation, n *node, branch string, nth int) {
	below.run, below.node, below.branch = inv.run, n, branch
	below.frame = inv.frame.childFrame(inv.run.record, n.agent.Name(), nth)
	if inv.hasEnded() {
		below.EndInvocation()
	}
}

// withBranch is the invocation on another branch.
func (inv *Invocation) withBranch(branch string) *Invocation {
	return &Invocation{run: inv.run, node: inv.node, branch: branch, frame: inv.frame, input: inv.input}
}

// endsWithAgent says that nothing follows the agent itself at its own place: no
// callback, and no event that says that it has ended.
func (inv *Invocation) endsWithAgent() bool {
	return inv.frame == nil && (inv.node.hooks == nil || len(inv.node.hooks.afterAgent) == 0)
}

// EndInvocation ends the run of this agent, as ADK's end_invocation does: its
// model is not asked again, no agent below it begins, and the callbacks after it
// are not asked. What is under way is told: an answer of the model, and the calls
// that it makes. Agents around it go on.
func (inv *Invocation) EndInvocation() {
	if inv.callbackOf != nil {
		inv = inv.callbackOf
	}
	inv.ended.Store(true)
}

func (inv *Invocation) hasEnded() bool { return inv.ended.Load() }

// runAgent runs the agent with all that stands around it, and says whether the
// run goes on.
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

// runUnconditionally runs the agent with its callbacks around it.
func (inv *Invocation) runUnconditionally(ctx context.Context, yield func(*session.Event, error) bool) bool {
	if inv.node.hooks != nil {
		return inv.runWithCallbacks(ctx, yield)
	}
	return inv.runAgentBody(ctx, yield)
}

// subBranch is the branch of a parallel agent's child
// (adk-python agents/parallel_agent.py).
func (inv *Invocation) subBranch(child *node) string {
	if inv.branch == "" {
		return child.branch
	}
	return inv.branch + "." + child.branch
}

// requestOrigin says who asks, for a model call or a tool call.
func (inv *Invocation) requestOrigin() model.Origin {
	r := inv.run
	return model.Origin{
		App: r.app.Name, Agent: inv.node.agent.Name(),
		UserID: r.sess.User, SessionID: r.sess.ID, InvocationID: r.id,
		User: r.userText, Step: r.budget.usedCalls(), Turn: r.turn, State: r.state, Now: r.host.now,
	}
}

var errBudget = errors.New("no model calls left")

// callBudget counts the model calls of an invocation, those of agents called as
// tools included.
type callBudget struct {
	limit int
	used  atomic.Int64
}

func (b *callBudget) usedCalls() int { return int(b.used.Load()) }

// spendCall takes one call, or fails when the limit is reached; no limit if it is
// zero or less.
func (b *callBudget) spendCall() error {
	if used := b.used.Add(1); b.limit > 0 && used > int64(b.limit) {
		return failf(CodeLLMCallsLimit, errBudget, "Max number of llm calls limit of `%d` exceeded", b.limit)
	}
	return nil
}
