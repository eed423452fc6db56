package runtime

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"google.golang.org/genai"

	"agenthost/pkg/connection"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// An Invocation is the view that one agent has of a run: the agent, its branch and the session.
// Each agent gets its own; they share the run's state. It is valid until the run ends, and parallel
// agents may use theirs concurrently.
type Invocation struct {
	run    *run
	node   *node
	branch string
	// scope is the ID of the call that delegated a task to the agent, or the path of a task that is
	// a workflow node; empty for all other agents.
	scope string
	// path is the path of this agent run, see [session.Event.NodePath].
	path string
	// frame is nil when the invocation cannot be resumed.
	frame *frame
	// input is the output of the previous workflow node; nil outside a workflow.
	input *nodeValue
	// turnStart is the number of events in the session when a node with an input started.
	turnStart int
	// callbackOf is the agent's invocation if this one belongs to its callback; nil for the agent
	// itself.
	callbackOf *Invocation
	ended      atomic.Bool
	// onLastEvent is called before the last event, where that is known: it is nil unless the run
	// ends with this agent, and no other agent, callback or plugin follows.
	onLastEvent func()
	// toolbox has the agent's tools including those of its toolsets, once they
	// are listed.
	toolbox *toolbox
}

// nodeValue is a node's output. Tasks contain a pointer to it so that they are comparable.
type nodeValue struct{ v any }

// ID is the invocation ID, which every event in the invocation carries.
func (inv *Invocation) ID() string { return inv.run.id }

// App is the snapshot of the app that runs.
func (inv *Invocation) App() *App { return inv.run.app }

// Session is the run's session, with the committed events and state.
func (inv *Invocation) Session() *session.Session { return inv.run.sess }

// Agent is the agent that runs.
func (inv *Invocation) Agent() Agent { return inv.node.agent }

// Branch is the dotted path of parallel branches; empty outside them.
func (inv *Invocation) Branch() string { return inv.branch }

// UserContent is the message that started the invocation.
func (inv *Invocation) UserContent() *genai.Content { return inv.run.message.content }

// Config is the invocation's run config.
func (inv *Invocation) Config() RunConfig { return inv.run.config }

// NewEvent returns an event from this agent with a new ID and the current time. The author of
// events from function, tool and join nodes is their workflow (adk-python
// workflow/_node_runner.py).
func (inv *Invocation) NewEvent() *session.Event { return inv.newEventWithID(inv.run.host.newID()) }

func (inv *Invocation) newEventWithID(id string) *session.Event {
	ev := &session.Event{
		ID:           id,
		InvocationID: inv.run.id,
		Author:       inv.node.author,
		Branch:       inv.branch,

		IsolationScope: inv.scope,
		NodePath:       inv.path,
		Timestamp:      inv.run.host.now(),
	}
	return ev
}

// EndInvocation ends this agent's run, as ADK's end_invocation does: its model is not called again,
// no sub-agent starts, and no callback after the agent is called. A model response in progress and
// its tool calls are still completed and yielded. Enclosing agents continue.
func (inv *Invocation) EndInvocation() {
	if inv.callbackOf != nil {
		inv = inv.callbackOf
	}
	inv.ended.Store(true)
}

func (inv *Invocation) hasEnded() bool { return inv.ended.Load() }

// requestOrigin identifies the caller of a model or tool.
func (inv *Invocation) requestOrigin() model.Origin {
	r := inv.run
	return model.Origin{
		App: r.app.name, Agent: inv.node.agent.Name(),
		UserID: r.sess.User, SessionID: r.sess.ID, InvocationID: r.id,
		UserText: r.latestText(), Step: r.limits.budget.usedCalls(), Turn: r.latestTurn(), Run: r, Now: r.host.now,
	}
}

// Input is the output of the previous [Workflow] node. For a JoinNode it is a mapping from the
// joined nodes' names to their outputs; for the first node, and for agents outside a workflow, it
// is the text of the user message.
func (inv *Invocation) Input() any {
	if inv.input != nil {
		return inv.input.v
	}
	return inv.run.latestText()
}

// AgentState returns the state in the agent's last checkpoint, or nil.
func (inv *Invocation) AgentState() map[string]any {
	if inv.frame == nil || inv.frame.prior == nil {
		return nil
	}
	return inv.frame.prior.state
}

// atHook returns the invocation for an agent callback, with its own path.
func (inv *Invocation) atHook(name string) *Invocation {
	if inv.frame == nil {
		return inv
	}
	path := inv.path + "/" + name
	return &Invocation{
		run: inv.run, node: inv.node, branch: inv.branch, scope: inv.scope, input: inv.input, callbackOf: inv,
		path: path, frame: &frame{path: path, parent: inv.frame},
	}
}

