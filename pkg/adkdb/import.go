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
)

// Options narrow an import. Nil and the zero value import everything.
type Options struct {
	// App is the only app whose sessions and state are taken; empty is all.
	App string
	// DryRun says what an import would do, and writes nothing.
	DryRun bool
}

// A Report says what an import did.
type Report struct {
	// Source says which program wrote the source, Target is the URL of the
	// target without its password.
	Source   string `json:"source"`
	Target   string `json:"target"`
	DryRun   bool   `json:"dryRun"`
	Sessions Count  `json:"sessions"`
	Events   Count  `json:"events"`
	Keys     Count  `json:"stateKeys"`
	// LeftOut is everything that the source has and the target has not got.
	LeftOut []Left `json:"leftOut"`
	// Notes are what is not left out, but was read in a way worth knowing.
	Notes []string `json:"notes"`
}

// A Count says what became of what was read.
type Count struct {
	Read    int `json:"read"`
	Written int `json:"written"`
	// Present were there already.
	Present int `json:"present"`
	LeftOut int `json:"leftOut"`
}

// A Left is something left out, and why.
type Left struct {
	What   string `json:"what"`
	Reason string `json:"reason"`
}

// Import takes the sessions and the state of a database of adk-python or
// adk-go over into one of agenthost, which is made when it is missing. The
// source is only read. Each session is written in one step, so that an import
// that was interrupted can be run again; what is there already is not written
// again, and nothing that is there is changed, but for a session that has
// grown in the source and not here. The report is there also with an error,
// and says how far it came.
func Import(ctx context.Context, from, to string, o *Options) (*Report, error) {
	if o == nil {
		o = &Options{}
	}
	src, err := openSource(ctx, from)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	m := &mover{src: src, app: o.App, report: &Report{
		Source: src.String(), Target: store.Redacted(to), DryRun: o.DryRun, LeftOut: []Left{}, Notes: []string{},
	}}
	heads, err := m.heads(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", store.Redacted(from), err)
	}
	if m.to, err = store.OpenImporter(ctx, to, nil, o.DryRun); err != nil {
		return nil, err
	}
	err = m.move(ctx, heads)
	m.report.tellOf(src)
	return m.report, errors.Join(err, m.to.Close())
}

type mover struct {
	src    *source
	to     *store.Importer
	app    string
	report *Report
}

// heads lists what is to be moved. An app that is not there is a mistake.
func (m *mover) heads(ctx context.Context) ([]head, error) {
	all, err := m.src.heads(ctx)
	if err == nil {
		err = m.src.listEvents(ctx)
	}
	if err != nil || m.app == "" {
		return all, err
	}
	apps := map[string]bool{}
	for _, h := range all {
		apps[h.key.App] = true
	}
	if !apps[m.app] {
		return nil, fmt.Errorf("it has no session of app %q, but of %s", m.app, cmp.Or(strings.Join(slices.Sorted(maps.Keys(apps)), ", "), "no other app either"))
	}
	return slices.DeleteFunc(all, func(h head) bool { return h.key.App != m.app }), nil
}

func (m *mover) move(ctx context.Context, heads []head) error {
	known := map[session.Key]bool{}
	for _, h := range heads {
		known[h.key] = true
		if err := m.session(ctx, h); err != nil {
			return err
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(m.src.events), func(a, b session.Key) int { return cmp.Compare(a.String(), b.String()) }) {
		if !known[key] && m.wants(key.App) {
			n := len(m.src.events[key])
			m.report.Events.Read += n
			m.report.Events.LeftOut += n
			m.report.leave(fmt.Sprintf("%s of session %s", plural(n, "event"), key), "the source has no such session")
		}
	}
	all, err := m.src.shared(ctx)
	if err != nil {
		return fmt.Errorf("reading the state of apps and users: %w", err)
	}
	for _, sh := range all {
		if m.wants(sh.app) {
			if err := m.shared(ctx, sh); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *mover) wants(app string) bool { return m.app == "" || m.app == app }

func (m *mover) session(ctx context.Context, h head) error {
	r := m.report
	r.Sessions.Read++
	imp, err := m.src.load(ctx, h, r)
	if err != nil {
		return fmt.Errorf("reading session %s: %w", h.key, err)
	}
	if imp == nil {
		return nil
	}
	r.Events.Read += len(imp.Events)
	done, err := m.to.Session(ctx, imp)
	if err != nil {
		return err
	}
	keys := len(imp.State)
	switch {
	case done.Refused != "":
		r.sessionLeft(h.key, len(imp.Events), keys, done.Refused)
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

func (m *mover) shared(ctx context.Context, sh shared) error {
	r, what := m.report, "the state of app "+sh.app
	if sh.user != "" {
		what = "the state of user " + sh.user + " of app " + sh.app
	}
	if sh.err != nil {
		r.leave(what, sh.err.Error())
		return nil
	}
	keys := r.withoutNull(sh.keys)
	if len(keys) == 0 {
		return nil
	}
	done, err := m.to.States(ctx, sh.app, sh.user, keys)
	if err != nil {
		return err
	}
	if done.Refused != "" {
		r.Keys.LeftOut += len(keys)
		r.leave(what, done.Refused)
	}
	r.Keys.Written += done.Keys
	r.Keys.Present += done.Present
	r.Keys.LeftOut += len(done.Left)
	for _, reason := range done.Left {
		r.leave(what, reason)
	}
	return nil
}

func (r *Report) leave(what, reason string) { r.LeftOut = append(r.LeftOut, Left{what, reason}) }

func (r *Report) sessionLeft(key session.Key, events, keys int, reason string) {
	r.Sessions.LeftOut++
	r.Events.LeftOut += events
	r.Keys.LeftOut += keys
	r.leave("session "+key.String(), reason)
}

func (r *Report) eventLeft(key session.Key, id, reason string) {
	r.Events.Read++
	r.Events.LeftOut++
	r.leave("event "+id+" of session "+key.String(), reason)
}

// own are the keys of a session's state that belong to it alone.
func (r *Report) own(key session.Key, state map[string]any) map[string]any {
	own := r.withoutNull(state)
	for _, k := range slices.Sorted(maps.Keys(own)) {
		if scope, _ := session.ScopeOf(k); scope != session.ScopeSession {
			r.Keys.LeftOut++
			r.leave("state key "+k+" of session "+key.String(), "a session's own state has no keys with this prefix")
			delete(own, k)
		}
	}
	return own
}

// withoutNull drops keys without a value: here, they are absent.
func (r *Report) withoutNull(state map[string]any) map[string]any {
	r.Keys.Read += len(state)
	kept := maps.Clone(state)
	maps.DeleteFunc(kept, func(_ string, v any) bool { return v == nil })
	r.Keys.Read -= len(state) - len(kept)
	return kept
}

// tellOf adds what holds for a whole source.
func (r *Report) tellOf(s *source) {
	if n := r.Events.Written + r.Events.Present; s.kind.pickled && n > 0 {
		r.leave(plural(n, "event"), "there but for the column actions, a pickled Python object, which is not read: the state is whole, but not which event set it; artifact versions, transfers, rewinds and summaries are lost")
	}
	if s.zoneless > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("the times of %s do not tell their zone, and are read as those of %s: set TZ where they were written elsewhere",
			plural(s.zoneless, "event"), zoneName()))
	}
}

func zoneName() string {
	name, _ := time.Now().Zone()
	if l := time.Local.String(); l != "Local" && l != "" {
		name = l
	}
	return name
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
