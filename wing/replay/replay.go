package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/safe"
	"agenthost/internal/toolhttp"
	"agenthost/internal/turn"
	"agenthost/pkg/loader"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

const (
	// workers is how many sessions are replayed at the same time.
	workers = 2
	// maxTurns is how many turns a session replays, the latest ones.
	maxTurns = 100
	// maxBaselines is how many revisions are built to compare with.
	maxBaselines = 16
)

// A Request is a replay.
type Request struct {
	// Loader builds the app as for serving; the replay isolates it.
	Loader *loader.Loader
	// Dir is the app's folder.
	Dir   string
	Store *store.Store
	// Adjust, if set, changes the rules in app.yaml.
	Adjust func(*Rules)
	// Session is the only session; nil chooses by the rules.
	Session *session.Key
	// Live calls the models; nil answers from the record.
	Live *Live
	// Now is the time for Rules.Since.
	Now time.Time
	// OnProgress, if set, is called after each session, on several goroutines but not concurrently.
	OnProgress func(done, total int)
}

// PlaySessions replays sessions on an app's files. It returns nil and the problems if the app cannot be built.
func PlaySessions(ctx context.Context, req *Request) (*Report, spec.Diagnostics, error) {
	r, ds, err := openReplay(ctx, req)
	if r == nil {
		return nil, ds, err
	}
	defer r.closeApps()
	chosen := &cohort{examined: 1}
	if req.Session != nil {
		chosen.keys = []session.Key{*req.Session}
	} else {
		var err error
		if chosen, err = chooseSessions(ctx, req.Store, r.app, r.rules, req.Now); err != nil {
			return nil, nil, err
		}
	}
	report := newReport(r.app, r.draft.app.Revision(), chosen)
	if err := r.playSessions(ctx, chosen.keys, report); err != nil {
		return nil, nil, err
	}
	report.sortDifferences()
	if r.meter != nil {
		if err := r.meter.checkMeasured(); err != nil {
			return nil, nil, err
		}
		report.Live, report.Calls, report.USD = true, r.meter.calls, r.meter.spent
	}
	return report, nil, nil
}

// replay is one run of a replay.
type replay struct {
	*Request
	app      string
	rules    *Rules
	isolated *loader.Loader
	draft    *player
	lines    *lineFinder
	// meter is nil without live models.
	meter *meter

	mu        sync.Mutex
	baselines map[string]*baseline
}

// A baseline is a revision that answered sessions; its player is nil if it cannot be built.
type baseline struct {
	once   sync.Once
	player *player
	rev    *store.Revision
}

// openReplay builds the app from the files.
func openReplay(ctx context.Context, req *Request) (*replay, spec.Diagnostics, error) {
	r := &replay{Request: req, baselines: map[string]*baseline{}}
	blocked, tools := &http.Client{Transport: toolhttp.Blocked{Who: "replays"}}, &toolPlayer{}
	if live := req.Live; live != nil {
		r.meter, tools.granted = newMeter(live.MaxUSD), live.Tools
		r.isolated = live.isolateLive(req.Loader, r.meter, blocked)
	} else {
		r.isolated = req.Loader.Isolate(recordedModel{}, blocked)
	}
	var unpriced []string
	app, ds := r.isolated.Inspect(ctx, req.Dir, func(ctx context.Context, in *loader.Inspection) {
		tools.session, unpriced = in.SessionTools(), in.UnpricedModels(ctx)
	})
	if app == nil {
		return nil, ds, nil
	}
	if req.Live != nil && len(unpriced) > 0 {
		app.Close()
		return nil, nil, &UnpricedError{unpriced}
	}
	loaded, more := r.isolated.LoadFiles(ctx, req.Dir)
	if loaded == nil {
		app.Close()
		return nil, more, nil
	}
	loaded.App.Close()
	rules := *rulesOf(app.Section(sectionKey))
	if req.Adjust != nil {
		req.Adjust(&rules)
	}
	r.app, r.rules = app.Name(), &rules
	r.draft = &player{app: app, tools: tools, rules: r.rules, timeout: turnTimeout}
	if req.Live != nil {
		r.draft.timeout = liveTurnTimeout
	}
	r.lines = &lineFinder{loader: r.isolated, draft: &store.Revision{App: r.app, ID: app.Revision(), Files: loaded.Files}, found: map[string]string{}}
	return r, nil, nil
}

func (r *replay) closeApps() {
	r.draft.app.Close()
	for _, b := range r.baselines {
		if b.player != nil && b.player != r.draft {
			b.player.app.Close()
		}
	}
}

// findBaseline returns the revision that answered a turn. Its player is nil if it is not stored, or
// cannot be built any more.
func (r *replay) findBaseline(ctx context.Context, revision string) *baseline {
	r.mu.Lock()
	b := r.baselines[revision]
	if b == nil {
		b = &baseline{}
		if len(r.baselines) == maxBaselines {
			r.mu.Unlock()
			return b
		}
		r.baselines[revision] = b
	}
	r.mu.Unlock()
	b.once.Do(func() {
		if revision == r.draft.app.Revision() {
			b.player = r.draft
			return
		}
		rev, err := r.Store.Revisions.Get(ctx, r.app, revision)
		if err != nil {
			return
		}
		app, err := r.isolated.LoadRevision(ctx, rev, r.Dir)
		if err != nil {
			return
		}
		b.rev, b.player = rev, &player{app: app, tools: r.draft.tools, rules: r.rules, timeout: r.draft.timeout}
	})
	return b
}

