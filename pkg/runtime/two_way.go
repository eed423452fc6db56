package runtime

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// A two-way run has no message that starts it: the user and the model send whenever they like. The
// runtime has no connections. It holds the session, runs the agent tree with its callbacks, plugins
// and spans, and gives each LLM agent a [TwoWayTurn] with which the driver, such as
// agenthost/wing/live, stores inputs and answers and calls tools. These always hold:
//   - one goroutine, the one that the driver's function runs on, uses the turn, except for methods that are
//     documented as safe for concurrent use;
//   - an event is stored before it is yielded, and the user's input is stored only;
//   - after the consumer has stopped, or after an error, nothing is yielded any more.

// twoWaySessionWait is how long a two-way run waits for another run in its session: long enough for
// a client that reconnects, whose former run is about to end.
const twoWaySessionWait = 2 * time.Second

// RunTwoWay runs one invocation in which the user and the model can send at any time. It calls
// drive for each LLM agent that holds the conversation: the agent that continues the session, a
// SequentialAgent's members one after the other, and the agents to which one transfers. drive
// returns when its agent's part is over.
//
// The request has neither a message nor a state delta nor an invocation: [TwoWayTurn.Inject] stores
// what the user sends. The run holds the session until it ends, so that another one fails with
// [CodeSessionBusy]. Events are yielded as by [Host.Run]: stored first, except for partial events
// and for audio, video and images from the model, which are not stored.
func (h *Host) RunTwoWay(ctx context.Context, req *RunRequest, drive func(ctx context.Context, t *TwoWayTurn)) Events {
	driven := *req
	driven.drive = drive
	return h.Run(ctx, &driven)
}

// runTwoWay runs the agent that continues the session, on the app's revision for the session,
// which it holds until the end.
func (room *runRoom) runTwoWay(ctx context.Context, current *App, sess *session.Session, req *RunRequest) {
	app, selected, err := room.host.acquireRevision(ctx, current, sess, req)
	if err != nil {
		room.deliverEvent(nil, err)
		return
	}
	room.counter.selected = selected
	defer app.refs.release()
	room.initRun(app, sess, req)
	r := &room.run
	if modalities := r.config.ResponseModalities; len(modalities) > 1 {
		room.deliverEvent(nil, invalidRequest("a live model answers in one modality, got %s", strings.Join(modalities, ", ")))
		return
	}
	r.message.content = &genai.Content{Role: genai.RoleUser}
	r.twoWay = &twoWayRun{drive: req.drive}
	r.twoWay.input.Store(&userInput{turn: countTurns(sess.History), expressions: r.limits.expressions})
	r.identifySpans(ctx)
	r.initTurnInvocation(&room.root)
	room.runWithPlugins(ctx)
}

// runTwoWayBody runs an agent of a two-way run, without its callbacks. Only LLM agents, and
// sequences of them, can hold a conversation.
func (inv *Invocation) runTwoWayBody(ctx context.Context, yield func(*session.Event, error) bool) bool {
	run := inv.run.twoWay
	switch a := inv.node.agent.(type) {
	case *LLMAgent:
		if run.over {
			return true
		}
		t := &TwoWayTurn{Invocation: inv, Continues: run.continues, step: step{callRunner: callRunner{inv: inv, agent: a}}}
		t.step.sink = func(ev *session.Event, err error) bool {
			t.done = t.done || !yield(ev, err) || err != nil
			return !t.done
		}
		run.continues = false
		run.drive(ctx, t)
		return !t.done
	case *SequentialAgent:
		for i := range a.Children { // each ends when its model reports that its part is complete
			if run.over {
				return true
			}
			if !inv.childInvocation(i, 1).runAgent(ctx, yield) {
				return false
			}
			run.continues = true
		}
		return true
	}
	yield(nil, failf(CodeLiveUnsupported, nil, "agent %s cannot hold a live conversation: only LlmAgent and SequentialAgent can", inv.node.agent.Name()))
	return false
}

// A TwoWayTurn is one LLM agent's part in a two-way run. It is valid until the driver's function
// returns.
type TwoWayTurn struct {
	*Invocation
	// Continues reports that the agent continues another agent's conversation: its model speaks
	// first.
	Continues bool
	// Intercept, if set, may answer a call in a [CallBatch] instead of its tool, after callbacks
	// and approval. It returns nil to call the tool. It is called concurrently.
	Intercept func(ctx context.Context, t tool.Tool, call *tool.Call) *tool.Result

	step step
	// done reports that nothing can be yielded any more. The driver calls many methods after
	// each other, so the turn keeps what a step would return.
	done bool
}

