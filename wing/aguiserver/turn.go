package aguiserver

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/buffers"
	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// instructionsKey is the state key for the client's instructions during a run.
const instructionsKey = session.TempPrefix + "client_instructions"

// handleRun runs a thread's new messages and answers. Until the first event, an error is the response;
// later it is the last event.
func (h *handlers) handleRun(w http.ResponseWriter, r *http.Request) error {
	t, err := h.readTurn(w, r)
	if err != nil {
		return err
	}
	ctx, end, err := h.StartRun(r.Context(), t.app.Name(), t.user, false)
	if err != nil {
		return err
	}
	defer end()
	steps, err := t.openThread(ctx, r)
	if err != nil {
		return err
	}
	stream := h.NewStream(w)
	t.write = stream.SendFrames
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer stream.StartKeepAlive(stop)()
	if err := t.runSteps(ctx, steps); err != nil {
		return t.failRun(r, stream, err)
	}
	return nil
}

// readTurn reads a request.
func (h *handlers) readTurn(w http.ResponseWriter, r *http.Request) (*turn, error) {
	e, err := h.openEndpoint(r)
	if err != nil {
		return nil, err
	}
	t := &turn{h: h, endpoint: e, lineage: lineage{e.app, e.app.Root().Name(), e.agent}}
	if t.in, err = h.readInput(w, r); err != nil {
		return nil, err
	}
	t.tools, err = t.in.readTools(e.settings)
	return t, err
}

// openThread opens the thread, and returns the steps to run.
func (t *turn) openThread(ctx context.Context, r *http.Request) (steps []*step, err error) {
	h, e, in := t.h, t.endpoint, t.in
	if t.thread, err = h.openThread(ctx, e, in); err != nil {
		return nil, server.WithSessionKey(session.Key{App: e.app.Name(), User: e.user, ID: in.ThreadID}, err)
	}
	if steps, err = t.thread.listSteps(ctx, in); err != nil {
		return nil, err
	}
	if t.delta, err = h.readState(r, e, t.thread, in); err != nil {
		return nil, err
	}
	if e.settings.Instructions {
		if t.instructions, err = in.readInstructions(); err != nil {
			return nil, err
		}
	}
	in.Messages, in.State, in.Context = nil, nil, nil // the run does not need the body
	t.state = newClientState(t.thread.sess.State.All())
	return steps, nil
}

// A turn is a run in progress.
type turn struct {
	h *handlers
	*endpoint
	thread *thread
	in     *runInput
	tools  []tool.Tool
	// delta and instructions are what the client adds to the state.
	delta        map[string]any
	instructions string
	// write writes events, and frames are those that it writes next, or nil: the events that follow from one
	// of the session's leave in one packet.
	write  func(frames []byte, last bool) error
	frames *[]byte
	// isLast is set before the step's last event.
	isLast bool
	// lineage finds the events' subagents.
	lineage lineage
	// err is the first error in write.
	err error
	// hasBegun is set with the first event, and hasRun if anything new has run.
	hasBegun, hasRun bool
	// hasEvents is set once an agent has sent an event in the step.
	hasEvents bool
	// state is the state as the client has it.
	state clientState
	// step is the agent below the root whose step is open, and owner the subagent that made the last event.
	step, owner string
	// subagents are those that run, the outermost first, and begun those that have begun in the run.
	subagents []*subagent
	begun     map[string]bool
	// spawns are the calls that begin subagents, by the agent or by their ID.
	spawns map[string]spawn
	info   *runtime.AgentInfo
	// open are the messages that have begun, by their events.
	open  []*openMessage
	seen  seenCalls
	usage []*usage
}

// An openMessage is a message in the stream: an answer, and the thoughts before it.
type openMessage struct {
	event string
	// owner is the subagent that writes it.
	owner string
	// text and thoughts are what partial events have brought, before the event that repeats it.
	text, thoughts strings.Builder
	// hasText and hasThoughts are set while that message is open.
	hasText, hasThoughts bool
}

// runSteps runs the steps one after the other, and ends the run.
func (t *turn) runSteps(ctx context.Context, steps []*step) error {
	t.hasRun = len(steps) > 0
	for i, s := range steps {
		if i > 0 {
			if err := t.h.loadThread(ctx, t.thread); err != nil {
				return server.WithSessionKey(t.thread.key, err)
			}
			if len(t.thread.forms) > 0 {
				break // the client sends the rest with its answers
			}
		}
		t.hasEvents = false
		t.thread.dropSession()
		if err := protocol.Run(ctx, t.h.Services, t.newRequest(s), t.readEvent); err != nil {
			return err
		}
		if s.isDecision && !t.hasEvents {
			return newInterruptError("the interrupts were answered by another run")
		}
		t.delta = nil
	}
	t.beginRun(nil)
	return t.finishRun(ctx)
}