// hookEvents returns the recorded events of an agent callback.
func (inv *Invocation) hookEvents(name string) []*session.Event {
	return inv.run.record.frameAt(inv.frame.path + "/" + name).allEvents()
}

// A frame is one agent run within an invocation of a resumable app. Its path has one segment for
// each enclosing agent and for the agent itself, with the run number: pipeline@1/writer@2. All
// events in the run carry the path, so that a resumed invocation finds what each agent did.
type frame struct {
	path   string
	parent *frame
	// prior has the agent's events before the invocation was resumed; nil if it had not started.
	prior *frameRecord
	// paused reports whether the agent, or one below it, has pending calls.
	paused atomic.Bool
	// pending has an LLM agent's long-running calls, and whether they are still unanswered.
	pending map[string]bool
	// yielded reports whether the agent has yielded an event since the invocation started or
	// was resumed.
	yielded bool
}

// Path suffixes for callback events. No agent can have these names.
const (
	hookPathBeforeRun   = "(before_run)"
	hookPathWhen        = "(when)"
	hookPathBeforeAgent = "(before_agent)"
	hookPathAfterAgent  = "(after_agent)"
)

// childPath returns the path for a child's run.
func (inv *Invocation) childPath(name, run string) string { return inv.path + "/" + name + "@" + run }

// rootPathOf returns the path of an invocation's first agent.
func rootPathOf(n *node) string { return n.rootPath }

// childFrame returns the frame for a child's run; nil when the invocation cannot be resumed.
func (f *frame) childFrame(rec *invocationRecord, path string) *frame {
	if f == nil {
		return nil
	}
	return &frame{path: path, parent: f, prior: rec.frameAt(path)}
}

// framePathOf returns the path under which an event records a resumable invocation; empty
// if the invocation cannot be resumed.
func framePathOf(ev *session.Event) string {
	if ev.Provenance.Unresumable {
		return ""
	}
	return ev.NodePath
}

// markPaused marks this agent and all enclosing ones as paused.
func (f *frame) markPaused() {
	for ; f != nil; f = f.parent {
		f.paused.Store(true)
	}
}

// trackPending updates the set of calls that are answered later. A call whose
// own result is a failure is not pending: it was not executed, or a separate
// request asks a person about it.
func (f *frame) trackPending(ev *session.Event) {
	if f == nil || ev == nil || ev.Partial {
		return
	}
	for _, r := range ev.Responses() {
		if _, later := f.pending[r.ID]; later {
			f.pending[r.ID] = !isFailure(r.Response)
		}
	}
	for _, id := range ev.LongRunningToolIDs {
		if f.pending == nil {
			f.pending = map[string]bool{}
		}
		f.pending[id] = true
	}
}

// A frameRecord has one frame's recorded events.
type frameRecord struct {
	events []*session.Event
	state  map[string]any
	ended  bool
}

func (p *frameRecord) hasEnded() bool { return p != nil && p.ended }

func (p *frameRecord) allEvents() []*session.Event {
	if p == nil {
		return nil
	}
	return p.events
}

// lastEvent returns the agent's own last event, or nil.
func (p *frameRecord) lastEvent() *session.Event {
	if events := p.allEvents(); len(events) > 0 {
		return events[len(events)-1]
	}
	return nil
}

// An invocationRecord has a resumed invocation's events, read from the session. It is nil for a new
// invocation.
type invocationRecord struct {
	events []*session.Event // agents', in order
	users  []*session.Event // the user's
	frames map[string]*frameRecord
	starts map[string]bool // paths with an event at or below them
}

func (rec *invocationRecord) frameAt(path string) *frameRecord {
	if rec == nil {
		return nil
	}
	return rec.frames[path]
}

// rootPath returns the path of the first frame; empty when no agent has an
// event.
func (rec *invocationRecord) rootPath() string {
	if rec == nil || len(rec.events) == 0 {
		return ""
	}
	path, _, _ := strings.Cut(rec.events[0].NodePath, "/")
	return path
}

func (rec *invocationRecord) hasBegun(path string) bool { return rec != nil && rec.starts[path] }

// decisions are the answers in a user's message to confirmation and credential
// requests. They are read from stored events only, because another process may
// have made the requests.
type decisions struct {
	// author is the agent that made the calls.
	author string
	// open are the calls that have not been executed yet.
	open []*decision
	// credentials are the state keys with the credentials that the user gave.
	credentials map[string]any
	// consents are answers from authorization servers, and received the IDs of answers to
	// connection requests.
	consents []connection.Answer
	received []string
	// finished reports whether all calls were executed before and the agent
	// has given its final answer.
	finished bool
	// consumed reports whether the agent has executed the calls.
	consumed atomic.Bool
	// tools finds the tools that the calls name.
	tools func(agent, name string) tool.Tool
}

