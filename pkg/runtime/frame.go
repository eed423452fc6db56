package runtime

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"agenthost/pkg/session"
)

// A frame is the run of one agent within an invocation of a resumable app. Its
// path has one segment for each enclosing agent and for the agent itself, with
// the number of the run: pipeline@1/writer@2. All events of the run carry the
// path, so that a resumed invocation finds what each agent did.
type frame struct {
	path   string
	parent *frame
	// prior has the events of the agent before the invocation was resumed; nil
	// if it had not started.
	prior *frameRecord
	// paused reports whether the agent, or one below it, has pending calls.
	paused atomic.Bool
	// pending has the long-running calls of an LLM agent, and whether they are
	// still unanswered.
	pending map[string]bool
}

// Path suffixes for events of callbacks. No agent can have these names.
const (
	hookPathBeforeRun   = "(before_run)"
	hookPathWhen        = "(when)"
	hookPathBeforeAgent = "(before_agent)"
	hookPathAfterAgent  = "(after_agent)"
)

// childFrame returns the frame of the nth run of a child.
func (f *frame) childFrame(rec *invocationRecord, name string, nth int) *frame {
	if f == nil {
		return nil
	}
	path := fmt.Sprintf("%s/%s@%d", f.path, name, nth)
	return &frame{path: path, parent: f, prior: rec.frameAt(path)}
}

// atHook returns the invocation for a callback of the agent, with a path of
// its own.
func (inv *Invocation) atHook(name string) *Invocation {
	if inv.frame == nil {
		return inv
	}
	return &Invocation{
		run: inv.run, node: inv.node, branch: inv.branch, input: inv.input, callbackOf: inv,
		frame: &frame{path: inv.frame.path + "/" + name, parent: inv.frame},
	}
}

// hookEvents returns the recorded events of a callback of the agent.
func (inv *Invocation) hookEvents(name string) []*session.Event {
	return inv.run.record.frameAt(inv.frame.path + "/" + name).allEvents()
}

// markPaused marks this agent and all enclosing ones as paused.
func (f *frame) markPaused() {
	for ; f != nil; f = f.parent {
		f.paused.Store(true)
	}
}

// Resumable reports whether the invocation can be resumed later. Checkpoints
// are only useful then.
func (inv *Invocation) Resumable() bool { return inv.frame != nil }

// Paused reports whether an agent that this one has run has pending calls. The
// agent must then start nothing new and return; it runs again when the
// invocation is resumed.
func (inv *Invocation) Paused() bool { return inv.frame != nil && inv.frame.paused.Load() }

// AgentState returns the state of the agent's last checkpoint, or nil.
func (inv *Invocation) AgentState() map[string]any {
	if inv.frame == nil || inv.frame.prior == nil {
		return nil
	}
	return inv.frame.prior.state
}

// Checkpoint returns an event that stores the progress of the agent. Yield it
// like any other event, and only if the invocation is Resumable. Models do not
// see it.
func (inv *Invocation) Checkpoint(state map[string]any) *session.Event {
	ev := inv.NewEvent()
	ev.Actions.AgentState, _ = session.Normalize(state).(map[string]any)
	return ev
}

// runFrame runs the agent of a resumable app with its callbacks, continues
// where it was interrupted, and yields an event that marks its end. Completed
// work is not repeated.
func (inv *Invocation) runFrame(ctx context.Context, yield func(*session.Event, error) bool) bool {
	if inv.frame.prior.hasEnded() {
		return true
	}
	proceed, ok := inv.beginAgent(ctx, yield)
	if ok && proceed {
		ok = inv.runAgentBody(ctx, yield) && (inv.Paused() || inv.hasEnded() || inv.runAfterAgent(ctx, yield))
	}
	if _, join := inv.node.agent.(*JoinNode); !ok || join || inv.Paused() {
		return ok
	}
	ev := inv.NewEvent()
	ev.Actions.EndOfAgent = true
	return yield(ev, nil)
}