func (t *turn) newRequest(s *step) *runtime.RunRequest {
	streaming := true
	req := &runtime.RunRequest{
		App: t.thread.key.App, UserID: t.thread.key.User, SessionID: t.thread.key.ID, Agent: t.agent,
		Message: &genai.Content{Role: genai.RoleUser, Parts: s.parts}, Streaming: &streaming, Writer: session.WriterClient,
		Protocol: "ag-ui", Tools: t.tools, StateDelta: maps.Clone(t.delta), CustomMetadata: newMetadata(t.in.RunID, s.messages),
	}
	if t.instructions != "" {
		if req.StateDelta == nil {
			req.StateDelta = map[string]any{}
		}
		req.StateDelta[instructionsKey] = t.instructions
	}
	req.OnStart = func(string) {
		t.beginRun(s)
		_ = t.flushEvents(false) // the next event reports its error
	}
	t.isLast = false
	req.OnLastEvent = func() { t.isLast = true }
	return req
}

// sendEvent encodes an event, which flushEvents writes.
func (t *turn) sendEvent(ev *event) {
	if t.frames == nil {
		t.frames = buffers.Take()
	}
	text, err := ev.appendJSON(append(*t.frames, "data: "...))
	if err != nil {
		t.err = cmp.Or(t.err, err)
		return
	}
	*t.frames = append(text, "\n\n"...)
}

// flushEvents writes the events that sendEvent has encoded; last is as in [server.Stream.SendFrames]. After an
// error it writes nothing.
func (t *turn) flushEvents(last bool) error {
	if t.frames == nil {
		return t.err
	}
	if t.err == nil {
		t.err = t.write(*t.frames, last)
	}
	buffers.Return(t.frames) // a stream that waits holds none
	t.frames = nil
	return t.err
}

// beginRun starts the run, once a step's message is stored, and sends the results that the message has for
// calls that the client has seen.
func (t *turn) beginRun(s *step) {
	if !t.hasBegun {
		t.hasBegun = true
		t.state.applyDelta(t.delta)
		t.sendEvent(&event{Type: runStarted, ThreadID: t.in.ThreadID, RunID: t.in.RunID, ParentRunID: t.in.ParentRunID, ProtocolVersion: protocolVersion})
		t.sendEvent(&event{Type: stateSnapshot, Snapshot: t.state})
	}
	if s == nil {
		return
	}
	for _, p := range s.parts {
		f := p.FunctionResponse
		isAnswer := func(form *protocol.Form) bool { return form.Call.ID == f.ID && !isHostRequest(form) }
		if f != nil && slices.ContainsFunc(t.thread.forms, isAnswer) {
			t.sendEvent(&event{Type: toolResult, MessageID: resultID(f.ID), ToolCallID: f.ID, Content: encodeResult(f.Response), Role: roleTool})
		}
	}
}

// readEvent writes what an event has for the client.
func (t *turn) readEvent(ev *session.Event) error {
	if ev.IsFromUser() {
		return t.flushEvents(false)
	}
	t.beginRun(nil)
	t.hasEvents = true
	if err := protocol.ReadFailure(ev); err != nil {
		return err
	}
	t.changeAgent(ev)
	text, thoughts := readTexts(ev)
	if !t.settings.Reasoning {
		thoughts = ""
	}
	if ev.Partial {
		m := t.openMessage(ev.ID)
		m.text.WriteString(text)
		m.thoughts.WriteString(thoughts)
		t.addTexts(m, text, thoughts)
		return t.flushEvents(false)
	}
	t.seen.addEvent(ev)
	if text != "" || thoughts != "" {
		m := t.openMessage(ev.ID)
		t.addTexts(m, strings.TrimPrefix(text, m.text.String()), strings.TrimPrefix(thoughts, m.thoughts.String()))
		t.endMessage(m)
	}
	t.readCalls(ev)
	if t.settings.Reasoning {
		t.sendSignatures(ev, text != "", thoughts != "")
	}
	if all := t.state.applyDelta(ev.Actions.StateDelta); len(all) > 0 {
		t.sendEvent(&event{Type: stateDelta, Delta: all, SubagentRunID: t.owner})
	}
	t.addUsage(ev)
	return t.flushEvents(t.isLast)
}

