package runtime

import (
	"math"
	"sync"
	"time"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// A turnCounter counts what comes out of a run, and its inner runs, for the session's outcome. It
// starts with the outcome that the session has, and each append stores the counts so far with its
// event ([run.commitEvent]). Nothing is written when the run ends: a process that is killed leaves the
// counts of the last stored event, and a turn whose last event is not final is unfinished.
//
// The event that begins a turn has an outcome of its own, which counts the turn alone and names the event before
// as [session.Outcome.Previous]. The next event has the whole outcome again, which follows the same one as before.
// So nothing is lost if the process is killed in between, and the bytes of the other counts are stored once a
// turn less: on a database they are what counting costs.
//
// Agents called as tools run at the same time, so the counter has a lock. Its buffers are part of it:
// counting a turn allocates nothing.
type turnCounter struct {
	mu    sync.Mutex
	total session.Outcome
	// begun reports that total has the session's outcome.
	begun bool
	// opening reports that the next event to store begins a turn, and counts nothing else.
	opening bool
	// selected is the Selected of the run's [Split].
	selected bool
	// start is the time of the user's event that began the latest turn; zero if none began in this run.
	start time.Time
	// millis and squaredMillis are those of the turns before.
	millis, squaredMillis int64

	agents [2]session.AgentOutcome
	text   [320]byte
}

// maxTurnMillis limits the time of one turn, so that squares can be summed up: 11 days.
const maxTurnMillis = 1e9

// countEvent counts an event that is about to be stored. It comes before the run's metadata is added,
// which a client can set: prices are a model's only.
func (r *run) countEvent(ev *session.Event) {
	c := r.limits.counter
	if c == nil { // a preview
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.begun {
		c.readOutcome(r, ev.Timestamp)
	}
	switch {
	case ev.Actions.Compaction != nil:
	case !ev.IsFromUser():
		c.countCalls(r, ev)
		if !r.inner {
			c.countEnd(ev)
		}
	case !r.inner && (ev.Content != nil || ev.InputTranscription != nil):
		c.opening = len(c.total.Agents) > 0 && r.decisions == nil
		c.total.BeginTurn()
		c.start, c.millis, c.squaredMillis = ev.Timestamp, c.total.Millis, c.total.SquaredMillis
		c.countDecisions(r.decisions)
	}
}

// readOutcome reads the session's outcome. On another revision, in another protocol or on another day, a new
// one begins.
func (c *turnCounter) readOutcome(r *run, at time.Time) {
	c.begun = true
	// Likely the same names.
	c.agents[0].Agent = r.app.root.Name()
	c.total.Agents, c.total.Revision, c.total.Protocol = c.agents[:0], r.app.revision, r.protocol
	if err := c.total.Decode(r.sess.Outcome); err != nil {
		r.logger().Error("the session's outcome is damaged, counting from 0", "error", err)
	}
	c.total.Selected = c.total.Selected || c.selected
	day := store.DayOf(at)
	if c.total.Revision == r.app.revision && c.total.Protocol == r.protocol && c.total.Day == day {
		return
	}
	previous := c.total.Previous
	if !c.total.IsEmpty() {
		previous = r.sess.Version
	}
	c.total = session.Outcome{Revision: r.app.revision, Protocol: r.protocol, Day: day, Previous: previous, Selected: c.total.Selected, Agents: c.total.Agents[:0]}
}

// countCalls counts the model and tool calls in an agent's event.
func (c *turnCounter) countCalls(r *run, ev *session.Event) {
	a := session.AgentOutcome{Agent: ev.Author}
	addResponse(&a, &ev.Response)
	for _, call := range ev.Calls() {
		switch {
		case call.Name == RequestConfirmation && !r.inner:
			c.total.Asked++
		case call.Name != RequestConfirmation && call.Name != RequestCredential && !isNodeRequest(call):
			a.ToolCalls++
		}
	}
	for _, f := range ev.Responses() {
		if isFailure(f.Response) && f.Response["error"] != rejectedText &&
			ev.Actions.RequestedToolConfirmations[f.ID] == nil && ev.Actions.RequestedAuthConfigs[f.ID] == nil {
			a.ToolErrors++
		}
	}
	if a != (session.AgentOutcome{Agent: ev.Author}) {
		c.total.AddAgent(a)
	}
}

// countEnd counts how the latest turn ended, if this is its last event, and the time that it took.
func (c *turnCounter) countEnd(ev *session.Event) {
	if c.total.Turns == 0 { // it continues a turn that another outcome has
		return
	}
	switch {
	case ev.ErrorCode != "":
		c.total.Code = ev.ErrorCode
	case ev.IsFinal() || ev.Actions.Escalate || ev.Actions.EndOfAgent:
		c.total.Code = ""
	default:
		c.total.Code = session.CodeUnfinished
	}
	if !c.start.IsZero() {
		millis := min(max(0, ev.Timestamp.Sub(c.start).Milliseconds()), maxTurnMillis)
		c.total.Millis, c.total.SquaredMillis = c.millis+millis, c.squaredMillis+millis*millis
	}
}

// countDecisions counts a person's answers to confirmations.
func (c *turnCounter) countDecisions(d *decisions) {
	if d == nil {
		return
	}
	for _, one := range d.open {
		switch {
		case one.requested == nil || one.confirmation == nil: // a credential
		case one.confirmation.Confirmed:
			c.total.Approved++
		default:
			c.total.Rejected++
		}
	}
}

// countResponse counts a model's response that has no event of its own.
func (r *run) countResponse(agent string, resp *model.Response) {
	c := r.limits.counter
	if c == nil || resp == nil {
		return
	}
	a := session.AgentOutcome{Agent: agent}
	addResponse(&a, resp)
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.Calls > 0 && c.begun {
		c.total.AddAgent(a)
	}
}

// addResponse adds a response's tokens and price.
func addResponse(a *session.AgentOutcome, resp *model.Response) {
	if resp.UsageMetadata == nil {
		return
	}
	input, cached, output := model.CountTokens(resp.UsageMetadata)
	a.Calls, a.Input, a.Cached, a.Output = 1, int64(input), int64(cached), int64(output)
	if usd, ok := model.CostOf(resp); ok && usd >= 0 && usd < 1e6 {
		a.Priced, a.NanoUSD = 1, int64(math.Round(usd*1e9))
	}
}

// encodeOutcome sets the outcome that the session's next append stores.
func (r *run) encodeOutcome() {
	c := r.limits.counter
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.opening:
		o := &c.total
		turn := session.Outcome{Revision: o.Revision, Protocol: o.Protocol, Day: o.Day, Previous: r.sess.Version, Selected: o.Selected, Turns: 1, Code: session.CodeUnfinished}
		r.sess.Outcome, c.opening = turn.Append(c.text[:0]), false
	case c.begun:
		r.sess.Outcome = c.total.Append(c.text[:0])
	}
}
