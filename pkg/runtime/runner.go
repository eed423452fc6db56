package runtime

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"

	"google.golang.org/genai"

	"agenthost/pkg/connection"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
)

// runInvocation runs an invocation in ADK's order (adk-python runners.py,
// classic path): store the user's event, choose the agent, then store each
// event before it is yielded.
func (room *runRoom) runInvocation(ctx context.Context, current *App, sess *session.Session, req *RunRequest) {
	h := room.run.host
	req = req.answerByText(current, sess).joinTask(current, sess)
	app, selected, err := h.acquireRevision(ctx, current, sess, req)
	if err != nil {
		room.deliverEvent(nil, err)
		return
	}
	room.counter.selected = selected
	defer app.refs.release()
	// The current revision's restrictions also apply to older revisions.
	if err := cmp.Or(current.CheckWriter(req.Writer, req.StateDelta), app.CheckWriter(req.Writer, req.StateDelta)); err != nil {
		room.deliverEvent(nil, err)
		return
	}
	room.initRun(app, sess, req)
	err = room.prepareRun(ctx, req)
	room.identifySpans(ctx)
	if s := room.output.span; s != nil {
		s.invocation = room.run.id
	}
	if err != nil {
		room.deliverEvent(nil, err)
		return
	}
	defer room.storeAbort(req.ClientLeft)
	if req.OnStart != nil {
		req.OnStart(room.run.id)
	}
	if app.compactor == nil && len(app.plugins) == 0 {
		room.root.onLastEvent = req.OnLastEvent
	}
	room.runWithPlugins(ctx)
	if app.compactor != nil && room.output.isComplete() && ctx.Err() == nil {
		compaction{&room.root}.compactAfter(ctx)
	}
}

// prepareRun starts a new invocation or resumes an earlier one, stores the
// user's event, and chooses the agent. It completes the run: later code only reads it.
func (room *runRoom) prepareRun(ctx context.Context, req *RunRequest) error {
	r, h := &room.run, room.run.host
	if r.agent != "" && r.findAnsweringAgent() == nil {
		return invalidRequest("agent %q cannot answer: it must be in the agent tree, and neither a workflow's node nor called as a tool", r.agent)
	}
	events := r.sess.Events()
	if req.InvocationID != "" || req.joined.invocation != "" || len(model.ResponsesOf(req.Message)) > 0 {
		if r.app.resumable && r.config.SessionWindow.storeOptions() != nil { // the run sees only the latest ones
			all, err := h.store.Sessions.Get(ctx, r.sess.Key, nil)
			if err != nil {
				return storeFailure(r.sess.Key, err)
			}
			events = all.Events()
		}
		r.calls = newCallIndex(events)
	}
	id, rec, err := r.resolveInvocation(req, events)
	if err != nil {
		return err
	}
	if rec != nil {
		r.id, r.record, r.taskScope = id, rec, req.joined.scope
		r.limits.budget.used.Store(int64(rec.countModelAnswers(r.app)))
		if req.Message == nil { // a message that answers a call has a limit of its own
			r.limits.budget.toolCalls = r.countToolCalls(rec.events)
		}
		if req.Message == nil {
			message := rec.users[0].Content
			if last := rec.users[len(rec.users)-1]; len(last.Responses()) > 0 || last.IsolationScope != "" {
				message = last.Content // it answers a call or belongs to a task
			}
			r.message = userMessage{message, model.TextOf(message), countTurns(r.sess.History)}
		}
	}
	if r.decisions, err = r.readDecisions(req); err != nil {
		return err
	}
	if err := h.finishConsents(ctx, r.decisions, connection.User{App: r.app.Name(), UserID: r.sess.User}, r.sess.ID); err != nil {
		return err
	}
	if req.Message != nil {
		r.message.content = r.decisions.withoutCodes(r.message.content)
		if r.message, err = r.storeUserMessage(ctx, req); err != nil {
			return storeFailure(r.sess.Key, err)
		}
	} else if r.decisions != nil && len(r.decisions.credentials) > 0 {
		r.sess.State.Apply(r.decisions.credentials) // temp: keys are not stored
	}
	return r.initRootInvocation(&room.root)
}