// changeAgent ends what the event shows to have ended, and begins the subagents and the step of the agent
// that made it.
func (t *turn) changeAgent(ev *session.Event) {
	runs := t.lineage.listRuns(ev)
	owner := ""
	if n := len(runs); n > 0 {
		owner = runs[n-1].id
	}
	step := ev.Author
	if step == t.lineage.root || step == t.agent {
		step = ""
	}
	isOther := step != t.step || owner != t.owner
	if isOther {
		t.endStep()
	}
	for _, s := range slices.Backward(slices.Clone(t.subagents)) {
		isAbove := ev.Branch == "" || ev.Branch == s.branch || strings.HasPrefix(s.branch, ev.Branch+".")
		if isAbove && !s.isCall && !slices.ContainsFunc(runs, func(r agentRun) bool { return r.id == s.id }) {
			t.endSubagent(s, nil)
		}
	}
	parent := ""
	for _, run := range runs {
		if !t.begun[run.id] {
			t.beginSubagent(&subagent{agentRun: run, branch: ev.Branch}, parent)
		}
		parent = run.id
	}
	t.owner = owner
	if isOther && step != "" {
		t.step = step
		t.sendEvent(&event{Type: stepStarted, StepName: step, SubagentRunID: owner})
	}
}

func (t *turn) endStep() {
	if t.step != "" {
		t.sendEvent(&event{Type: stepFinished, StepName: t.step, SubagentRunID: t.owner})
		t.step = ""
	}
}

// beginSubagent announces a subagent. Clients read descriptions of agents that the app offers only.
func (t *turn) beginSubagent(s *subagent, parent string) {
	from := t.spawns[s.run]
	if i := strings.LastIndex(s.branch, s.name+"@"); i >= 0 { // a task's branch has its call
		from = t.spawns[s.branch[i+len(s.name)+1:]]
	}
	if from.call == "" {
		from = t.spawns[s.name]
		delete(t.spawns, s.name)
	}
	ev := &event{Type: subagentStarted, SubagentRunID: s.id, Name: s.name, ParentSubagentRunID: parent, ParentToolCallID: from.call, ParentMessageID: from.message}
	if t.settings != nil && slices.Contains(t.settings.Agents, s.name) && t.app != nil {
		ev.Description = describeAgent(t.app, s.name)
	}
	t.sendEvent(ev)
	if t.begun == nil {
		t.begun = map[string]bool{}
	}
	t.begun[s.id] = true
	t.subagents = append(t.subagents, s)
}

// endSubagent ends a subagent that has not failed.
func (t *turn) endSubagent(s *subagent, end *outcome) {
	t.closeSubagent(s, &event{Type: subagentFinished, SubagentRunID: s.id, Outcome: end})
}

// closeSubagent sends a subagent's last event, after the end of its messages.
func (t *turn) closeSubagent(s *subagent, last *event) {
	for _, m := range slices.Clone(t.open) {
		if m.owner == s.id {
			t.endMessage(m)
		}
	}
	t.sendEvent(last)
	t.subagents = slices.DeleteFunc(t.subagents, func(other *subagent) bool { return other == s })
}

// addSpawn records a call that begins a subagent: a transfer by the agent's name, and a delegated task by the
// call's ID. An agent tool's subagent begins at once.
func (t *turn) addSpawn(ev *session.Event, c *genai.FunctionCall) {
	from := spawn{c.ID, ev.ID}
	if t.spawns == nil {
		t.spawns = map[string]spawn{}
	}
	t.spawns[c.ID] = from
	if name, ok := c.Args["agent_name"].(string); ok && c.Name == tool.TransferToAgent {
		t.spawns[name] = from
	}
	if t.isAgentTool(ev.Author, c.Name) {
		id := ev.InvocationID + "/" + c.ID
		if !t.begun[id] {
			t.beginSubagent(&subagent{agentRun: agentRun{id, c.Name, c.ID}, isCall: true}, t.owner)
		}
	}
}

// isAgentTool reports whether an agent's tool runs an agent in a session of its own.
func (t *turn) isAgentTool(agent, name string) bool {
	if t.app == nil || t.app.Agent(name) != nil {
		return false
	}
	if t.info == nil {
		t.info = t.app.AgentInfo()
	}
	own := t.info.Find(agent)
	return own != nil && slices.ContainsFunc(own.Tools, func(one runtime.ToolInfo) bool {
		return one.Agent != nil && one.Declaration != nil && one.Declaration.Name == name
	})
}

