package adkdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/sqlstore"
)

// Options narrow an import. Nil and the zero value import everything.
type Options struct {
	// App limits the import to one app; empty means all apps.
	App string
	// DryRun reports what an import would do, and writes nothing.
	DryRun bool
}

// Import copies sessions and state from an adk-python or adk-go database, or
// sessions, state and memories from another agenthost database, into an agenthost
// database, which is created if missing. The source is only read. Each session is
// written in one transaction while no other run holds it, so hosts can keep
// running and an interrupted import can be repeated. Existing data is neither
// written again nor changed, except for sessions that have grown in the source but
// not in the target. Both databases are of one of the engines. The report is returned even with an error, and covers what was
// imported until then.
func Import(ctx context.Context, engines sqlstore.Engines, from, to string, o *Options) (*Report, error) {
	if o == nil {
		o = &Options{}
	}
	view, err := engines.OpenReadOnly(ctx, from)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	if from == to {
		return nil, fmt.Errorf("reading %s: source and target are the same database: choose another target with --session-db", store.Redacted(from))
	}
	src, name, err := openSource(ctx, view)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", store.Redacted(from), err)
	}
	m := &importer{source: src, app: o.App, report: &Report{
		Source: name + ", in " + view.Engine, Target: store.Redacted(to), DryRun: o.DryRun, LeftOut: []Omission{}, Notes: []string{},
	}}
	heads, err := m.listSessions(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", store.Redacted(from), err)
	}
	if m.target, err = engines.OpenImporter(ctx, to, nil, o.DryRun); err != nil {
		return nil, err
	}
	err = m.importAll(ctx, heads)
	return m.report, errors.Join(err, m.target.Close())
}

// A sourceDB is a consistent snapshot of a database to import from.
type sourceDB interface {
	// listSessions returns the sessions in creation order.
	listSessions(ctx context.Context) ([]sessionHead, error)
	// loadSession reads a whole session. It adds unreadable parts to the report,
	// and returns nil if the session itself is unreadable.
	loadSession(ctx context.Context, h sessionHead, r *Report) (*sqlstore.Import, error)
	// listSharedStates returns app and user states.
	listSharedStates(ctx context.Context) ([]sharedState, error)
	// importRest imports what is neither session nor state, and adds notes about
	// the whole source to the report. It runs after the known sessions were read.
	importRest(ctx context.Context, m *importer, known map[session.Key]bool) error
}

// A sessionHead is a session without events and state.
type sessionHead struct {
	key     session.Key
	created time.Time
	err     error // why the session is unreadable
}

// A sharedState is the state of an app, or of an app's user.
type sharedState struct {
	app, user string
	keys      map[string]any
	err       error
}

// openSource detects which program wrote the database.
func openSource(ctx context.Context, view *sqlstore.ReadOnly) (o sourceDB, name string, err error) {
	mine, err := view.Ours(ctx)
	if err != nil || mine {
		return &agenthostSource{view}, "agenthost", err
	}
	s, err := newADKSource(ctx, view)
	return s, s.kind.name, err
}

type importer struct {
	source sourceDB
	target *sqlstore.Importer
	app    string
	report *Report
}

// listSessions lists the sessions to import. It returns an error if the app has
// none.
func (m *importer) listSessions(ctx context.Context) ([]sessionHead, error) {
	all, err := m.source.listSessions(ctx)
	if err != nil || m.app == "" {
		return all, err
	}
	apps := map[string]bool{}
	for _, h := range all {
		apps[h.key.App] = true
	}
	if !apps[m.app] {
		return nil, fmt.Errorf("no sessions of app %q; apps with sessions: %s", m.app, cmp.Or(strings.Join(slices.Sorted(maps.Keys(apps)), ", "), "none"))
	}
	return slices.DeleteFunc(all, func(h sessionHead) bool { return h.key.App != m.app }), nil
}

func (m *importer) importAll(ctx context.Context, heads []sessionHead) error {
	known := map[session.Key]bool{}
	for _, h := range heads {
		known[h.key] = true
		if err := m.importSession(ctx, h); err != nil {
			return err
		}
	}
	all, err := m.source.listSharedStates(ctx)
	if err != nil {
		return fmt.Errorf("reading the state of apps and users: %w", err)
	}
	for _, sh := range all {
		if m.includesApp(sh.app) {
			if err := m.importSharedState(ctx, sh); err != nil {
				return err
			}
		}
	}
	return m.source.importRest(ctx, m, known)
}

func (m *importer) includesApp(app string) bool { return m.app == "" || m.app == app }

func (m *importer) importSession(ctx context.Context, h sessionHead) error {
	r := m.report
	r.Sessions.Read++
	imp, err := m.source.loadSession(ctx, h, r)
	if err != nil {
		return fmt.Errorf("reading session %s: %w", h.key, err)
	}
	if imp == nil {
		return nil
	}
	r.Events.Read += len(imp.Events)
	done, err := m.target.Session(ctx, imp)
	if err != nil {
		return err
	}
	m.countFeedback(imp, &done)
	keys := len(imp.State)
	switch {
	case done.Refused != "":
		r.omitSession(h.key, len(imp.Events), keys, done.Refused)
	case done.New:
		r.Sessions.Written++
		r.Keys.Written += keys
	default:
		r.Sessions.Present++
		r.Keys.Written += done.Keys
		r.Keys.Present += keys - done.Keys
	}
	if done.Refused == "" {
		r.Events.Written += done.Events
		r.Events.Present += done.Present
	}
	return nil
}

func (m *importer) countFeedback(imp *sqlstore.Import, done *sqlstore.Imported) {
	count := &m.report.Feedback
	count.Read += len(imp.Feedback)
	if done.Refused != "" {
		count.LeftOut += len(imp.Feedback)
		return
	}
	count.Written += done.Feedback
	count.LeftOut += len(done.Left)
	count.Present += len(imp.Feedback) - done.Feedback - len(done.Left)
	for _, reason := range done.Left {
		m.report.addOmission("feedback on session "+imp.Key.String(), reason)
	}
}

func (m *importer) importSharedState(ctx context.Context, sh sharedState) error {
	r, what := m.report, "the state of app "+sh.app
	if sh.user != "" {
		what = "the state of user " + sh.user + " of app " + sh.app
	}
	if sh.err != nil {
		r.addOmission(what, sh.err.Error())
		return nil
	}
	keys := r.withoutNull(sh.keys)
	if len(keys) == 0 {
		return nil
	}
	done, err := m.target.States(ctx, sh.app, sh.user, keys)
	if err != nil {
		return err
	}
	if done.Refused != "" {
		r.Keys.LeftOut += len(keys)
		r.addOmission(what, done.Refused)
	}
	r.Keys.Written += done.Keys
	r.Keys.Present += done.Present
	r.Keys.LeftOut += len(done.Left)
	for _, reason := range done.Left {
		r.addOmission(what, reason)
	}
	return nil
}
