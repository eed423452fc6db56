package runtime

import (
	"slices"
	"unique"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// Contents are what a model reads as the conversation. They are derived from the stored events, for one
// agent on one branch:
//
//	user: hi                     user: hi
//	a:    call x#1, y#2          model: calls x, y
//	b:    text               →   user: responses x, y          moved up, in the order of the calls
//	a:    response y#2           user: For context: [b] said: …
//	a:    response x#1
//
// An event is left out if the agent does not see it (isVisible), becomes user content if it belongs to
// another agent (isForeign), or is added as it is. A response moves to its call, because models reject
// a call that its response does not follow. A summary or a rewind changes earlier events, so that the
// view is built again (appendEvents).
//
// A session grows by a few events in each step, and a request must not read all of them again. So a
// contentsView is kept with the history for each agent and branch, and only new events are added.
// History.Derive may run for two steps at a time: each gets a copy of the view, which shares the slice of
// contents.
//
// Invariants:
//   - contents is appended to or replaced, never changed in place: pending requests share it;
//   - the view after n events is the same whether they were added at once or one by one
//     (contents_property_test.go);
//   - sites[i].response is the index after sites[i].at, or -1; both are -1 for another agent's calls.

// buildContents returns the conversation as the agent's model sees it. The
// rules are those of adk-python flows/llm_flows/contents.py: which events are
// visible (isVisible), how events of other agents are presented
// (contents_events.go), and that each function response directly follows its
// call. The slice is shared and must not be changed.
func (inv *Invocation) buildContents(include IncludeContents) ([]*genai.Content, error) {
	key := viewKey{agent: inv.node.agent.Name(), branch: inv.branch, scope: inv.scope, keepIDs: keepsIDs(inv.node.llm), delimiters: inv.node.delimiters}
	switch {
	case inv.scope != "":
		return turnContents{inv}.buildTaskTurn(key)
	case inv.node.isDelegate() && inv.input != nil:
		return turnContents{inv}.buildDelegateTurn(key, include)
	case turnContents{inv}.hasSingleTurn():
		return turnContents{inv}.buildTurn(key)
	}
	if events := inv.run.sess.Events(); include == IncludeNone || len(events) <= shortHistory {
		v := contentsView{viewKey: key}
		if include == IncludeNone {
			events = currentEvents(events, &v)
		}
		v.appendEvents(events)
		return v.currentContents()
	}
	v := inv.run.sess.History.Derive(key, func(last any, events []*session.Event) (any, int64) {
		// Each caller gets its own slice header: another step with the same history may extend the
		// view while a request still uses these contents.
		v := newView(key)
		if last != nil {
			*v = *last.(*contentsView)
		}
		v.appendEvents(events)
		return v, v.bytes
	})
	return v.(*contentsView).currentContents()
}

// currentEvents returns the current turn's events. If a rewind has removed the turn's start, the
// turn is determined from the remaining events. Summaries of earlier turns are excluded.
func currentEvents(events []*session.Event, v *contentsView) []*session.Event {
	turn := events[findCurrentTurn(events, v):]
	if !slices.ContainsFunc(turn, rewritesPast) {
		return turn
	}
	events = session.WithoutRewound(events)
	turn = events[findCurrentTurn(events, v):]
	return slices.DeleteFunc(slices.Clone(turn), func(ev *session.Event) bool {
		return isCompaction(ev) && ev.Actions.Compaction.EndTimestamp < eventSeconds(turn[0])
	})
}

// findCurrentTurn returns the index of the current turn's first event: the latest event from the
// user or another agent (_get_current_turn_contents). An answer to the agent's own call continues
// the call's turn.
func findCurrentTurn(events []*session.Event, v *contentsView) int {
	for i := len(events) - 1; i >= 0; i-- {
		ev := events[i]
		if v.isVisible(ev) && (v.isForeign(ev) || ev.Author == session.UserAuthor && !v.answersOwnCall(ev, events[:i])) {
			return i
		}
	}
	return len(events)
}

// answersOwnCall reports whether an event answers a call that the view's agent
// made in an earlier event.
func (v *contentsView) answersOwnCall(ev *session.Event, earlier []*session.Event) bool {
	responses := ev.Responses()
	if len(responses) == 0 {
		return false
	}
	isCall := func(c *genai.FunctionCall) bool { return c.ID == responses[0].ID }
	return slices.ContainsFunc(earlier, func(e *session.Event) bool {
		return e.Author == v.agent && slices.ContainsFunc(e.Calls(), isCall)
	})
}

// A contentsView has the contents of one agent on one branch, and is updated
// event by event. The contents slice is only appended to or replaced, never
// changed in place, because pending requests share it.
type contentsView struct {
	viewKey
	// seen is how many events were processed.
	seen     int
	contents []*genai.Content
	// sites are where function calls are; calls maps call IDs to sites.
	sites []callSite
	calls map[string]int
	// last describes the latest event in the contents.
	last lastAdded
	// transcript is the transcription sequence that the contents end with.
	transcript transcript
	// bytes estimates the view's memory, without the events.
	bytes int64
}

// viewKey identifies a view: the agent, its branch and scope, and its model's options.
type viewKey struct {
	agent, branch string
	// scope is a task's isolation scope; see [session.Event].
	scope      string
	keepIDs    bool
	delimiters unique.Handle[shownDelimiters]
}

// callSite is where one event's function calls are, and their response.
type callSite struct {
	author string
	calls  []*genai.FunctionCall
	// at is the index of the content with the calls; -1 for another agent's.
	at int
	// response is the index of the content with the response, or -1.
	response int
	// answer is that response, with the IDs under which it is stored.
	answer *genai.Content
}

type lastAdded struct {
	responses bool
	at        int // index of the responses
	err       error
}

func newView(key viewKey) *contentsView { return &contentsView{viewKey: key} }

// indexCalls records where an event's function calls are.
func (v *contentsView) indexCalls(ev *session.Event, at int) {
	calls := ev.Calls()
	if len(calls) == 0 {
		return
	}
	if v.calls == nil {
		v.calls = map[string]int{}
	}
	for _, c := range calls {
		v.calls[c.ID] = len(v.sites)
	}
	v.bytes += siteBytes * int64(len(calls))
	v.sites = append(v.sites, callSite{author: ev.Author, calls: calls, at: at, response: -1})
}

// appendEvents adds the new events. A rewind or compaction among them rebuilds the view from the
// visible events; calls that only a summary covers stay known, so that a late answer to one is
// reported as such.
func (v *contentsView) appendEvents(events []*session.Event) {
	from := v.seen
	for i := len(events) - 1; i >= from; i-- {
		if !rewritesPast(events[i]) {
			continue
		}
		*v = *newView(v.viewKey)
		seen, covered := applyCompactions(session.WithoutRewound(events[:i+1]))
		for _, ev := range covered {
			v.indexCalls(ev, -1)
		}
		for _, ev := range seen {
			v.addEvent(ev)
		}
		from = i + 1
	}
	for _, ev := range events[from:] {
		v.addEvent(ev)
	}
	v.seen = len(events)
}

// currentContents returns the contents. If the last event answers calls, the
// contents between the call and the answer are omitted
// (_rearrange_events_for_latest_function_response).
func (v *contentsView) currentContents() ([]*genai.Content, error) {
	if v.last.err != nil {
		return nil, v.last.err
	}
	if v.last.responses {
		return slices.Clip(v.contents[:v.last.at+1]), nil
	}
	return slices.Clip(v.contents), nil
}

func (v *contentsView) addEvent(ev *session.Event) {
	if !v.isVisible(ev) {
		return
	}
	stored := ev
	ev = v.mergeTranscription(ev)
	before, bytes := len(v.contents), v.bytes
	if ev != stored {
		v.bytes += contentBytes(ev.Content)
	}
	defer func() { v.transcript.contentCount, v.transcript.bytes = len(v.contents)-before, v.bytes-bytes }()
	ev = withEditNotes(ev)
	content := ev.Content
	switch {
	case v.isForeign(ev):
		v.indexCalls(ev, -1)
		if foreign := presentForeign(ev); foreign != nil {
			v.last = lastAdded{}
			v.bytes += contentBytes(foreign)
			v.appendContent(v.contentForModel(foreign))
		}
	case len(model.ResponsesOf(content)) > 0:
		v.insertResponse(content)
	default:
		v.last = lastAdded{}
		v.indexCalls(ev, v.appendContent(v.contentForModel(content)))
	}
}

func (v *contentsView) appendContent(c *genai.Content) int {
	if v.contents == nil {
		v.contents = make([]*genai.Content, 0, 4) // enough for most first turns
	}
	v.contents = append(v.contents, c)
	v.bytes += pointerBytes
	return len(v.contents) - 1
}

// insertResponse inserts a function response directly after its call, merged
// with the responses that are already there.
func (v *contentsView) insertResponse(content *genai.Content) {
	site, err := v.findCallSite(content)
	if err != nil {
		v.last = lastAdded{err: err}
		return
	}
	if site.response >= 0 {
		content = mergeResponses(site.answer, content)
		v.bytes += contentBytes(content)
	}
	shown := v.contentForModel(v.orderResponses(site, content))
	switch {
	case site.response >= 0:
		v.contents = slices.Clone(v.contents)
		v.contents[site.response] = shown
	case site.at == len(v.contents)-1:
		site.response = v.appendContent(shown)
	default:
		at := site.at + 1
		v.contents = slices.Insert(slices.Clone(v.contents), at, shown)
		for i := range v.sites { // those after the inserted content
			s := &v.sites[i]
			if s.at >= at {
				s.at++
			}
			if s.response >= at {
				s.response++
			}
		}
		site.response = at
	}
	site.answer = content
	v.last = lastAdded{responses: true, at: site.response}
}

// findCallSite returns the call event that a response event answers. All responses must answer
// calls in the same event.
func (v *contentsView) findCallSite(content *genai.Content) (*callSite, error) {
	responses := model.ResponsesOf(content)
	var site *callSite
	for _, r := range slices.Backward(responses) {
		if i, ok := v.calls[r.ID]; ok && v.sites[i].at >= 0 {
			site = &v.sites[i]
			break
		}
	}
	if site == nil {
		return nil, failf(CodeInvalidRequest, nil, "function response %s does not match any function call of this conversation", responses[0].ID)
	}
	for _, r := range responses {
		if i, ok := v.calls[r.ID]; !ok || &v.sites[i] != site {
			return nil, failf(CodeInvalidRequest, nil, "function response %s does not belong to the same event as the other responses", r.ID)
		}
	}
	return site, nil
}

// isVisible reports whether the agent sees an event on its branch.
func (v *contentsView) isVisible(ev *session.Event) bool {
	if isEmpty(ev.Content) && readTranscription(ev).text == "" {
		return false
	}
	return ev.IsolationScope == v.scope && onBranch(v.branch, ev.Branch) && !isFrameworkEvent(ev.Content)
}

// isForeign reports whether an event belongs to another agent, so that this
// agent's model gets it as user content. A response to another agent's call is
// foreign too, regardless of its author.
func (v *contentsView) isForeign(ev *session.Event) bool {
	if ev.Author != session.UserAuthor && (ev.Author != v.agent || isLive(ev)) {
		return true
	}
	for _, r := range model.ResponsesOf(ev.Content) {
		if i, ok := v.calls[r.ID]; ok && v.sites[i].at < 0 {
			return true
		}
	}
	return false
}

// contentForModel converts a content for the view's model.
func (v *contentsView) contentForModel(c *genai.Content) *genai.Content {
	given := c
	if v.delimiters != (unique.Handle[shownDelimiters]{}) {
		c = v.delimiters.Value().renderContent(c)
	}
	if !v.keepIDs {
		c = withoutOwnIDs(c)
	}
	if c != given {
		v.bytes += contentBytes(c)
	}
	return c
}

// mergeTranscription converts a transcription to content. One speaker's consecutive transcriptions
// form one text, which replaces the last content (adk-python contents.py).
func (v *contentsView) mergeTranscription(ev *session.Event) *session.Event {
	next := readTranscription(ev)
	last := v.transcript
	v.transcript = transcript{}
	if next.text == "" {
		return ev
	}
	if next.author == last.author && next.role == last.role {
		next.text = last.text + next.text
		// Clip: pending requests still read the replaced content.
		v.contents = slices.Clip(v.contents[:len(v.contents)-last.contentCount])
		v.bytes -= last.bytes
	}
	v.transcript = next
	merged := *ev
	merged.Content = &genai.Content{Role: next.role, Parts: []*genai.Part{{Text: next.text}}}
	return &merged
}

// singleTurnText replaces the identity for an agent that runs as a single turn.
const singleTurnText = "Complete this task in one turn. No user reads or answers your questions."

// turnContents are the contents for an agent that sees only its own turn: its input, and the events
// that belong to it.
type turnContents struct{ *Invocation }

// hasSingleTurn reports whether this agent run is a single turn with an input. A node without an
// input, or one that another agent transfers to, sees the conversation.
func (inv turnContents) hasSingleTurn() bool {
	return inv.input != nil && inv.input.v != nil && inv.node.isSingleTurn()
}