// endCall ends the subagent that a call has begun. The run continues also if the subagent has failed.
func (t *turn) endCall(f *genai.FunctionResponse) {
	for _, s := range slices.Clone(t.subagents) {
		if !s.isCall || s.run != f.ID {
			continue
		}
		if failure := f.Response["error"]; failure != nil && len(f.Response) == 1 {
			t.closeSubagent(s, &event{Type: subagentError, SubagentRunID: s.id, Message: describeFailure(failure)})
			continue
		}
		t.endSubagent(s, nil)
	}
}

// describeFailure returns the error in a call's result for a person. The protocol requires one.
func describeFailure(failure any) string {
	if text, ok := failure.(string); ok && text != "" {
		return text
	}
	text, err := server.EncodeJSON(failure)
	if err != nil {
		return "the agent failed"
	}
	return string(text)
}

// endSubagents ends all subagents at the end of the run. Those with calls that wait, and those above them,
// are suspended.
func (t *turn) endSubagents() {
	suspended := map[string][]string{}
	suspend := func(call, interrupt string) {
		runs := t.thread.listOwners(&t.lineage, call)
		for _, run := range runs {
			suspended[run.id] = slices.Clone(suspended[run.id])
		}
		if n := len(runs); n > 0 && interrupt != "" {
			suspended[runs[n-1].id] = append(suspended[runs[n-1].id], interrupt)
		}
	}
	for _, f := range t.thread.forms {
		suspend(f.Call.ID, f.Call.ID)
	}
	for _, c := range t.thread.calls {
		suspend(c.ID, "")
	}
	for _, s := range slices.Backward(slices.Clone(t.subagents)) {
		if ids, ok := suspended[s.id]; ok {
			t.endSubagent(s, &outcome{Type: "suspended", InterruptIDs: ids})
			continue
		}
		t.endSubagent(s, nil)
	}
}

func (t *turn) openMessage(id string) *openMessage {
	for _, m := range t.open {
		if m.event == id {
			return m
		}
	}
	m := &openMessage{event: id, owner: t.owner}
	t.open = append(t.open, m)
	return m
}

// addTexts adds to a message; either may be empty.
func (t *turn) addTexts(m *openMessage, text, thoughts string) {
	if thoughts != "" {
		id := thoughtsID(m.event)
		if !m.hasThoughts {
			m.hasThoughts = true
			t.sendEvent(&event{Type: reasoningStart, MessageID: id, SubagentRunID: m.owner})
			t.sendEvent(&event{Type: thoughtStart, MessageID: id, Role: roleReasoning, SubagentRunID: m.owner})
		}
		t.sendEvent(&event{Type: thoughtContent, MessageID: id, Delta: thoughts, SubagentRunID: m.owner})
	}
	if text == "" {
		return
	}
	t.endThoughts(m)
	if !m.hasText {
		m.hasText = true
		t.sendEvent(&event{Type: textStart, MessageID: m.event, Role: roleAssistant, Name: t.step, SubagentRunID: m.owner})
	}
	t.sendEvent(&event{Type: textContent, MessageID: m.event, Delta: text, SubagentRunID: m.owner})
}

func (t *turn) endThoughts(m *openMessage) {
	if m.hasThoughts {
		m.hasThoughts = false
		t.sendEvent(&event{Type: thoughtEnd, MessageID: thoughtsID(m.event), SubagentRunID: m.owner})
		t.sendEvent(&event{Type: reasoningEnd, MessageID: thoughtsID(m.event), SubagentRunID: m.owner})
	}
}

func (t *turn) endMessage(m *openMessage) {
	t.endThoughts(m)
	if m.hasText {
		t.sendEvent(&event{Type: textEnd, MessageID: m.event, SubagentRunID: m.owner})
	}
	t.open = slices.DeleteFunc(t.open, func(other *openMessage) bool { return other == m })
}

