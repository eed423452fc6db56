package runtime

import (
	"context"
	"errors"
	"maps"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/connection"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// Responses to the model for calls that wait for a person, worded as in
// adk-python tools/function_tool.py.
const (
	awaitsCredential   = "This tool call requires a credential, which was requested from the user."
	awaitsConfirmation = "This tool call requires confirmation, please approve or reject."
	rejectedText       = "This tool call is rejected."
)

var errNoHuman = errors.New("this tool call requires human input, which an agent that is called as a tool cannot request: " +
	"require confirmation for the call of the agent instead")

// checkApproval runs before a tool that may require confirmation. A result
// replaces the tool call; nil lets the tool run.
func (s *callRunner) checkApproval(ctx context.Context, call *tool.Call, traits tool.Capabilities) (*tool.Result, error) {
	if call.Confirmation == nil {
		needed, err := traits.Confirm.NeedsConfirmation(ctx, call)
		if err != nil || !needed {
			return nil, err
		}
	}
	return RequireApproval(call, ""), nil
}

// RequireApproval requests a person's approval for a call, and shows the hint. A BeforeTool
// callback returns its result, which is nil once the call is approved.
func RequireApproval(call *tool.Call, hint string) *tool.Result {
	switch {
	case call.Confirmation == nil:
		call.RequestConfirmation(hint, nil)
		return &tool.Result{Response: map[string]any{"error": awaitsConfirmation}}
	case !call.Confirmation.Confirmed:
		return &tool.Result{Response: map[string]any{"error": rejectedText}}
	}
	return nil
}

// setPendingResult sets the result for a call that requests human input. A tool that failed
// requests nothing; one without a result gets a pending result.
func (s *callRunner) setPendingResult(a *callResult, result *tool.Result, err error) (*tool.Result, error) {
	if err == nil && s.inv.run.inner {
		err = errNoHuman
	}
	waits := awaitsConfirmation
	if len(a.actions.RequestedToolConfirmations) == 0 {
		waits = awaitsCredential
	}
	switch {
	case err != nil:
		a.actions.RequestedToolConfirmations, a.actions.RequestedAuthConfigs, a.actions.SkipSummarization = nil, nil, false
	case result == nil || len(result.Response) == 0:
		result = &tool.Result{Response: map[string]any{"error": waits}}
	}
	return result, err
}

// requestsInput reports whether calls request human input.
func requestsInput(a *session.Actions) bool {
	return len(a.RequestedToolConfirmations) > 0 || len(a.RequestedAuthConfigs) > 0
}

// emitResults yields the event with call results, which may be nil, and the requests for
// credentials and confirmations, and returns the last event. Requests come first. If another call
// has its result, confirmations come after it, so that it is stored also for a client that stops at
// the request (adk-python since 2.11). If the invocation is interrupted in between,
// emitMissingRequests makes up for it.
func (s *step) emitResults(answer *session.Event, calls []*genai.FunctionCall) (last *session.Event, ok bool) {
	if answer == nil || !requestsInput(&answer.Actions) {
		return answer, answer == nil || s.emitEvent(answer, nil)
	}
	credentials, confirmations := s.newInputRequests(answer, calls)
	order := []*session.Event{credentials, confirmations, answer}
	isSettled := func(f *genai.FunctionResponse) bool { return answer.Actions.RequestedToolConfirmations[f.ID] == nil }
	if confirmations != nil && slices.ContainsFunc(answer.Responses(), isSettled) {
		answer.Actions.SkipSummarization = false
		order = []*session.Event{credentials, answer, confirmations}
	}
	for _, ev := range order {
		if ev != nil && !s.emitEvent(ev, nil) {
			return nil, false
		}
	}
	return order[len(order)-1], true
}

// newInputRequests returns the events that request credentials and confirmations for calls; nil
// for those that are not needed.
func (s *step) newInputRequests(answer *session.Event, calls []*genai.FunctionCall) (credentials, confirmations *session.Event) {
	for _, fc := range calls {
		if config := answer.Actions.RequestedAuthConfigs[fc.ID]; config != nil && !s.alreadyRequested(RequestCredential, fc.ID) {
			credentials = s.addRequest(credentials, RequestCredential, map[string]any{"functionCallId": fc.ID, "authConfig": config})
		}
		if c := answer.Actions.RequestedToolConfirmations[fc.ID]; c != nil && !s.alreadyRequested(RequestConfirmation, fc.ID) {
			ask := map[string]any{"hint": c.Hint, "confirmed": false}
			if c.Payload != nil {
				ask["payload"] = c.Payload
			}
			request := map[string]any{
				"originalFunctionCall": map[string]any{"id": fc.ID, "name": fc.Name, "args": cloneArgs(fc.Args)},
				"toolConfirmation":     ask,
			}
			if values, schema := selectEditable(s.inv.activeToolbox().byName[fc.Name], fc); schema != nil && c.Payload == nil {
				ask["payload"], request[editableArgs] = values, schema
			}
			confirmations = s.addRequest(confirmations, RequestConfirmation, request)
		}
	}
	return credentials, confirmations
}

// emitMissingRequests yields the confirmations that an interrupted invocation has not requested after
// the event with the results. It returns false when the consumer stops.
func (s *step) emitMissingRequests() bool {
	for _, ev := range slices.Backward(s.inv.frame.prior.allEvents()) {
		if len(ev.Responses()) == 0 {
			continue
		}
		if !requestsInput(&ev.Actions) {
			return true
		}
		var calls []*genai.FunctionCall
		for _, f := range ev.Responses() {
			if site, found := s.inv.run.calls.findLastCall(f.ID); found && !s.hasRequested(ev, f.ID) {
				calls = append(calls, site.call)
			}
		}
		_, confirmations := s.newInputRequests(ev, calls)
		return confirmations == nil || s.emitEvent(confirmations, nil)
	}
	return true
}

// hasRequested reports whether a request for a call was stored with an event that has its
// preliminary result: after that event, or before it, and not for an earlier result.
func (s *step) hasRequested(result *session.Event, call string) bool {
	x := s.inv.run.calls
	at := slices.Index(x.events, result)
	return slices.ContainsFunc(x.findRequests(call), func(r indexedCall) bool {
		answeredBefore := func(f indexedResponse) bool { return f.at > r.at && f.at < at }
		return r.at > at || !slices.ContainsFunc(x.findResponses(r.call.ID), answeredBefore)
	})
}

// alreadyRequested reports whether a request for the call was made before the
// invocation was interrupted, and waits for its answer, so that it is not repeated.
func (s *step) alreadyRequested(request, call string) bool {
	calls := s.inv.run.calls
	return slices.ContainsFunc(calls.findRequests(call), func(r indexedCall) bool {
		return r.call.Name == request && s.inv.hasRecorded(r.event) && !calls.isAnswered(r.call.ID, s.inv.run.id)
	})
}

// addRequest adds a request to an event, which it creates first.
func (s *step) addRequest(ev *session.Event, name string, args map[string]any) *session.Event {
	if ev == nil {
		ev = s.inv.NewEvent()
		ev.Content = &genai.Content{Role: genai.RoleUser}
	}
	id := ownIDPrefix + s.inv.run.host.newID()
	ev.LongRunningToolIDs = append(ev.LongRunningToolIDs, id)
	ev.Content.Parts = append(ev.Content.Parts, &genai.Part{FunctionCall: &genai.FunctionCall{ID: id, Name: name, Args: args}})
	return ev
}

// readDecisions reads the decisions of the user's message; nil if it has none. It runs before the
// message is stored, so that an invalid message leaves no trace.
func (r *run) readDecisions(req *RunRequest) (*decisions, error) {
	responses := model.ResponsesOf(r.message.content)
	if !slices.ContainsFunc(responses, isDecision) {
		if req.Message == nil {
			return nil, nil // already stored
		}
		return nil, checkAnswers(r.calls, responses)
	}
	if len(responses) < len(r.message.content.Parts) || slices.ContainsFunc(responses, func(f *genai.FunctionResponse) bool { return !isDecision(f) }) {
		return nil, invalidRequest("a message that answers %s or %s must not contain anything else", RequestConfirmation, RequestCredential)
	}
	d := &decisions{credentials: map[string]any{}, tools: r.app.findTool}
	for _, resp := range responses {
		if err := d.readResponse(r.calls, resp); err != nil {
			return nil, err
		}
	}
	if r.app.findNode(d.author) == nil {
		return nil, invalidRequest("agent %s, which made the request, is no longer part of the app", d.author)
	}
	d.finished = len(d.open) == 0 && r.calls.hasFinished()
	return d, nil
}

func isDecision(f *genai.FunctionResponse) bool {
	return f.Name == RequestConfirmation || f.Name == RequestCredential
}

// readResponse reads one answer in the message.
func (d *decisions) readResponse(x *callIndex, resp *genai.FunctionResponse) error {
	request, err := findRequest(x, resp)
	if err != nil {
		return err
	}
	author := request.event.NodeName()
	if d.author != "" && d.author != author {
		return invalidRequest("the message answers agent %s and agent %s: send a separate message to each", d.author, author)
	}
	d.author = author
	if isNodeRequest(request.call) {
		switch { // the node finds its request in the history
		case x.hasNodeResult(request):
			return nil
		case x.all.hasNodeResult(request):
			return invalidRequest("the credential %s was answered before the session was rewound: rewind to before the call to answer it again", resp.ID)
		}
		return d.readCredential(request.call, request.event.NodePath, resp)
	}
	one, err := findOriginalCall(x, request)
	if err == nil && resp.Name == RequestCredential {
		err = d.readCredential(request.call, one.call.ID, resp)
	} else if err == nil {
		one.confirmation, err = readConfirmation(resp)
		asked, _ := request.call.Args["toolConfirmation"].(map[string]any)
		hint, _ := asked["hint"].(string)
		one.requested = &session.Confirmation{Hint: hint, Payload: asked["payload"]}
		if err == nil && request.call.Args[editableArgs] != nil {
			err = d.readEdits(one, resp.ID)
		}
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(d.open, func(other *decision) bool { return other.call.ID == one.call.ID }) {
		return invalidRequest("the message contains two answers to call %s", one.call.ID)
	}
	if x.wasExecuted(resp.ID, one.call.ID, request.at) {
		return checkRepeated(x.findUserAnswer(request), resp)
	}
	if x.all.wasExecuted(resp.ID, one.call.ID, 0) {
		return invalidRequest("the %s %s was answered before the session was rewound: rewind to before the call to answer it again", requestNoun(resp.Name), resp.ID)
	}
	d.open = append(d.open, one)
	return nil
}

// checkRepeated returns an error for an approval or a rejection that differs from the earlier one: a client
// that sends its answer once more continues the run, but another decision changes nothing.
func checkRepeated(earlier, resp *genai.FunctionResponse) error {
	if earlier == nil || resp.Name != RequestConfirmation {
		return nil
	}
	before, err := readConfirmation(earlier)
	if err != nil {
		return nil
	}
	now, err := readConfirmation(resp)
	if err != nil || now.Confirmed == before.Confirmed {
		return err
	}
	decision := map[bool]string{true: "approved", false: "rejected"}[before.Confirmed]
	return invalidRequest("the confirmation %s was answered before: its call was %s, and does not run again", resp.ID, decision)
}

// findRequest finds the request of the runtime that a response answers: the last one, since the
// requests of a ToolNode have the same ID in every invocation.
func findRequest(x *callIndex, resp *genai.FunctionResponse) (request indexedCall, err error) {
	for _, site := range x.findCalls(resp.ID) {
		if site.call.Name != resp.Name || !IsRequest(site.event, site.call) {
			continue
		}
		if request.call != nil && !isNodeRequest(site.call) && (site.event.NodeName() != request.event.NodeName() || !sameJSON(site.call.Args, request.call.Args)) {
			return indexedCall{}, invalidRequest("the %s %s was requested for different calls", requestNoun(resp.Name), resp.ID)
		}
		request = site
	}
	if request.call == nil {
		return indexedCall{}, invalidRequest("no request for %s %q in this session", requestNoun(resp.Name), resp.ID)
	}
	return request, nil
}

// findOriginalCall finds the agent's stored call that a request is about.
func findOriginalCall(x *callIndex, request indexedCall) (*decision, error) {
	author := request.event.NodeName()
	original, _ := request.call.Args["originalFunctionCall"].(map[string]any)
	id := requestedCall(request.call)
	for _, site := range slices.Backward(x.findCalls(id)) {
		if site.at >= request.at || site.event.NodeName() != author {
			continue
		}
		c, invocation := findCall(site.event, id), site.event.InvocationID
		if original != nil && (c.Name != original["name"] || !sameJSON(cloneArgs(c.Args), original["args"])) {
			return nil, invalidRequest("the confirmation %s does not match call %s", request.call.ID, id)
		}
		one := &decision{call: c, invocation: invocation, userText: findUserText(x.events[:request.at], invocation)}
		one.findApproval(x, site, request.at)
		return one, nil
	}
	return nil, invalidRequest("the %s %s refers to call %q, which agent %s never made", requestNoun(request.call.Name), request.call.ID, id, author)
}

// findApproval reads the approval for a call that was approved and then requested a credential, if
// there is one. It considers the events before a position.
func (d *decision) findApproval(x *callIndex, site indexedCall, before int) {
	last := -1
	for _, request := range x.findRequests(site.call.ID) {
		if request.call.Name != RequestConfirmation || request.at < site.at || request.at >= before {
			continue
		}
		for _, r := range x.findResponses(request.call.ID) {
			if r.event.Author != session.UserAuthor || r.at < max(request.at, last) || r.at >= before {
				continue
			}
			c, err := readConfirmation(r.response)
			if err != nil {
				continue
			}
			d.confirmation, last = c, r.at
			if request.call.Args[editableArgs] == nil {
				continue
			}
			if edits, err := readEdits(c, d.call.Args, request.call.ID); err == nil {
				d.edits, d.editedBy = edits, request.call.ID
			}
		}
	}
}

// findUserText returns the text of the user message in an invocation.
func findUserText(events []*session.Event, invocation string) string {
	for _, ev := range events {
		if ev.InvocationID == invocation && ev.Author == session.UserAuthor {
			return ev.Text()
		}
	}
	return ""
}

// readCredential stores a credential in the state key that was requested. The answer to a
// connection's request has no credential: see [decisions.readConsent].
func (d *decisions) readCredential(request *genai.FunctionCall, callID string, resp *genai.FunctionResponse) error {
	m, err := unwrapResponse(resp)
	if err != nil {
		return err
	}
	if config, _ := request.Args["authConfig"].(map[string]any); config != nil {
		if key, _ := config["credentialKey"].(string); connection.IsCredentialKey(key) {
			return d.readConsent(config, callID, resp, m)
		}
	}
	credential, ok := m["exchangedAuthCredential"].(map[string]any)
	if !ok {
		return invalidRequest("the answer to the credential %s has no exchangedAuthCredential", resp.ID)
	}
	config, _ := request.Args["authConfig"].(map[string]any)
	key, _ := config["credentialKey"].(string)
	d.credentials[session.TempPrefix+key] = credential
	return nil
}

// withCredentials returns a state delta with the credentials added. They
// belong to the invocation and are not kept in the state.
func (d *decisions) withCredentials(delta map[string]any) map[string]any {
	if d == nil || len(d.credentials) == 0 {
		return delta
	}
	all := map[string]any{}
	maps.Copy(all, delta)
	maps.Copy(all, d.credentials)
	return all
}
