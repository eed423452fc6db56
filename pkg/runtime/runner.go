package runtime

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
)

// runInvocation runs an invocation in ADK's order (adk-python runners.py,
// classic path): store the user's event, choose the agent, then store each
// event before it is yielded.
func (h *Host) runInvocation(ctx context.Context, app *App, sess *session.Session, req *RunRequest, yield func(*session.Event, error) bool) {
	current := app
	app, err := h.acquireRevision(ctx, app, sess, req)
	if err != nil {
		yield(nil, err)
		return
	}
	defer app.refs.release()
	// The current revision's restrictions also apply to older revisions.
	if err := cmp.Or(current.CheckWriter(req.Writer, req.StateDelta), app.CheckWriter(req.Writer, req.StateDelta)); err != nil {
		yield(nil, err)
		return
	}
	r := h.newRun(app, sess, req)
	r.commit = func(ctx context.Context, ev *session.Event) error {
		return h.store.Sessions.Append(ctx, sess, ev)
	}
	inv, err := h.prepareRun(ctx, r, req)
	spanFromContext(ctx).setRevision(r)
	if err != nil {
		yield(nil, err)
		return
	}
	if app.compactor != nil {
		inv.runAndCompact(ctx, yield)
		return
	}
	if r.onLastEvent = req.OnLastEvent; r.onLastEvent != nil {
		inv.endsRun = len(app.plugins) == 0
	}
	r.runWithPlugins(ctx, inv, yield)
}

// prepareRun starts a new invocation or resumes an earlier one, stores the
// user's event, and chooses the agent.
func (h *Host) prepareRun(ctx context.Context, r *run, req *RunRequest) (*Invocation, error) {
	events, err := h.loadHistory(ctx, r, req)
	if err == nil {
		err = r.resolveInvocation(req, events)
	}
	if err != nil {
		return nil, err
	}
	if err := r.readDecisions(req, events); err != nil {
		return nil, err
	}
	if req.Message == nil {
		r.restoreCredentials()
	} else if err := r.storeUserMessage(ctx, req); err != nil {
		return nil, storeFailure(r.sess.Key, err)
	}
	return r.newRootInvocation()
}

// loadHistory returns all events of the session if an invocation may be
// resumed, even if runs of the app see only the latest ones.
func (h *Host) loadHistory(ctx context.Context, r *run, req *RunRequest) ([]*session.Event, error) {
	answers := len(model.ResponsesOf(r.user)) > 0
	if !r.app.Resumable || r.config.SessionWindow.storeOptions() == nil || req.InvocationID == "" && !answers {
		return r.sess.Events(), nil
	}
	whole, err := h.store.Sessions.Get(ctx, r.sess.Key, nil)
	if err != nil {
		return nil, storeFailure(r.sess.Key, err)
	}
	return whole.Events(), nil
}

func checkMessage(c *genai.Content) error {
	if c == nil || len(c.Parts) == 0 {
		return failf(CodeInvalidRequest, session.ErrInvalid, "No parts in the new_message.")
	}
	switch c.Role {
	case "", genai.RoleUser, "function", "tool": // the roles that current and old clients send
	default:
		return failf(CodeInvalidRequest, session.ErrInvalid, "the role of the new message must be user, got %q", c.Role)
	}
	if len(model.CallsOf(c)) > 0 {
		return failf(CodeInvalidRequest, session.ErrInvalid, "the new message must not contain a function call")
	}
	return nil
}

func (h *Host) newRun(app *App, sess *session.Session, req *RunRequest) *run {
	r := &run{id: "e-" + h.newID(), host: h, app: app, sess: sess, config: req.effectiveConfig(app)}
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
	r.budget = &callBudget{limit: r.config.MaxLLMCalls}
	r.expressions = template.NewBudget(template.DefaultBudgetMemory, template.DefaultBudgetTime).WithSlots(h.evaluations)
	r.state = r.lookupState
	r.user = req.Message
	if r.user != nil && r.user.Role == "" {
		r.user = &genai.Content{Role: genai.RoleUser, Parts: r.user.Parts}
	}
	return r
}

