package runtime

import (
	"bytes"
	"encoding/json"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// A callIndex finds the calls in a history by their ID, and the responses and requests that refer
// to them. It is built in one pass, once for each run that answers calls or resumes an invocation.
// A model may reuse an ID: each ID has a list, oldest first. Methods accept a nil index, which has
// no calls.
type callIndex struct {
	// events are the recorded events: without imported and rewound ones.
	events    []*session.Event
	calls     map[string][]indexedCall
	responses map[string][]indexedResponse
	// requests are the runtime's requests, by the call that they are about.
	requests map[string][]indexedCall
	// lastAgent is the position of an agent's last event, or -1.
	lastAgent int
	// all also has the events that rewinds removed, because calls that were
	// executed there stay executed. It is the index itself if there are none.
	all *callIndex
}

// indexedCall is a call with its event, and the event's position.
type indexedCall struct {
	call  *genai.FunctionCall
	event *session.Event
	at    int
}

// indexedResponse is a response with its event, and the event's position.
type indexedResponse struct {
	response *genai.FunctionResponse
	event    *session.Event
	at       int
}

// newCallIndex returns the index over a session's events.
func newCallIndex(events []*session.Event) *callIndex {
	recorded, all := session.Recorded(events), session.WithoutImported(events)
	x := indexEvents(recorded)
	if len(all) > len(recorded) {
		x.all = indexEvents(all)
	}
	return x
}

func indexEvents(events []*session.Event) *callIndex {
	x := &callIndex{
		calls: map[string][]indexedCall{}, responses: map[string][]indexedResponse{},
		requests: map[string][]indexedCall{}, lastAgent: -1,
	}
	x.all = x
	for i, ev := range events {
		x.indexEvent(ev, i)
	}
	x.events = slices.Clip(events)
	return x
}

func (x *callIndex) indexEvent(ev *session.Event, at int) {
	if ev.Author != session.UserAuthor {
		x.lastAgent = at
	}
	for _, c := range ev.Calls() {
		site := indexedCall{c, ev, at}
		x.calls[c.ID] = append(x.calls[c.ID], site)
		if IsRequest(ev, c) {
			about := requestedCall(c)
			x.requests[about] = append(x.requests[about], site)
		}
	}
	for _, f := range ev.Responses() {
		x.responses[f.ID] = append(x.responses[f.ID], indexedResponse{f, ev, at})
	}
}

// addEvent adds an event that was stored after the index was built.
func (x *callIndex) addEvent(ev *session.Event) {
	if x == nil {
		return
	}
	x.indexEvent(ev, len(x.events))
	x.events = append(x.events, ev)
	if x.all != x {
		x.all.addEvent(ev)
	}
}

func (x *callIndex) findCalls(id string) []indexedCall {
	if x == nil {
		return nil
	}
	return x.calls[id]
}

func (x *callIndex) findResponses(id string) []indexedResponse {
	if x == nil {
		return nil
	}
	return x.responses[id]
}

// findRequests returns the runtime's requests about a call.
func (x *callIndex) findRequests(call string) []indexedCall {
	if x == nil {
		return nil
	}
	return x.requests[call]
}

// findLastCall returns the latest call with this ID.
func (x *callIndex) findLastCall(id string) (site indexedCall, found bool) {
	sites := x.findCalls(id)
	if len(sites) == 0 {
		return indexedCall{}, false
	}
	return sites[len(sites)-1], true
}

// findAnsweredInvocation returns the invocation with the latest call that is answered.
func (x *callIndex) findAnsweredInvocation(answers []*genai.FunctionResponse) string {
	last, invocation := -1, ""
	for _, f := range answers {
		if site, found := x.findLastCall(f.ID); found && site.at > last {
			last, invocation = site.at, site.event.InvocationID
		}
	}
	return invocation
}

// isAnswered reports whether the user has given the final answer to a call in
// an invocation.
func (x *callIndex) isAnswered(call, invocation string) bool {
	return slices.ContainsFunc(x.findResponses(call), func(r indexedResponse) bool {
		return r.event.Author == session.UserAuthor && r.event.InvocationID == invocation && isFinalAnswer(r.response)
	})
}

// isPending reports whether the call waits for the user: it is long-running, it is the latest with
// its ID, the user has not answered it, and its own result is not a failure.
func (x *callIndex) isPending(c *genai.FunctionCall, at int) bool {
	isLongRunning := func(site indexedCall) bool { return slices.Contains(site.event.LongRunningToolIDs, c.ID) }
	last := -1
	for _, site := range x.findCalls(c.ID) {
		if isLongRunning(site) {
			last = site.at
		}
	}
	if last != at {
		return false
	}
	failed := false
	for _, r := range x.findResponses(c.ID) {
		switch {
		case r.at < at:
		case r.event.Author != session.UserAuthor:
			failed = isFailure(r.response.Response)
		case isFinalAnswer(r.response):
			return false
		}
	}
	return !failed
}

// wasExecuted reports whether an answer to the request, at a position or after it, was followed by
// the call's result.
func (x *callIndex) wasExecuted(request, call string, from int) bool {
	for _, answer := range x.findResponses(request) {
		if answer.at >= from && answer.event.Author == session.UserAuthor {
			return slices.ContainsFunc(x.findResponses(call), func(r indexedResponse) bool {
				return r.at > answer.at && r.event.Author != session.UserAuthor && !isCallFailure(r.event)
			})
		}
	}
	return false
}

// findUserAnswer returns the user's final answer to a call, or nil. Answers to earlier calls with
// the same ID do not count.
func (x *callIndex) findUserAnswer(site indexedCall) *genai.FunctionResponse {
	for _, r := range slices.Backward(x.findResponses(site.call.ID)) {
		if r.at > site.at && r.event.Author == session.UserAuthor && isFinalAnswer(r.response) {
			return r.response
		}
	}
	return nil
}

// hasNodeResult reports whether the ToolNode that made a request has yielded a result since the
// user's answer.
func (x *callIndex) hasNodeResult(request indexedCall) bool {
	answered := false
	for _, ev := range x.events[slices.Index(x.events, request.event)+1:] {
		isAnswer := func(f *genai.FunctionResponse) bool { return f.ID == request.call.ID }
		switch {
		case ev.Author == session.UserAuthor:
			answered = answered || slices.ContainsFunc(ev.Responses(), isAnswer)
		case answered && ev.NodeName() == request.event.NodeName() && ev.Branch == request.event.Branch && isNodeResult(ev):
			return true
		}
	}
	return false
}

// wasAnsweredBeforeRewind reports whether a runtime request has an answer that a rewind removed,
// and whose call was executed.
func (x *callIndex) wasAnsweredBeforeRewind(request indexedCall) bool {
	switch {
	case !IsRequest(request.event, request.call):
		return false
	case isNodeRequest(request.call):
		return x.all.hasNodeResult(request)
	}
	return x.all.wasExecuted(request.call.ID, requestedCall(request.call), 0)
}

// hasFinished reports whether an agent's last event is its final answer.
func (x *callIndex) hasFinished() bool {
	return x.lastAgent < 0 || x.events[x.lastAgent].IsFinal()
}

// findCall returns the event's call with this ID, or nil.
func findCall(ev *session.Event, id string) *genai.FunctionCall {
	for _, c := range ev.Calls() {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// requestedCall returns the ID of the call that a request is about. A ToolNode's request is about
// itself.
func requestedCall(request *genai.FunctionCall) string {
	if isNodeRequest(request) {
		return request.ID
	}
	if request.Name == RequestCredential {
		id, _ := request.Args["functionCallId"].(string)
		return id
	}
	original, _ := request.Args["originalFunctionCall"].(map[string]any)
	id, _ := original["id"].(string)
	return id
}

// IsRequest reports whether a call is a runtime request. Models cannot make one.
func IsRequest(ev *session.Event, c *genai.FunctionCall) bool {
	return (c.Name == RequestConfirmation || c.Name == RequestCredential || isNodeRequest(c)) && slices.Contains(ev.LongRunningToolIDs, c.ID)
}

// PendingCalls is an event with calls that wait for the user. One message can answer all of them;
// calls in two events require two messages.
type PendingCalls struct {
	Event *session.Event
	Calls []*genai.FunctionCall
}

// Pending returns the calls that the user has not answered, oldest first: the runtime's requests
// (see [IsRequest]) and calls to long-running tools. It excludes calls whose own result is a
// failure: they were not executed, or a separate request asks about them, or they were rejected. It
// also excludes requests that were answered before a rewind removed the answer.
func Pending(events []*session.Event) []PendingCalls {
	if !slices.ContainsFunc(events, func(ev *session.Event) bool { return len(ev.LongRunningToolIDs) > 0 }) {
		return nil
	}
	x := newCallIndex(events)
	var pending []PendingCalls
	for i, ev := range x.events {
		w := PendingCalls{Event: ev}
		for _, c := range ev.Calls() {
			if x.isPending(c, i) && !x.wasAnsweredBeforeRewind(indexedCall{c, ev, i}) {
				w.Calls = append(w.Calls, c)
			}
		}
		if len(w.Calls) > 0 {
			pending = append(pending, w)
		}
	}
	return pending
}

// answerByText returns the request with its text as the response to the question that the
// last invocation waits for, if text_answers is set and there is exactly one (as an option
// of adk-java since 1.10). Otherwise it returns the request itself.
func (req *RunRequest) answerByText(app *App, sess *session.Session) *RunRequest {
	if !req.effectiveConfig(app).TextAnswers || req.InvocationID != "" || !isPlainText(req.Message) {
		return req
	}
	events := session.Recorded(sess.Events())
	var questions []*genai.FunctionCall
	for _, w := range Pending(events) {
		if w.Event.InvocationID == events[len(events)-1].InvocationID {
			questions = append(questions, w.Calls...)
		}
	}
	if len(questions) != 1 || isNodeRequest(questions[0]) || questions[0].Name != tool.RequestInput && questions[0].Name != tool.UserChoice {
		return req
	}
	answered := *req
	answered.Message = &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{
		ID: questions[0].ID, Name: questions[0].Name, Response: map[string]any{"result": model.TextOf(req.Message)},
	}}}}
	return &answered
}

