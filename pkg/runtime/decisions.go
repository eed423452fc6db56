package runtime

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"sync/atomic"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

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
	// finished reports whether all calls were executed before and the agent
	// has given its final answer.
	finished bool
	// consumed reports whether the agent has executed the calls.
	consumed atomic.Bool
}

// decision is a person's decision on one call, with the data needed to execute
// the call as it was made.
type decision struct {
	call         *genai.FunctionCall
	confirmation *session.Confirmation
	// invocation and user belong to the run that made the call.
	invocation, user string
}

// applyToCall sets the decision on a call. The idempotency key is that of the
// first attempt, so that a service executes the operation only once.
func (d *decision) applyToCall(call *tool.Call) {
	call.Confirmation = d.confirmation
	call.IdempotencyKey = idempotencyKey(d.invocation, d.call.ID)
	call.Origin.User = d.user
}

func idempotencyKey(invocation, call string) string { return invocation + "/" + call }

// readDecisions reads the decisions of the user's message. It runs before the
// message is stored, so that an invalid message leaves no trace.
func (r *run) readDecisions(req *RunRequest, events []*session.Event) error {
	responses := model.ResponsesOf(r.user)
	if !slices.ContainsFunc(responses, isDecision) {
		if req.Message == nil {
			return nil // already stored
		}
		return checkAnswers(events, responses)
	}
	if len(responses) < len(r.user.Parts) || slices.ContainsFunc(responses, func(f *genai.FunctionResponse) bool { return !isDecision(f) }) {
		return invalidRequest("a message that answers %s or %s must not contain anything else", RequestConfirmation, RequestCredential)
	}
	all, events := session.WithoutImported(events), session.Recorded(events)
	d := &decisions{credentials: map[string]any{}}
	for _, resp := range responses {
		if err := d.readResponse(all, events, resp); err != nil {
			return err
		}
	}
	if r.app.findNode(d.author) == nil {
		return invalidRequest("agent %s, which made the request, is no longer part of the app", d.author)
	}
	d.finished = len(d.open) == 0 && lastAgentEvent(events).IsFinal()
	r.decisions = d
	return nil
}

func isDecision(f *genai.FunctionResponse) bool {
	return f.Name == RequestConfirmation || f.Name == RequestCredential
}

func invalidRequest(format string, args ...any) error {
	return failf(CodeInvalidRequest, session.ErrInvalid, format, args...)
}

// lastAgentEvent returns the last event of an agent.
func lastAgentEvent(events []*session.Event) *session.Event {
	for _, ev := range slices.Backward(events) {
		if ev.Author != session.UserAuthor {
			return ev
		}
	}
	return &session.Event{}
}