// playSessions replays sessions, and adds what they show to the report.
func (r *replay) playSessions(ctx context.Context, keys []session.Key, report *Report) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	next := make(chan session.Key)
	done := 0
	for range workers {
		wg.Go(func() {
			defer safe.Recover(func(p *safe.Panic) { cancel(fmt.Errorf("the replay panicked, which is a bug in agenthost: %s", p)) })
			for key := range next {
				found, err := r.playSession(ctx, key)
				r.mu.Lock()
				if err != nil {
					cancel(err)
				} else {
					report.addSession(found)
				}
				if done++; r.OnProgress != nil && ctx.Err() == nil {
					r.OnProgress(done, len(keys))
				}
				r.mu.Unlock()
			}
		})
	}
send:
	for _, key := range keys {
		select {
		case next <- key:
		case <-ctx.Done():
			break send
		}
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

// playSession replays a session's turns, each with the recorded past. Later turns than the first
// difference are not replayed.
func (r *replay) playSession(ctx context.Context, key session.Key) (*sessionResult, error) {
	result := &sessionResult{key: key}
	if r.meter != nil && r.meter.isReached() {
		result.unplayed = true
		return result, nil
	}
	sess, err := r.Store.Sessions.Get(ctx, key, nil)
	if errors.Is(err, session.ErrNotFound) {
		result.gone = true
		return result, nil
	}
	if err != nil {
		return nil, fmt.Errorf("session %s of user %s: %w", key.ID, key.User, err)
	}
	initial, err := r.Store.Sessions.Initial(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("session %s of user %s: %w", key.ID, key.User, err)
	}
	turns, _, err := turn.SplitSession(sess)
	if err != nil {
		result.unreadable = err.Error()
		return result, nil
	}
	before := &past{key: key, initial: maps.Clone(turn.EmptyIfNil(initial))}
	maps.Copy(before.initial, turn.SharedState(sess))
	delete(before.initial, session.MetadataKey)
	events := sess.Events()
	if before.files, err = readFiles(ctx, r.Store, key); err != nil {
		return nil, fmt.Errorf("files of session %s of user %s: %w", key.ID, key.User, err)
	}
	at := 0
	for i, t := range turns {
		for events[at] != t.User {
			at++
		}
		before.events = events[:at]
		if i < len(turns)-maxTurns || t.User.Content == nil {
			result.omitted++
			continue
		}
		result.turns++
		if err := r.playBoth(ctx, result, i, before, t); err != nil {
			return nil, err
		}
		if r.meter != nil && r.meter.isReached() { // the answer may be the ceiling's
			return &sessionResult{key: key, unplayed: true}, nil
		}
		if result.difference != nil {
			result.omitted += len(turns) - i - 1
			break
		}
	}
	return result, nil
}

// playBoth replays a turn on the revision that answered it and on the files.
func (r *replay) playBoth(ctx context.Context, result *sessionResult, index int, before *past, t *turn.Recorded) error {
	record := r.rules.listSteps(t.Events)
	find := findDivergence
	if r.meter != nil {
		find = compareLive
	}
	played := func(p *player) (*divergence, string, error) {
		steps, lacks, err := p.playTurn(ctx, before, t)
		switch {
		case ctx.Err() != nil:
			return nil, "", context.Cause(ctx)
		case err != nil:
			return &divergence{class: ClassError, place: err.Error()}, "", nil
		}
		return find(record, steps), lacks, nil
	}
	b := r.findBaseline(ctx, revisionOf(t))
	var was *divergence
	var reason string
	if b.player != nil {
		var err error
		if was, reason, err = played(b.player); err != nil {
			return err
		}
	} else {
		result.unpaired = true
	}
	is, lacks := was, reason
	if b.player != r.draft {
		var err error
		if is, lacks, err = played(r.draft); err != nil {
			return err
		}
	}
	if r.meter != nil && was != nil && was.class == ClassText {
		was = nil // a live model words its answer differently each time
	}
	if was != nil {
		result.strays = result.strays || is == nil
		result.incomparable = append(result.incomparable, Incomparable{User: before.key.User, Session: before.key.ID, Turn: index + 1, Class: was.class, Place: was.place, Reason: r.explainStray(t, before, reason)})
		return nil
	}
	if is != nil {
		if is.agent == "" { // the turn failed before an agent's first event
			is.agent = t.Events[0].NodeName()
		}
		result.difference = &Difference{
			User: before.key.User, Session: before.key.ID, Turn: index + 1, Event: t.User.ID, Class: is.class, Place: is.place, Agent: is.agent,
			Lacks: lacks, Lines: r.lines.findLines(ctx, b.rev, is.agent), Before: is.before, After: is.after, Baseline: b.player != nil,
		}
	}
	return nil
}

// revisionOf returns the revision that answered a turn; empty if it is unknown.
func revisionOf(t *turn.Recorded) string {
	for _, ev := range t.Events {
		if ev.Provenance.Revision != "" && !ev.Provenance.Unverified {
			return ev.Provenance.Revision
		}
	}
	return ""
}

// explainStray returns the likely reason why a revision does not repeat its own turn.
func (r *replay) explainStray(t *turn.Recorded, before *past, lacks string) string {
	uses := func(name string) bool {
		return slices.ContainsFunc(t.Events, func(ev *session.Event) bool {
			return slices.ContainsFunc(ev.Calls(), func(c *genai.FunctionCall) bool { return c.Name == name })
		})
	}
	switch {
	case lacks != "":
		return lacks
	case before.files.lacks != "" && (slices.ContainsFunc(t.Events, func(ev *session.Event) bool { return len(ev.Actions.ArtifactDelta) > 0 }) || uses("load_artifacts")):
		return "files are not replayed: " + before.files.lacks
	case uses("load_memory"):
		return "memories are not replayed"
	case r.meter != nil:
		return "the live model does not repeat its answer"
	}
	return "it depends on the time, on chance, or on what the session does not store"
}