// applyOutcome yields an outcome's error, and returns whether the run continues.
func (t *TwoWayTurn) applyOutcome(o outcome) bool {
	if o.kind == outcomeFailed {
		t.step.emitEvent(nil, o.err)
	}
	return !t.done
}

// AgentModel returns the agent's own or inherited model.
func (t *TwoWayTurn) AgentModel() model.LLM { return t.node.llm }

// RunLogger returns the run's logger. It is safe for concurrent use.
func (t *TwoWayTurn) RunLogger() *slog.Logger { return t.run.logger() }

// ReadClock returns the time on the host clock.
func (t *TwoWayTurn) ReadClock() time.Time { return t.run.host.now() }

// RequestOrigin returns what identifies the agent and the user to models.
func (t *TwoWayTurn) RequestOrigin() model.Origin { return t.requestOrigin() }

// InSequence reports whether another agent continues after this one.
func (t *TwoWayTurn) InSequence() bool {
	if t.node.parent == nil {
		return false
	}
	_, ok := t.node.parent.agent.(*SequentialAgent)
	return ok
}

// HasEnded reports whether a tool or callback has ended the agent: see
// [Invocation.EndInvocation].
func (t *TwoWayTurn) HasEnded() bool { return t.hasEnded() }

// IsDone reports whether nothing can be yielded any more: the run has failed, or its consumer has
// stopped.
func (t *TwoWayTurn) IsDone() bool { return t.done }

// EndRun prevents that another agent starts after this one.
func (t *TwoWayTurn) EndRun() { t.run.twoWay.over = true }

// CheckTransfer returns why the agent cannot transfer to an agent with this name, or nil.
func (t *TwoWayTurn) CheckTransfer(name string) error {
	_, err := t.node.findTransferTarget(name)
	return err
}

// TransferTo runs another agent, which continues the conversation. The driver's function returns
// afterwards.
func (t *TwoWayTurn) TransferTo(ctx context.Context, name string) {
	t.run.twoWay.continues = true
	t.applyOutcome(t.step.transferTo(ctx, name))
}

// LoadTools lists the tools in the agent's toolsets.
func (t *TwoWayTurn) LoadTools(ctx context.Context) error { return t.loadToolsets(ctx) }

// ListTools returns the agent's tools in order. It is safe for concurrent use once the tools are
// loaded and added.
func (t *TwoWayTurn) ListTools() []tool.Tool { return t.activeToolbox().listTools() }

// FindTool returns one of the agent's tools, or nil. It is safe for concurrent use like ListTools.
func (t *TwoWayTurn) FindTool(name string) tool.Tool { return t.activeToolbox().byName[name] }

// AddTool adds a tool to the agent, in this run only.
func (t *TwoWayTurn) AddTool(added tool.Tool) {
	t.toolbox = t.step.agent.buildToolbox(append(slices.Clip(t.ListTools()), added))
}

// LacksStopStreaming reports that the agent is not given the tool that stops streams:
// [LLMOptions].WithoutStopStreaming.
func (t *TwoWayTurn) LacksStopStreaming() bool { return t.step.agent.opts.WithoutStopStreaming }

// BuildRequest builds the request that begins a conversation with the agent's model, with the
// session history: edit changes it before tools and BeforeModel callbacks do. A callback's answer
// replaces the conversation; nil without one.
func (t *TwoWayTurn) BuildRequest(ctx context.Context, edit func(*model.Request)) (req *model.Request, answer *model.Response, err error) {
	req, userContents, err := t.prepareRequest(ctx, t.step.agent)
	if err != nil {
		return nil, nil, err
	}
	contents, err := t.buildContents(t.step.agent.opts.IncludeContents)
	if err != nil {
		return nil, nil, err
	}
	req.Contents = insertBeforeUserTail(contents, userContents)
	if t.toolbox != nil {
		config := *req.Config
		config.Tools = t.toolbox.declared // the request may be one that runs share
		req.Config = &config
	}
	edit(req)
	if err := t.applyRequestEditors(ctx, req); err != nil {
		return nil, nil, err
	}
	if t.node.hooks != nil {
		if answer, err = t.runBeforeModel(ctx, t.step.modelCallbackContext(), req); err != nil {
			hookErr, _ := asHookError(err)
			return nil, nil, hookErr
		}
	}
	return req, answer, nil
}