// initRun sets what is known about the run of a request with its session.
func (room *runRoom) initRun(app *App, sess *session.Session, req *RunRequest) {
	r, h := &room.run, room.run.host
	r.id, r.app, r.sess = h.newRunID(), app, sess
	r.config, r.onModelWait, r.protocol = req.effectiveConfig(app), req.OnModelWait, req.Protocol
	if s := room.output.span; s != nil {
		s.revision = app.revision
	}
	r.message.content, r.agent, r.clientLeft, r.clientTools = req.Message, req.Agent, req.ClientLeft, req.Tools
	if req.Streaming != nil {
		r.config.StreamingMode = StreamingNone
		if *req.Streaming {
			r.config.StreamingMode = StreamingSSE
		}
	}
	if r.config.StreamingMode == StreamingBidi {
		r.config.StreamingMode = StreamingSSE
	}
	if len(req.CustomMetadata) > 0 {
		r.config.CustomMetadata = mergeMaps(r.config.CustomMetadata, req.CustomMetadata)
	}
	r.config.CustomMetadata = withoutEditedCalls(session.PublicMetadata(r.config.CustomMetadata))
	room.budget.setLimits(&r.config)
	room.budget.toolLimit = req.MaxToolCalls
	h.setExpressionLimits(&room.expressions)
	r.limits.budget, r.limits.counter, r.limits.expressions = &room.budget, &room.counter, &room.expressions
	if m := req.Message; m != nil && m.Role == "" {
		r.message.content = &genai.Content{Role: genai.RoleUser, Parts: m.Parts}
	}
}

// newExpressionBudget returns a turn's expression budget.
func (h *Host) newExpressionBudget() *template.Budget {
	b := &template.Budget{}
	h.setExpressionLimits(b)
	return b
}

func (h *Host) setExpressionLimits(b *template.Budget) {
	b.SetLimits(template.DefaultBudgetMemory, template.DefaultBudgetTime)
	b.WithSlots(h.evaluations)
}

// storeUserMessage stores the user's event, and returns the message as plugins and saved files leave
// it.
func (r *run) storeUserMessage(ctx context.Context, req *RunRequest) (m userMessage, err error) {
	ev := &session.Event{
		ID: r.host.newID(), InvocationID: r.id, Author: session.UserAuthor,
		IsolationScope: r.findMessageScope(), Timestamp: r.host.now(),
	}
	if call := r.findAnsweredCall(); call != nil {
		ev.Branch = call.Branch
	}
	ev.Content = r.message.content
	ev.Actions.StateDelta = r.decisions.withCredentials(req.StateDelta)
	if len(r.app.plugins) > 0 {
		if err := r.runOnUserMessage(ctx, ev); err != nil {
			return m, err
		}
	}
	if r.config.SaveInputBlobsAsArtifacts {
		if err := r.saveBlobs(ctx, ev); err != nil {
			return m, err
		}
	}
	if err := r.storeEvent(ctx, ev); err != nil {
		return m, err
	}
	r.calls.addEvent(ev)
	return userMessage{ev.Content, model.TextOf(ev.Content), countTurns(r.sess.History)}, nil
}

// runOnUserMessage lets the plugins replace the user's message.
func (r *run) runOnUserMessage(ctx context.Context, ev *session.Event) error {
	// The request owns the delta.
	ev.Actions.StateDelta = maps.Clone(ev.Actions.StateDelta)
	m := (&Invocation{run: r, node: r.app.rootNode}).newCallbackContext(&ev.Actions)
	content, err := askPlugins(ctx, m.Invocation, "on_user_message", func(p *Plugin) func() (*genai.Content, error) {
		if p.OnUserMessage == nil {
			return nil
		}
		return func() (*genai.Content, error) { return p.OnUserMessage(ctx, m, ev.Content) }
	})
	if err != nil || content == nil {
		return err
	}
	if len(content.Parts) == 0 || len(model.CallsOf(content)) > 0 {
		return failf(CodeCallbackFailed, nil, "on_user_message of a plugin returned a message without parts, or with a function call")
	}
	ev.Content = content
	return nil
}

// saveBlobs saves the files in the user's message as artifacts, and replaces them by text.
func (r *run) saveBlobs(ctx context.Context, ev *session.Event) error {
	parts := make([]*genai.Part, len(ev.Content.Parts))
	for i, p := range ev.Content.Parts {
		parts[i] = p
		if p.InlineData == nil {
			continue
		}
		name := fmt.Sprintf("artifact_%s_%d", r.id, i)
		version, err := r.host.store.Artifacts.Save(ctx, r.sess.Key, name, p)
		if err != nil {
			return fmt.Errorf("saving file %d of the message: %w", i, err)
		}
		ev.Actions.SetArtifact(name, version)
		parts[i] = &genai.Part{Text: "Uploaded file: " + name + ". It is saved into artifacts"}
	}
	ev.Content = &genai.Content{Role: ev.Content.Role, Parts: parts}
	return nil
}