// isPlainText reports whether a message has only text.
func isPlainText(c *genai.Content) bool {
	return c != nil && len(c.Parts) > 0 && !slices.ContainsFunc(c.Parts, func(p *genai.Part) bool {
		return p == nil || p.Text == "" || p.Thought
	})
}

// isFailure reports whether a result is {"error": …} alone, or an error as MCP
// servers report it.
func isFailure(response map[string]any) bool {
	if response["isError"] == true {
		return true
	}
	_, failed := response["error"]
	return failed && len(response) == 1
}

func requestNoun(request string) string {
	if request == RequestCredential {
		return "credential"
	}
	return "confirmation"
}

// checkAnswers rejects function responses to calls that are not pending, before the user's message
// is stored. A response replaces the last response to its call, so a client could otherwise forge a
// tool result. Responses to calls in different events are rejected too, because a response must
// directly follow its call.
func checkAnswers(x *callIndex, responses []*genai.FunctionResponse) error {
	var first *session.Event
	for i, f := range responses {
		if f.ID == "" {
			return invalidRequest("a function response needs the id of its call, got none for the name %q", f.Name)
		}
		site, found := x.findLastCall(f.ID)
		if !found {
			return invalidRequest("function response %s does not match any function call of this conversation", f.ID)
		}
		if slices.ContainsFunc(responses[:i], func(other *genai.FunctionResponse) bool { return other.ID == f.ID }) {
			return invalidRequest("the message contains two answers to call %s", f.ID)
		}
		if first != nil && site.event != first && !(isNodeRequest(site.call) && isNodeRequest(first.Calls()[0])) {
			return invalidRequest("function response %s answers a call of agent %s from a different event: send it in a separate message", f.ID, site.event.Author)
		}
		first = site.event
		if reason := rejectionReason(x, site, f); reason != "" {
			return invalidRequest("cannot answer the call %s: %s", f.ID, reason)
		}
	}
	return nil
}

