package runtime

import (
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/session"
)

// A callIndex finds the calls of a history by their ID, and the responses and
// requests that refer to them. It is built in one pass, once for each run that
// answers calls or resumes an invocation. A model may reuse an ID: each ID has
// a list, oldest first. Methods accept a nil index, which has no calls.
type callIndex struct {
	// events are the recorded events: without imported and rewound ones.
	events    []*session.Event
	calls     map[string][]indexedCall
	responses map[string][]indexedResponse
	// requests are the requests of the runtime, by the call that they are about.
	requests map[string][]indexedCall
	// lastAgent is the position of the last event of an agent, or -1.
	lastAgent int
	// all also has the events that rewinds removed, because calls that were
	// executed there stay executed. It is the index itself if there are none.
	all *callIndex
}

// indexedCall is a call with its event, and the position of the event.
type indexedCall struct {
	call  *genai.FunctionCall
	event *session.Event
	at    int
}

// indexedResponse is a response with its event, and the position of the event.
type indexedResponse struct {
	response *genai.FunctionResponse
	event    *session.Event
	at       int
}

// newCallIndex returns the index of all events of a session.
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

// findRequests returns the requests of the runtime about a call.
func (x *callIndex) findRequests(call string) []indexedCall {
	if x == nil {
		return nil
	}
	return x.requests[call]
}

// findLastCall returns the latest call of this ID.
func (x *callIndex) findLastCall(id string) (site indexedCall, found bool) {
	sites := x.findCalls(id)
	if len(sites) == 0 {
		return indexedCall{}, false
	}
	return sites[len(sites)-1], true
}

// findAnsweredInvocation returns the invocation of the latest call that is
// answered.
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

// isPending reports whether the call waits for the user: it is long-running,
// it is the latest of its ID, the user has not answered it, and its own result
// is not a failure.
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

// wasExecuted reports whether an answer to the request, at a position or after
// it, was followed by the result of the call.
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

// hasFinished reports whether the last event of an agent is its final answer.
func (x *callIndex) hasFinished() bool {
	return x.lastAgent < 0 || x.events[x.lastAgent].IsFinal()
}

// findCall returns the event's call of this ID, or nil.
func findCall(ev *session.Event, id string) *genai.FunctionCall {
	for _, c := range ev.Calls() {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// requestedCall returns the ID of the call that a request is about.
func requestedCall(request *genai.FunctionCall) string {
	if request.Name == RequestCredential {
		id, _ := request.Args["functionCallId"].(string)
		return id
	}
	original, _ := request.Args["originalFunctionCall"].(map[string]any)
	id, _ := original["id"].(string)
	return id
}

// IsRequest reports whether a call is a request of the runtime. Models cannot
// make one.
func IsRequest(ev *session.Event, c *genai.FunctionCall) bool {
	return (c.Name == RequestConfirmation || c.Name == RequestCredential) && slices.Contains(ev.LongRunningToolIDs, c.ID)
}