// readCalls writes an event's calls and results.
func (t *turn) readCalls(ev *session.Event) {
	for _, c := range ev.Calls() {
		if t.seen.requests[c.ID] {
			continue
		}
		t.sendEvent(&event{Type: toolStart, ToolCallID: c.ID, ToolCallName: c.Name, ParentMessageID: ev.ID, SubagentRunID: t.owner})
		t.sendEvent(&event{Type: toolArgs, ToolCallID: c.ID, Delta: string(encodeArgs(c)), SubagentRunID: t.owner})
		t.sendEvent(&event{Type: toolEnd, ToolCallID: c.ID, SubagentRunID: t.owner})
		t.addSpawn(ev, c)
	}
	for _, f := range ev.Responses() {
		if t.seen.isFinalResult(ev, f) {
			t.endCall(f)
			t.sendEvent(&event{Type: toolResult, MessageID: resultID(f.ID), ToolCallID: f.ID, Content: encodeResult(f.Response), Role: roleTool, SubagentRunID: t.owner})
		}
	}
}

// sendSignatures writes the signatures for what the client has of an event.
func (t *turn) sendSignatures(ev *session.Event, hasText, hasThoughts bool) {
	signed := readSignatures(ev)
	send := func(subtype, id, value string) {
		t.sendEvent(&event{Type: encryptedValue, Subtype: subtype, EntityID: id, EncryptedValue: value, SubagentRunID: t.owner})
	}
	if signed.thoughts != "" && hasThoughts {
		send("message", thoughtsID(ev.ID), signed.thoughts)
	}
	if signed.text != "" && hasText {
		send("message", ev.ID, signed.text)
	}
	for _, c := range ev.Calls() {
		if value := signed.calls[c.ID]; value != "" && !t.seen.requests[c.ID] {
			send("tool-call", c.ID, value)
		}
	}
}

func (t *turn) addUsage(ev *session.Event) {
	m := ev.UsageMetadata
	if m == nil {
		return
	}
	at := slices.IndexFunc(t.usage, func(u *usage) bool { return u.Model == ev.ModelVersion })
	if at < 0 {
		at = len(t.usage)
		t.usage = append(t.usage, &usage{Model: ev.ModelVersion})
	}
	u := t.usage[at]
	u.Input += int64(m.PromptTokenCount) + int64(m.ToolUsePromptTokenCount)
	u.Output += int64(m.CandidatesTokenCount) + int64(m.ThoughtsTokenCount)
	u.Reasoning += int64(m.ThoughtsTokenCount)
	u.Cached += int64(m.CachedContentTokenCount)
	u.Total = u.Input + u.Output
}

// endOpen ends all that is open.
func (t *turn) endOpen() {
	for _, m := range slices.Clone(t.open) {
		t.endMessage(m)
	}
	t.endStep()
}

// finishRun ends the run with the state, and with the calls that wait.
func (t *turn) finishRun(ctx context.Context) error {
	t.endOpen()
	if err := t.h.loadThread(ctx, t.thread); err != nil {
		return server.WithSessionKey(t.thread.key, err)
	}
	t.endSubagents()
	if t.hasRun {
		t.sendEvent(&event{Type: stateSnapshot, Snapshot: newClientState(t.thread.sess.State.All())})
	}
	end := &event{Type: runFinished, ThreadID: t.in.ThreadID, RunID: t.in.RunID, Outcome: &outcome{Type: "success"}, Usage: t.usage}
	for _, c := range t.thread.calls {
		end.Outcome.Pending = append(end.Outcome.Pending, c.ID)
	}
	for _, f := range t.thread.forms {
		end.Outcome.Type, end.Outcome.Pending = "interrupt", nil
		one := newInterrupt(f)
		one.SubagentRunID = t.thread.findOwner(&t.lineage, f)
		end.Outcome.Interrupts = append(end.Outcome.Interrupts, one)
	}
	if len(t.thread.forms) > 0 || !t.hasRun {
		t.sendEvent(&event{Type: messagesSnapshot, Messages: listMessages(t.thread.events, t.settings.Reasoning, &t.lineage)})
	}
	t.sendEvent(end)
	return t.flushEvents(true)
}

// failRun ends the run with an error: as the response, if nothing was sent, or as the last event.
func (t *turn) failRun(r *http.Request, stream *server.Stream, err error) error {
	if !stream.HasStarted() && len(t.in.Resume) == 0 {
		return err
	}
	failed := t.h.describeError(r, err)
	if !stream.HasStarted() && failed.Status != http.StatusBadRequest {
		return err
	}
	t.endOpen()
	t.sendEvent(&event{Type: runError, Message: failed.Detail, Code: failed.Code, Usage: t.usage})
	_ = t.flushEvents(false)
	return nil
}