// NewAnswer returns the event for a model response, with callback writes if it is not partial. The
// author of the user's speech is the user. Calls without an ID get one.
func (t *TwoWayTurn) NewAnswer(response *model.Response) *session.Event {
	ev := t.NewEvent()
	ev.Response = *response
	if response.InputTranscription != nil || response.Content != nil && response.Content.Role == session.UserAuthor {
		ev.Author = session.UserAuthor
	}
	if !ev.Partial {
		t.step.attachCallbackActions(ev)
	}
	if len(ev.Calls()) > 0 {
		ev.Content = t.step.assignCallIDs(ev.Content)
	}
	return ev
}

// SetInput sets the user's latest text or transcript, which templates, expressions and tools read.
// Expressions have a new budget.
func (t *TwoWayTurn) SetInput(text string) {
	input := &t.run.twoWay.input
	input.Store(&userInput{text, input.Load().turn + 1, t.run.host.newExpressionBudget()})
}

// Inject stores what the user sends: a content, a state delta or both. It is not yielded, and no
// plugin sees it.
func (t *TwoWayTurn) Inject(ctx context.Context, content *genai.Content, delta map[string]any) error {
	ev := &session.Event{
		ID: t.run.host.newID(), InvocationID: t.run.id, Author: session.UserAuthor, Timestamp: t.run.host.now(),
	}
	ev.Content, ev.Actions.StateDelta = content, maps.Clone(delta)
	t.run.countEvent(ev)
	ev.Provenance.Revision = t.run.app.revision
	if err := t.run.commitEvent(ctx, ev); err != nil {
		return storeFailure(t.run.sess.Key, err)
	}
	return nil
}

// Commit stores an event and yields it. It returns whether the run continues.
func (t *TwoWayTurn) Commit(ev *session.Event) bool { return t.step.emitEvent(ev, nil) }

// CommitAnswer does the same for a model event: its output is stored under the agent's output key.
// An answer that does not match the output schema is stored and ends the run.
func (t *TwoWayTurn) CommitAnswer(ctx context.Context, ev *session.Event) bool {
	return t.applyOutcome(t.step.emitAnswer(ctx, ev))
}

// CommitResults does the same for call results, and the requests for confirmations and credentials
// that belong to them.
func (t *TwoWayTurn) CommitResults(answer *session.Event, calls []*genai.FunctionCall) bool {
	_, ok := t.step.emitResults(answer, calls)
	return ok
}

// CommitOutput does the same for the agent's structured answer, if the call results have one.
func (t *TwoWayTurn) CommitOutput(ctx context.Context, answer *session.Event) bool {
	_, o := t.step.emitStructuredOutput(ctx, answer)
	return t.applyOutcome(o)
}

// StoreEvent stores an event that is not yielded.
func (t *TwoWayTurn) StoreEvent(ctx context.Context, ev *session.Event) error {
	return t.run.storeEvent(ctx, ev)
}

// Fail ends the run with an error.
func (t *TwoWayTurn) Fail(err error) { t.step.emitEvent(nil, err) }

// AddCost adds the cost of a response to the cost of the run, and fails when the limit is reached.
func (t *TwoWayTurn) AddCost(response *model.Response) error {
	return t.run.limits.budget.addCost(response)
}

// OpenArtifacts returns the session's artifacts. Versions that are saved are added to the actions.
func (t *TwoWayTurn) OpenArtifacts(actions *session.Actions) tool.Artifacts {
	return &callArtifacts{store: t.run.host.store.Artifacts, key: t.run.sess.Key, actions: actions}
}

// ReportMeasurement reports an app measurement.
func (t *TwoWayTurn) ReportMeasurement(m Measurement) {
	if observe := t.run.host.observe; observe != nil {
		m.App, m.Revision = t.run.app.name, t.run.app.revision
		observe(m)
	}
}

// StartSpan starts a client span inside the agent span. It is nil if the run is not traced.
// Attributes that are empty strings are left out.
func (t *TwoWayTurn) StartSpan(ctx context.Context, name string, start time.Time, own ...attribute.KeyValue) trace.Span {
	h := t.run.host
	if h.tracer == nil {
		return nil
	}
	_, span := h.startSpan(ctx, name, trace.SpanKindClient, start, t.run.spanAttributes(own...))
	return span
}

// EndSpan ends a span, which may be nil. The code is empty if what it measured has not failed; the message
// may hold contents, and is recorded only if contents are traced.
func (t *TwoWayTurn) EndSpan(span trace.Span, end time.Time, code, message string) {
	t.run.host.setSpanError(span, code, message)
	t.run.host.endSpan(span, end)
}