// decision is a person's decision on one call, with the data needed to execute
// the call as it was made.
type decision struct {
	call         *genai.FunctionCall
	confirmation *session.Confirmation
	// requested is what the stored request asked; nil for a credential.
	requested *session.Confirmation
	// edits are the arguments that the person changed, in the answer with the ID editedBy.
	edits    map[string]any
	editedBy string
	// invocation and userText belong to the run that made the call.
	invocation, userText string
	// input is what a ToolNode's call had before its parameters were known; nil for other calls.
	input *nodeValue
}

// onBranch reports whether an event on branch theirs is visible on branch mine: children see the
// events of their ancestors, siblings do not see each other, and without a branch all events are
// visible except events from sub-agents that were called as tools.
func onBranch(mine, theirs string) bool {
	return theirs == "" || mine == theirs || mine == "" && !isDelegated(theirs) || strings.HasPrefix(mine, theirs+".")
}

// isDelegated reports whether a branch belongs to a sub-agent that was called as a tool: it has a
// segment name@call. In name@1 the number counts runs.
func isDelegated(branch string) bool {
	for {
		_, rest, found := strings.Cut(branch, "@")
		if !found {
			return false
		}
		run, _, _ := strings.Cut(rest, ".")
		if strings.Trim(run, "0123456789") != "" {
			return true
		}
		branch = rest
	}
}

// ownIDPrefix marks call IDs that the runtime assigned.
const ownIDPrefix = "adk-"

// randomID returns a random UUID, version 4. Go's generator is as unpredictable
// as the system's, and needs no system call per event.
func randomID() string {
	var room [36]byte
	return string(appendUUID(room[:0]))
}

// runIDPrefix begins the IDs of invocations.
const runIDPrefix = "e-"

func randomRunID() string {
	var room [len(runIDPrefix) + 36]byte
	return string(appendUUID(append(room[:0], runIDPrefix...)))
}

func appendUUID(dst []byte) []byte {
	var u [16]byte
	binary.LittleEndian.PutUint64(u[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(u[8:], rand.Uint64())
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	dst = append(hex.AppendEncode(dst, u[:4]), '-')
	dst = append(hex.AppendEncode(dst, u[4:6]), '-')
	dst = append(hex.AppendEncode(dst, u[6:8]), '-')
	dst = append(hex.AppendEncode(dst, u[8:10]), '-')
	return hex.AppendEncode(dst, u[10:])
}

// joinBranch returns the branch for an agent's run on another branch: name@call for a sub-agent
// that is called as a tool, name@number for a workflow node.
func joinBranch(branch, name, run string) string {
	segment := name + "@" + run
	if branch == "" {
		return segment
	}
	return branch + "." + segment
}

// hasRecorded reports whether an event belongs to this agent run, and was stored before the
// invocation was resumed.
func (inv *Invocation) hasRecorded(ev *session.Event) bool {
	return inv.frame != nil && inv.frame.prior != nil && framePathOf(ev) == inv.frame.path &&
		ev.InvocationID == inv.run.id && ev.Author != session.UserAuthor
}

// eventsUnder returns the events in a frame and in the frames below it.
func (rec *invocationRecord) eventsUnder(path string) []*session.Event {
	if !rec.hasBegun(path) {
		return nil
	}
	var all []*session.Event
	for _, ev := range rec.events {
		if ev.NodePath == path || strings.HasPrefix(ev.NodePath, path+"/") {
			all = append(all, ev)
		}
	}
	return all
}

// Paused reports whether an agent that this one has run has pending calls. The
// agent must then start nothing new and return; it runs again when the
// invocation is resumed.
func (inv *Invocation) Paused() bool { return inv.frame != nil && inv.frame.paused.Load() }

// Resumable reports whether the invocation can be resumed later. Checkpoints
// are only useful then.
func (inv *Invocation) Resumable() bool { return inv.frame != nil }

// isSkip reports whether an event was created by newSkippedEvent.
func isSkip(ev *session.Event) bool { return ev.Provenance.Skipped != "" }

// newSkippedEvent returns an event with the reason why the agent was skipped.
func (inv *Invocation) newSkippedEvent(reason string) *session.Event {
	ev := inv.NewEvent()
	ev.Provenance.Skipped = reason
	return ev
}