// rejectionReason returns why a call does not accept a response; empty when it
// does. A final response that no agent has processed may be sent again, because
// its run was interrupted.
func rejectionReason(x *callIndex, site indexedCall, f *genai.FunctionResponse) string {
	call := findCall(site.event, f.ID)
	if call.Name != f.Name {
		return "its name is " + call.Name + ", not " + f.Name
	}
	if !slices.Contains(site.event.LongRunningToolIDs, f.ID) {
		return "it does not accept an answer: " + call.Name + " is not long-running"
	}
	var last, final *genai.FunctionResponse // the tool's; the user's
	processed := false
	for _, r := range x.findResponses(f.ID) {
		switch {
		case r.at < site.at:
		case r.event.Author != session.UserAuthor:
			last = r.response
		case isFinalAnswer(r.response):
			final = r.response
			processed = processed || x.lastAgent > r.at
		}
	}
	switch {
	case last != nil && isFailure(last.Response):
		return "it was not executed, or failed"
	case final != nil && (processed || !sameJSON(final.Response, f.Response)):
		return "it already has its final answer"
	case isNodeRequest(call) && x.all != x && x.all.hasNodeResult(site):
		return "it was answered before the session was rewound"
	case isNodeRequest(call):
		if _, err := readConfirmation(f); err != nil {
			return err.Error()
		}
	}
	return ""
}

// isFinalAnswer reports whether a user's response completes its call. ADK does
// not define interim responses: a response is interim if its will_continue is
// set, as in Gemini's API, or if its status is pending, as for tools.
func isFinalAnswer(f *genai.FunctionResponse) bool {
	return !model.IsInterim(f) && f.Response["status"] != "pending"
}

// sameJSON compares values by their JSON, because only one may have been
// decoded from a store.
func sameJSON(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// isCallFailure reports whether an event has a failure instead of results: a
// resumed run executes its calls again.
func isCallFailure(ev *session.Event) bool { return ev.ErrorCode != "" && len(ev.Responses()) > 0 }