// runWithPlugins runs the root agent with the app's plugins.
func (room *runRoom) runWithPlugins(ctx context.Context) {
	r, inv := &room.run, &room.root
	if len(r.app.plugins) == 0 {
		inv.runAgent(ctx, room.commitThenYield)
		return
	}
	r.runAgentWithPlugins(ctx, inv, room.commitThenYield)
	if room.output.isComplete() {
		if err := r.runAfterRun(ctx, inv, true); err != nil {
			room.deliverEvent(nil, err)
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterRunTimeout)
	defer cancel()
	if failure := room.output.failure; failure != nil {
		inv.reportFailure(ctx, "on_run_error", failure, func(p *Plugin) errorObserver { return p.OnRunError })
	}
	if err := r.runAfterRun(ctx, inv, false); err != nil {
		r.logger().WarnContext(ctx, "after_run failed", "error", err)
	}
}

// runAfterRun calls the plugins after a run. It is completed if it ended without an error, and its
// consumer did not stop it.
func (r *run) runAfterRun(ctx context.Context, inv *Invocation, completed bool) error {
	_, err := askPlugins(ctx, inv, "after_run", func(p *Plugin) func() (*struct{}, error) {
		if p.afterCompleted != nil && completed {
			return func() (*struct{}, error) { p.afterCompleted(ctx, inv); return nil, nil }
		}
		if p.AfterRun == nil {
			return nil
		}
		return func() (*struct{}, error) { return nil, p.AfterRun(ctx, inv) }
	})
	return err
}

// runAgentWithPlugins yields the agent's events as the plugins return them, or one plugin's event
// instead. It returns whether the run continues.
func (r *run) runAgentWithPlugins(ctx context.Context, inv *Invocation, yield func(*session.Event, error) bool) bool {
	hookInv := inv.atHook(hookPathBeforeRun)
	if inv.frame != nil && len(inv.hookEvents(hookPathBeforeRun)) > 0 {
		return true
	}
	content, err := askPlugins(ctx, inv, "before_run", func(p *Plugin) func() (*genai.Content, error) {
		if p.BeforeRun == nil {
			return nil
		}
		return func() (*genai.Content, error) { return p.BeforeRun(ctx, inv) }
	})
	if err != nil {
		yield(nil, err)
		return false
	}
	if content != nil {
		ev := hookInv.NewEvent()
		ev.Author, ev.Content = genai.RoleModel, content
		ev, err = r.runOnEvent(ctx, inv, ev)
		return yield(ev, err) && err == nil
	}
	return inv.runAgent(ctx, func(ev *session.Event, err error) bool {
		if err == nil {
			ev, err = r.runOnEvent(ctx, inv, ev)
		}
		return yield(ev, err) && err == nil
	})
}

// runOnEvent lets the plugins replace an event.
func (r *run) runOnEvent(ctx context.Context, inv *Invocation, ev *session.Event) (*session.Event, error) {
	replaced, err := askPlugins(ctx, inv, "on_event", func(p *Plugin) func() (*session.Event, error) {
		if p.OnEvent == nil {
			return nil
		}
		return func() (*session.Event, error) { return p.OnEvent(ctx, inv, ev) }
	})
	if err != nil || replaced == nil {
		return ev, err
	}
	merged := *ev
	overlayFields(reflect.ValueOf(&merged).Elem(), reflect.ValueOf(replaced).Elem())
	merged.ID, merged.InvocationID, merged.Timestamp, merged.Seq = ev.ID, ev.InvocationID, ev.Timestamp, ev.Seq
	return &merged, nil
}

// overlayFields copies a struct's non-zero fields.
func overlayFields(to, from reflect.Value) {
	for i := range from.NumField() {
		switch f := from.Field(i); {
		case from.Type().Field(i).Anonymous:
			overlayFields(to.Field(i), f)
		case !f.IsZero():
			to.Field(i).Set(f)
		}
	}
}

// askPlugins calls one function in each plugin until one returns an answer. of returns nil for a
// plugin without the function.
func askPlugins[A any](ctx context.Context, inv *Invocation, hook string, of func(*Plugin) func() (*A, error)) (*A, error) {
	for _, p := range inv.run.app.plugins {
		fn := of(p)
		if fn == nil {
			continue
		}
		one := []ownedCallback[func() (*A, error)]{{"plugin " + p.Name, fn}}
		answer, err := firstAnswer(ctx, inv, hook, one, func(f func() (*A, error)) (*A, error) { return f() })
		if err != nil {
			hookErr, _ := asHookError(err)
			return nil, hookErr
		}
		if answer != nil {
			return answer, nil
		}
	}
	return nil, nil
}