// storeUserMessage stores the user's event.
func (r *run) storeUserMessage(ctx context.Context, req *RunRequest) error {
	ev := &session.Event{
		ID: r.host.newID(), InvocationID: r.id, Author: session.UserAuthor,
		Branch: r.findAnsweredBranch(), Timestamp: r.host.now(),
	}
	ev.Actions.StateDelta = r.decisions.withCredentials(req.StateDelta)
	if err := r.runOnUserMessage(ctx, ev); err != nil {
		return err
	}
	if r.config.SaveInputBlobsAsArtifacts {
		if err := r.saveBlobs(ctx, ev); err != nil {
			return err
		}
	}
	ev.Content = r.user
	r.userText = model.TextOf(r.user)
	if err := r.storeEvent(ctx, ev); err != nil {
		return err
	}
	r.turn = countTurns(r.sess.History)
	if r.record != nil {
		r.record.users = append(r.record.users, ev)
	}
	return nil
}

// saveBlobs saves the files of the user's message as artifacts, and replaces
// them by text.
func (r *run) saveBlobs(ctx context.Context, ev *session.Event) error {
	parts := make([]*genai.Part, len(r.user.Parts))
	for i, p := range r.user.Parts {
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
	r.user = &genai.Content{Role: r.user.Role, Parts: parts}
	return nil
}

// stampMetadata adds the run's metadata and the app's revision to an event.
// The event's own metadata takes precedence.
func (r *run) stampMetadata(ev *session.Event) {
	ev.Provenance.Revision = r.app.Revision
	if given := r.config.CustomMetadata; len(ev.CustomMetadata) == 0 {
		ev.CustomMetadata = given // events share it: no one changes the map of an event
	} else if len(given) > 0 {
		ev.CustomMetadata = mergeMaps(given, ev.CustomMetadata)
	}
}

// mergeMaps returns a map with the entries of both; those of b take
// precedence.
func mergeMaps(a, b map[string]any) map[string]any {
	merged := make(map[string]any, len(a)+len(b))
	maps.Copy(merged, a)
	maps.Copy(merged, b)
	return merged
}

// storeEvent commits one event. Partial events are not stored.
func (r *run) storeEvent(ctx context.Context, ev *session.Event) error {
	r.stampMetadata(ev)
	if ev.Partial {
		return nil
	}
	// Writes of tools and answers are checked earlier; this check is for
	// callbacks and agents written in Go.
	if ev.Author != session.UserAuthor {
		if err := r.app.state.CheckDelta(ev.Actions.StateDelta); err != nil {
			return fmt.Errorf("%w: %w", err, session.ErrInvalid)
		}
		for i, u := range ev.Actions.StateUpdates {
			ev.Actions.StateUpdates[i] = r.typeStateUpdate(u)
		}
	}
	return r.commit(ctx, ev)
}

// commitThenYield wraps yield: each event is stored before it is yielded, and
// the agent continues after that.
func (r *run) commitThenYield(ctx context.Context, yield func(*session.Event, error) bool) func(*session.Event, error) bool {
	return func(ev *session.Event, err error) bool {
		if err == nil {
			if err = r.storeEvent(ctx, ev); err != nil {
				err = eventFailure(r.sess.Key, ev.Author, err)
			}
		}
		if err != nil {
			yield(nil, err)
			return false
		}
		return yield(ev, nil)
	}
}

type turnsKey struct{}

type turnCount struct{ seen, turns int }

// countTurns returns the number of user messages in a history, without answers
// to function calls. It reads each event once.
func countTurns(h *session.History) int {
	if events := h.Events(); len(events) <= shortHistory {
		return turnCount{}.countEvents(events).turns
	}
	v := h.Derive(turnsKey{}, func(last any, events []*session.Event) (any, int64) {
		c, _ := last.(turnCount)
		return c.countEvents(events), pointerBytes
	})
	return v.(turnCount).turns
}

func (c turnCount) countEvents(events []*session.Event) turnCount {
	for _, ev := range events[c.seen:] {
		if ev.Author == session.UserAuthor && ev.Content != nil && len(ev.Responses()) == 0 {
			c.turns++
		}
	}
	c.seen = len(events)
	return c
}
