package runtime

import (
	"context"
	"errors"

	"google.golang.org/genai"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// RequestConfirmation is the name of the function call that requests the
// confirmation of another call. Its arguments are originalFunctionCall and
// toolConfirmation; the answer is {"confirmed": true|false, "payload": …}.
const RequestConfirmation = "adk_request_confirmation"

// RequestCredential is the name of the function call that requests a
// credential from the user. Its arguments are functionCallId and authConfig;
// the answer is the config with exchangedAuthCredential set.
const RequestCredential = "adk_request_credential"

// IsReservedFunction reports whether calls and responses of this name belong
// to the runtime: they request human input or answer it.
func IsReservedFunction(name string) bool {
	return name == RequestConfirmation || name == RequestCredential || name == tool.RequestInput
}

// Responses to the model for calls that wait for a person, worded as in
// adk-python tools/function_tool.py.
const (
	awaitsCredential   = "This tool call requires a credential, which was requested from the user."
	awaitsConfirmation = "This tool call requires confirmation, please approve or reject."
	rejectedText       = "This tool call is rejected."
)

var errNoHuman = errors.New("this tool call requires human input, which an agent that is called as a tool cannot request: " +
	"require confirmation for the call of the agent instead")

// WithConfirm returns the tool with a rule for which of its calls require
// confirmation; nil means none.
func (t *AgentTool) WithConfirm(c tool.Confirmer) *AgentTool {
	with := *t
	with.capabilities.Confirm = c
	return &with
}

// Capabilities returns the settings of the document.
func (t *AgentTool) Capabilities() tool.Capabilities { return t.capabilities }

// withCallConfig returns a set of the tool with the call settings of the
// document.
func (t *AgentTool) withCallConfig(c *agentCallConfig) (tool.Set, error) {
	traits, err := c.Call.Capabilities(t.decl)
	if err != nil {
		return nil, err
	}
	traits.LongRunning = c.LongRunning
	with := *t
	with.capabilities, with.withoutPlugins = traits, !c.IncludePlugins
	if c.LongRunning {
		decl := *t.decl
		decl.Description = tool.WithPendingNote(decl.Description)
		with.decl = &decl
	}
	return tool.One(&with), nil
}

// Check validates confirm.
func (c *agentToolConfig) Check(*spec.Node) spec.Diagnostics {
	return checkConfirm(c.Call.Call.Confirm)
}

// checkConfirm validates a confirm expression, except for the names of
// arguments, which are known once the agent is built.
func checkConfirm(src spec.Expr) spec.Diagnostics {
	_, err := tool.CompileConfirm(src, &genai.FunctionDeclaration{
		ParametersJsonSchema: map[string]any{"type": "object", "additionalProperties": true},
	})
	var ds spec.Diagnostics
	errors.As(err, &ds)
	return ds
}

// checkApproval runs before a tool that may require confirmation. A result
// replaces the tool call; nil lets the tool run.
func (s *step) checkApproval(ctx context.Context, call *tool.Call, traits tool.Capabilities) (*tool.Result, error) {
	if call.Confirmation == nil {
		needed, err := traits.Confirm.NeedsConfirmation(ctx, call)
		if err != nil || !needed {
			return nil, err
		}
	}
	return requireApproval(call, ""), nil
}

// requireApproval requests the approval of a call. It returns nil once the
// call is approved.
func requireApproval(call *tool.Call, hint string) *tool.Result {
	switch {
	case call.Confirmation == nil:
		call.RequestConfirmation(hint, nil)
		return &tool.Result{Response: map[string]any{"error": awaitsConfirmation}}
	case !call.Confirmation.Confirmed:
		return &tool.Result{Response: map[string]any{"error": rejectedText}}
	}
	return nil
}

// resolveHumanRequest sets the result of a call that requests human input. A
// tool that failed requests nothing; one without a result gets a pending
// result.
func (s *step) resolveHumanRequest(a *callResult, result *tool.Result, err error) (*tool.Result, error) {
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

// requestsHuman reports whether calls request human input.
func requestsHuman(a *session.Actions) bool {
	return len(a.RequestedToolConfirmations) > 0 || len(a.RequestedAuthConfigs) > 0
}

// setPendingResponse replaces the pending confirmation by a pending status for
// a long-running call that was executed and is answered later.
func (a *callResult) setPendingResponse(fc *genai.FunctionCall) {
	a.setResponse(fc, map[string]any{"status": "pending"})
	a.actions.SkipSummarization = true
}

// emitHumanRequests yields the requests for credentials and confirmations,
// before the event with the results (adk-python flows/llm_flows/functions.py).
func (s *step) emitHumanRequests(answer *session.Event, calls []*genai.FunctionCall) bool {
	if !requestsHuman(&answer.Actions) {
		return true
	}
	var credentials, confirmations *session.Event
	for _, fc := range calls {
		if config := answer.Actions.RequestedAuthConfigs[fc.ID]; config != nil && !s.alreadyRequested(RequestCredential, fc.ID) {
			credentials = s.addRequest(credentials, RequestCredential, map[string]any{"functionCallId": fc.ID, "authConfig": config})
		}
		if c := answer.Actions.RequestedToolConfirmations[fc.ID]; c != nil && !s.alreadyRequested(RequestConfirmation, fc.ID) {
			confirmations = s.addRequest(confirmations, RequestConfirmation, confirmationArgs(fc, c))
		}
	}
	for _, ev := range []*session.Event{credentials, confirmations} {
		if ev != nil && !s.emitEvent(ev, nil) {
			return false
		}
	}
	return true
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

func confirmationArgs(fc *genai.FunctionCall, c *session.Confirmation) map[string]any {
	ask := map[string]any{"hint": c.Hint, "confirmed": false}
	if c.Payload != nil {
		ask["payload"] = c.Payload
	}
	return map[string]any{
		"originalFunctionCall": map[string]any{"id": fc.ID, "name": fc.Name, "args": cloneArgs(fc.Args)},
		"toolConfirmation":     ask,
	}
}

// executeDecisions executes the calls of this agent that the user's message
// decides on, and returns whether the agent continues with a model call.
func (s *step) executeDecisions(ctx context.Context) bool {
	d := s.inv.run.decisions
	if d.author != s.inv.node.agent.Name() || !d.consumed.CompareAndSwap(false, true) {
		return true
	}
	if len(d.open) == 0 {
		return !d.finished
	}
	var calls []*genai.FunctionCall
	s.decided = map[string]*decision{}
	for _, one := range d.open {
		calls = append(calls, one.call)
		s.decided[one.call.ID] = one
	}
	answer, ok := s.answerCalls(ctx, calls)
	return ok && answer != nil && !answer.IsFinal()
}
