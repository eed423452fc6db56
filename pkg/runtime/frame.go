package runtime

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"agenthost/pkg/session"
)

// A frame is the run of one agent inside an invocation of a resumable app. Its
// path has a segment for each agent above it and for itself, with how many
// times that one has run it: pipeline@1/writer@2. All events of the run hold
// the path, so that a resumed invocation finds for each agent what it did.
type frame struct {
	path   string
	parent *frame
	// prior is what the agent did before the invocation was resumed; nil if it
	// had not begun.
	prior *frameRecord
	// paused says that the agent, or one below it, waits for somebody.
	paused atomic.Bool
	// pending are the calls of an LLM agent that may be answered later, and whether
	// they are.
	pending map[string]bool
}

// The places beside an agent where its callbacks speak. No agent can have these
// names.
const (
	hookPathBeforeRun   = "(before_run)"
	hookPathWhen        = "(when)"
	hookPathBeforeAgent = "(before_agent)"
	hookPathAfterAgent  = "(after_agent)"
)

// childFrame is the frame of an agent that this one runs for the nth time.
func (f *frame) childFrame(rec *invocationRecord, name string, nth int) *frame {
	if f == nil {
		return nil
	}
	path := fmt.Sprintf("%s/%s@%d", f.path, name, nth)
	return &frame{path: path, parent: f, prior: rec.frameAt(path)}
}

// atHook is the invocation as a callback beside the agent has it.
func (inv *Invocation) atHook(name string) *Invocation {
	if inv.frame == nil {
		return inv
	}
	return &Invocation{
		run: inv.run, node: inv.node, branch: inv.branch, input: inv.input, callbackOf: inv,
		frame: &frame{path: inv.frame.path + "/" + name, parent: inv.frame},
	}
}

// hookEvents are those that a callback beside the agent left.
func (inv *Invocation) hookEvents(name string) []*session.Event {
	return inv.run.record.frameAt(inv.frame.path + "/" + name).allEvents()
}

// markPaused says that somebody has to answer before this agent, and those that it
// is a part of, go on.
func (f *frame) markPaused() {
	for ; f != nil; f = f.parent {
		f.paused.Store(true)
	}
}

// Resumable says whether the invocation may be resumed later. Only then are
// checkpoints worth making.
func (inv *Invocation) Resumable() bool { return inv.frame != nil }

// Paused says whether an agent that this one has run waits for somebody. The
// agent then starts nothing new and returns; it runs again when the invocation
// is resumed.
func (inv *Invocation) Paused() bool { return inv.frame != nil && inv.frame.paused.Load() }

// AgentState is what the agent's last checkpoint says; nil when there is none.
func (inv *Invocation) AgentState() map[string]any {
	if inv.frame == nil || inv.frame.prior == nil {
		return nil
	}
	return inv.frame.prior.state
}

// Checkpoint makes an event that says how far the agent is. It is yielded like
// any other, and only where the invocation is Resumable; no model sees it.
func (inv *Invocation) Checkpoint(state map[string]any) *session.Event {
	ev := inv.NewEvent()
	ev.Actions.AgentState, _ = session.Normalize(state).(map[string]any)
	return ev
}

// runFrame runs the agent of a resumable app between its callbacks, from where
// it was, and says so when it has ended. What was done before is not done
// again, nor said again.
func (inv *Invocation) runFrame(ctx context.Context, yield func(*session.Event, error) bool) bool {
	if inv.frame.prior.hasEnded() {
		return true
	}
	goOn, ok := inv.beginAgent(ctx, yield)
	if ok && goOn {
		ok = inv.runAgentBody(ctx, yield) && (inv.Paused() || inv.hasEnded() || inv.runAfterAgent(ctx, yield))
	}
	if _, join := inv.node.agent.(*JoinNode); !ok || join || inv.Paused() {
		return ok
	}
	ev := inv.NewEvent()
	ev.Actions.EndOfAgent = true
	return yield(ev, nil)
}

// beginAgent asks the agent's condition and its callbacks before it, unless it
// has begun. goOn is false when the agent has nothing to do, ok is false when
// the run is over.
func (inv *Invocation) beginAgent(ctx context.Context, yield func(*session.Event, error) bool) (goOn, ok bool) {
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

// runAfterAgent asks the callbacks behind the agent. It is false when the run is
// over.
func (inv *Invocation) runAfterAgent(ctx context.Context, yield func(*session.Event, error) bool) bool {
	if inv.node.hooks == nil || len(inv.hookEvents(hookPathAfterAgent)) > 0 {
		return true
	}
	_, ok := inv.atHook(hookPathAfterAgent).runAgentCallbacks(ctx, hookAfterAgent, inv.node.hooks.afterAgent, yield)
	return ok
}

// A frameRecord is what one frame left behind.
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

// An invocationRecord is what a resumed invocation did before, read from the session's
// events alone. Nil is that of an invocation that is new.
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

// eventsUnder are the events of a frame and of those below it.
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

// newInvocationRecord reads the events of one invocation.
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

// rootPath is the frame that the invocation began with; empty when no agent has
// spoken.
func (rec *invocationRecord) rootPath() string {
	if rec == nil || len(rec.events) == 0 {
		return ""
	}
	path, _, _ := strings.Cut(rec.events[0].NodePath, "/")
	return path
}

// isAnswered says whether the user has given a call its final answer.
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

// countModelAnswers counts how often models were asked, as far as events tell. A call
// that a ToolNode made is no model's.
func (rec *invocationRecord) countModelAnswers(app *App) int {
	n := 0
	for _, ev := range rec.events {
		if at := app.findNode(ev.Author); at != nil && at.isGraphNode() {
			continue
		}
		aside := strings.HasSuffix(ev.NodePath, ")") || isCodeResult(ev.Content) || ev.Actions.SetModelResponse != nil && len(ev.Responses()) == 0
		if !aside && (ev.Content != nil && ev.Content.Role != "user" || ev.ErrorCode != "" && !isCallFailure(ev)) {
			n++
		}
	}
	return n
}