// beginAgent evaluates the agent's condition and calls its callbacks, unless
// the agent has started before. proceed is false when the agent must not run,
// ok is false when the run is over.
func (inv *Invocation) beginAgent(ctx context.Context, yield func(*session.Event, error) bool) (proceed, ok bool) {
	if len(inv.hookEvents(hookPathWhen)) > 0 {
		return false, true
	}
	for _, ev := range inv.hookEvents(hookPathBeforeAgent) {
		if ev.Content != nil {
			return false, true
		}
	}
	if inv.run.record.hasBegun(inv.frame.path) {
		return true, true
	}
	if when := inv.node.when; when != nil {
		holds, err := when.evaluateFor(ctx, inv, "when")
		if err != nil {
			yield(nil, err)
			return false, false
		}
		if !holds {
			return false, yield(inv.atHook(hookPathWhen).newSkippedEvent("when: "+when.Value), nil)
		}
	}
	if inv.node.hooks == nil {
		return true, true
	}
	answered, ok := inv.atHook(hookPathBeforeAgent).runAgentCallbacks(ctx, "before_agent", inv.node.hooks.beforeAgent, yield)
	return !answered, ok
}

// runAfterAgent calls the callbacks after the agent. It returns false when the
// run is over.
func (inv *Invocation) runAfterAgent(ctx context.Context, yield func(*session.Event, error) bool) bool {
	if inv.node.hooks == nil || len(inv.hookEvents(hookPathAfterAgent)) > 0 {
		return true
	}
	_, ok := inv.atHook(hookPathAfterAgent).runAgentCallbacks(ctx, hookAfterAgent, inv.node.hooks.afterAgent, yield)
	return ok
}

// A frameRecord has the recorded events of one frame.
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

// An invocationRecord has the events of a resumed invocation, read from the
// session. It is nil for a new invocation.
type invocationRecord struct {
	events []*session.Event // of agents, in order
	users  []*session.Event // of the user
	frames map[string]*frameRecord
	starts map[string]bool // paths with an event at or below them
}

func (rec *invocationRecord) frameAt(path string) *frameRecord {
	if rec == nil {
		return nil
	}
	return rec.frames[path]
}

func (rec *invocationRecord) hasBegun(path string) bool { return rec != nil && rec.starts[path] }

// eventsUnder returns the events of a frame and of the frames below it.
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

// newInvocationRecord collects the events of one invocation.
func newInvocationRecord(events []*session.Event, invocation string) *invocationRecord {
	rec := &invocationRecord{frames: map[string]*frameRecord{}, starts: map[string]bool{}}
	for _, ev := range events {
		switch {
		case ev.InvocationID != invocation:
		case ev.Author == session.UserAuthor:
			rec.users = append(rec.users, ev)
		case ev.NodePath != "":
			rec.addEvent(ev)
		}
	}
	return rec
}

func (rec *invocationRecord) addEvent(ev *session.Event) {
	rec.events = append(rec.events, ev)
	for i, c := range ev.NodePath {
		if c == '/' {
			rec.starts[ev.NodePath[:i]] = true
		}
	}
	rec.starts[ev.NodePath] = true
	p := rec.frames[ev.NodePath]
	if p == nil {
		p = &frameRecord{}
		rec.frames[ev.NodePath] = p
	}
	p.events = append(p.events, ev)
	if ev.Actions.AgentState != nil {
		p.state = ev.Actions.AgentState
	}
	p.ended = p.ended || ev.Actions.EndOfAgent
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

// isAnswered reports whether the user has given the final answer to a call.
func (rec *invocationRecord) isAnswered(call string) bool {
	if rec == nil {
		return false
	}
	for _, ev := range rec.users {
		for _, f := range ev.Responses() {
			if f.ID == call && isFinalAnswer(f) {
				return true
			}
		}
	}
	return false
}

// countModelAnswers counts the model calls that events show. Calls of a
// ToolNode do not count.
func (rec *invocationRecord) countModelAnswers(app *App) int {
	n := 0
	for _, ev := range rec.events {
		if at := app.findNode(ev.Author); at != nil && at.isGraphNode() {
			continue
		}
		notModel := strings.HasSuffix(ev.NodePath, ")") || isCodeResult(ev.Content) || ev.Actions.SetModelResponse != nil && len(ev.Responses()) == 0
		if !notModel && (ev.Content != nil && ev.Content.Role != "user" || ev.ErrorCode != "" && !isCallFailure(ev)) {
			n++
		}
	}
	return n
}