// readResponse reads one answer of the message. events are the current events;
// all also has those that rewinds removed, because calls executed there stay
// executed.
func (d *decisions) readResponse(all, events []*session.Event, resp *genai.FunctionResponse) error {
	at, request, err := findRequest(events, resp)
	if err != nil {
		return err
	}
	author := events[at].Author
	if d.author != "" && d.author != author {
		return invalidRequest("the message answers agent %s and agent %s: send a separate message to each", d.author, author)
	}
	d.author = author
	one, err := findOriginalCall(events[:at], author, request)
	if err == nil && request.Name == RequestCredential {
		err = d.readCredential(request, resp)
	} else if err == nil {
		one.confirmation, err = readConfirmation(resp)
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(d.open, func(other *decision) bool { return other.call.ID == one.call.ID }) {
		return invalidRequest("the message contains two answers to call %s", one.call.ID)
	}
	if wasExecuted(events[at:], resp.ID, one.call.ID) {
		return nil
	}
	if wasExecuted(all, resp.ID, one.call.ID) {
		return invalidRequest("the %s %s was answered before the session was rewound: rewind to before the call to answer it again", requestNoun(resp.Name), resp.ID)
	}
	d.open = append(d.open, one)
	return nil
}

// findRequest finds the event with the request of this ID.
func findRequest(events []*session.Event, resp *genai.FunctionResponse) (at int, request *genai.FunctionCall, err error) {
	for i, ev := range events {
		for _, c := range ev.Calls() {
			if c.ID != resp.ID || c.Name != resp.Name || !IsRequest(ev, c) {
				continue
			}
			if request != nil && (ev.Author != events[at].Author || !sameJSON(c.Args, request.Args)) {
				return 0, nil, invalidRequest("the %s %s was requested for different calls", requestNoun(resp.Name), resp.ID)
			}
			at, request = i, c
		}
	}
	if request == nil {
		return 0, nil, invalidRequest("no request for %s %q in this session", requestNoun(resp.Name), resp.ID)
	}
	return at, request, nil
}

// findOriginalCall finds the stored call of the agent that a request is about.
func findOriginalCall(events []*session.Event, author string, request *genai.FunctionCall) (*decision, error) {
	original, _ := request.Args["originalFunctionCall"].(map[string]any)
	id := requestedCall(request)
	for i, ev := range slices.Backward(events) {
		if ev.Author != author {
			continue
		}
		for _, c := range ev.Calls() {
			if c.ID != id {
				continue
			}
			if original != nil && (c.Name != original["name"] || !sameJSON(cloneArgs(c.Args), original["args"])) {
				return nil, invalidRequest("the confirmation %s does not match call %s", request.ID, id)
			}
			return &decision{
				call: c, confirmation: findApproval(events[i:], id),
				invocation: ev.InvocationID, user: findUserText(events, ev.InvocationID),
			}, nil
		}
	}
	return nil, invalidRequest("the %s %s refers to call %q, which agent %s never made", requestNoun(request.Name), request.ID, id, author)
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

func requestNoun(request string) string {
	if request == RequestCredential {
		return "credential"
	}
	return "confirmation"
}

// findApproval returns the approval of a call that was approved and then
// requested a credential, or nil.
func findApproval(since []*session.Event, call string) *session.Confirmation {
	asked := map[string]bool{}
	var given *session.Confirmation
	for _, ev := range since {
		for _, c := range ev.Calls() {
			original, _ := c.Args["originalFunctionCall"].(map[string]any)
			if IsRequest(ev, c) && original["id"] == call {
				asked[c.ID] = true
			}
		}
		for _, f := range ev.Responses() {
			if ev.Author != session.UserAuthor || !asked[f.ID] {
				continue
			}
			if c, err := readConfirmation(f); err == nil {
				given = c
			}
		}
	}
	return given
}

// sameJSON compares values by their JSON, because only one may have been
// decoded from a store.
func sameJSON(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// findUserText returns the text of the user's message of an invocation.
func findUserText(events []*session.Event, invocation string) string {
	for _, ev := range events {
		if ev.InvocationID == invocation && ev.Author == session.UserAuthor {
			return ev.Text()
		}
	}
	return ""
}

// wasExecuted reports whether an earlier answer to the request was followed by
// the result of the call.
func wasExecuted(since []*session.Event, request, call string) bool {
	answers := func(id string) func(*genai.FunctionResponse) bool {
		return func(f *genai.FunctionResponse) bool { return f.ID == id }
	}
	decided := false
	for _, ev := range since {
		responses := ev.Responses()
		if ev.Author == session.UserAuthor {
			decided = decided || slices.ContainsFunc(responses, answers(request))
		} else if decided && !isCallFailure(ev) && slices.ContainsFunc(responses, answers(call)) {
			return true
		}
	}
	return false
}

// readConfirmation reads {"confirmed", "payload"}, or the same as a JSON
// string in the key response.
func readConfirmation(resp *genai.FunctionResponse) (*session.Confirmation, error) {
	m, err := unwrapResponse(resp)
	if err != nil {
		return nil, err
	}
	c := &session.Confirmation{Payload: m["payload"]}
	var ok bool
	if c.Confirmed, ok = m["confirmed"].(bool); !ok {
		return nil, invalidRequest(`the answer to the confirmation %s requires "confirmed", true or false`, resp.ID)
	}
	for key := range m {
		if key != "confirmed" && key != "payload" && key != "hint" {
			return nil, invalidRequest("the answer to the confirmation %s has the unknown key %q", resp.ID, key)
		}
	}
	return c, nil
}

// readCredential stores a credential in the state key that was requested.
func (d *decisions) readCredential(request *genai.FunctionCall, resp *genai.FunctionResponse) error {
	m, err := unwrapResponse(resp)
	if err != nil {
		return err
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

// unwrapResponse returns the content of a response, which may be a JSON string
// in the key response.
func unwrapResponse(resp *genai.FunctionResponse) (map[string]any, error) {
	text, ok := resp.Response["response"].(string)
	if !ok || len(resp.Response) != 1 {
		return resp.Response, nil
	}
	m, err := session.DecodeMap([]byte(text))
	if err != nil {
		return nil, invalidRequest("the answer to the %s %s must be a JSON object: %s", requestNoun(resp.Name), resp.ID, err)
	}
	return m, nil
}
