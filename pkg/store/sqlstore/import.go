package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm/clause"

	"agenthost/internal/codec"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
	"agenthost/pkg/store/sqlstore/internal/engine"
)

// importLeaseTimeout is how long an import waits for a session with an active
// run.
const importLeaseTimeout = time.Second

// An Importer imports sessions into a database that hosts may be using. It is
// not safe for concurrent use.
type Importer struct {
	engines  Engines
	url      string
	backend  *Database // nil in a rehearsal
	store    *store.Store
	existing *ReadOnly // nil if the database is missing or empty
}

// OpenImporter opens a database to import into, and creates a missing one, but
// does not migrate an older schema. A rehearsal (dry run) only reports what an import would do.
func (all Engines) OpenImporter(ctx context.Context, url string, opts *Options, rehearsal bool) (*Importer, error) {
	i := &Importer{engines: all, url: url}
	if strings.HasPrefix(url, "memory:") {
		return nil, errors.New("cannot import into memory: name a database")
	}
	if rehearsal {
		return i, i.openExisting(ctx)
	}
	o := opts.withDefaults()
	o.Access = store.AccessWrite
	var err error
	i.store, i.backend, err = all.openPlainStore(ctx, url, o)
	if err != nil {
		return nil, err
	}
	return i, nil
}

// openExisting opens a view on the current database.
func (i *Importer) openExisting(ctx context.Context) error {
	r, err := i.engines.OpenReadOnly(ctx, i.url)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := r.checkSchema(ctx, store.AccessWrite); err != nil || r.schema == 0 {
		return errors.Join(err, r.Close())
	}
	i.existing = r
	return nil
}

// Close closes the importer.
func (i *Importer) Close() error {
	var errs []error
	if i.existing != nil {
		errs = append(errs, i.existing.Close())
	}
	if i.store != nil {
		errs = append(errs, i.store.Close())
	}
	return errors.Join(errs...)
}

// readExisting opens a view on the database, if there is one. It retries if the connection is lost.
func (i *Importer) readExisting(ctx context.Context, show func(r *ReadOnly) error) error {
	if i.backend == nil {
		if i.existing == nil {
			return nil
		}
		return show(i.existing)
	}
	e, _, err := i.engines.findReadEngine(i.url)
	if err != nil {
		return err
	}
	return i.backend.retryLongRead(ctx, func(ctx context.Context) error {
		tx, err := i.backend.reads.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead})
		if err != nil {
			return err
		}
		defer tx.Rollback()
		return show(&ReadOnly{engine: e, tx: tx})
	})
}

// Session imports a session atomically, under its lease. A session with an active run is skipped.
// If the session already has the first events, the rest is added; if it has other events, it is
// skipped and stays unchanged.
func (i *Importer) Session(ctx context.Context, imp *Import) (Imported, error) {
	if err := checkImport(imp); err != nil {
		return Imported{Refused: err.Error()}, nil
	}
	state, err := codec.CanonicalizeState(imp.State)
	if err != nil {
		return Imported{Refused: err.Error()}, nil
	}
	p := &importPlan{Import: imp, state: state}
	if err := i.comparePlan(ctx, p); err != nil {
		return Imported{}, err
	}
	if p.isDone() || i.backend == nil {
		return p.summarize(), nil
	}
	return i.executePlan(ctx, p)
}

func (i *Importer) comparePlan(ctx context.Context, p *importPlan) error {
	if i.backend == nil && i.existing == nil {
		p.selectFeedback(nil)
		return nil
	}
	given := *p
	err := i.readExisting(ctx, func(r *ReadOnly) error {
		*p = given
		return p.compareSession(ctx, r)
	})
	if err != nil {
		return fmt.Errorf("reading session %s: %w", p.Key, err)
	}
	return nil
}

// executePlan executes a plan under the session's lease. It computes the plan
// again first, because the session may have changed.
func (i *Importer) executePlan(ctx context.Context, p *importPlan) (Imported, error) {
	_, release, err := i.store.Sessions.Acquire(ctx, p.Key, importLeaseTimeout)
	if errors.Is(err, session.ErrBusy) {
		return Imported{Refused: "it has an active run: import it again later"}, nil
	}
	if err != nil {
		return Imported{}, fmt.Errorf("writing session %s: %w", p.Key, err)
	}
	defer release()
	p = &importPlan{Import: p.Import, state: p.state}
	if err := i.comparePlan(ctx, p); err != nil || p.isDone() {
		return p.summarize(), err
	}
	if p.lease, err = i.store.Sessions.RunLease(ctx, p.Key); err == nil {
		p.lease.ID = p.pk
		err = i.backend.importSession(ctx, p)
	}
	switch {
	case errors.Is(err, session.ErrStale), errors.Is(err, session.ErrExists), errors.Is(err, session.ErrBusy):
		return Imported{Refused: "it changed during the import: import it again"}, nil
	case err != nil:
		return Imported{}, fmt.Errorf("writing session %s: %w", p.Key, err)
	}
	return p.summarize(), nil
}

// An Import is a session to be imported from another database.
type Import struct {
	Key     session.Key
	Created time.Time
	// Initial holds the session's own state at creation. Nil means unknown: the
	// keys that no event sets are used instead.
	Initial map[string]any
	// State holds the session's own current state. State changes in the events
	// are stored with them, and not applied again.
	State map[string]any
	// Events are ordered and have ids and times. The import numbers them.
	Events []*session.Event
	// Outcomes are the stored forms of the outcomes that the events have; nil if they are unknown.
	Outcomes []string
	// Feedback is in order of invocation and caller.
	Feedback []store.Feedback
}

// outcomeAt returns an event's outcome in its stored form.
func (imp *Import) outcomeAt(i int) []byte {
	if i >= len(imp.Outcomes) {
		return nil
	}
	return []byte(imp.Outcomes[i])
}

// An Imported is the result for a session or for state keys.
type Imported struct {
	// New reports that the session did not exist.
	New bool
	// Events and Keys count what was written; Present counts the events or keys
	// that already existed.
	Events, Keys, Present int
	// Feedback counts the written feedback on a session.
	Feedback int
	// Refused is the reason why a session was skipped. Left lists skipped state
	// keys, or feedback on a session, with reasons.
	Refused string
	Left    []string
}

// checkImport rejects a session that cannot be stored.
func checkImport(imp *Import) error {
	if err := codec.CheckSession(imp.Key); err != nil {
		return err
	}
	for _, ev := range imp.Events {
		if err := codec.CheckText("event id", ev.ID, codec.MaxID); err != nil {
			return err
		}
		if err := codec.CheckText("invocation id", ev.InvocationID, codec.MaxID); err != nil {
			return fmt.Errorf("event %s: %w", ev.ID, err)
		}
	}
	return nil
}

// An importPlan compares an import with the stored session.
type importPlan struct {
	*Import
	state       map[string]any
	pk          int64            // the stored session's, or 0
	present     int              // how many events are stored
	lease       store.LeaseGrant // on the stored session
	removedKeys []string
	refusal     string
	// feedback is what the stored session does not have; left are the reasons for what cannot be stored.
	feedback []store.Feedback
	left     []string
}

// isDone reports that there is nothing to write.
func (p *importPlan) isDone() bool { return p.refusal != "" || p.hasEvents() && len(p.feedback) == 0 }

// hasEvents reports that the session is stored with all its events.
func (p *importPlan) hasEvents() bool { return p.pk != 0 && p.present == len(p.Events) }

// summarize returns the executed plan's result.
func (p *importPlan) summarize() Imported {
	out := Imported{New: p.pk == 0, Present: p.present, Refused: p.refusal}
	if p.refusal != "" {
		return out
	}
	out.Feedback, out.Left = len(p.feedback), p.left
	if !p.hasEvents() {
		out.Events, out.Keys = len(p.Events)-p.present, len(p.state)
	}
	return out
}

// compareSession finds out which part of the session is stored.
func (p *importPlan) compareSession(ctx context.Context, r *ReadOnly) error {
	var created int64
	k := p.Key
	err := r.Each(ctx, func(rows *sql.Rows) error { return rows.Scan(&p.pk, &created) },
		"SELECT s.pk, s.create_time FROM sessions s WHERE s.app_name = ? AND s.user_id = ? AND s.id = ?", k.App, k.User, k.ID)
	if err != nil {
		return err
	}
	if err := p.compareFeedback(ctx, r); err != nil || p.pk == 0 {
		return err
	}
	var ids []string
	err = r.Each(ctx, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	}, "SELECT e.id FROM events e WHERE e.session_pk = ? ORDER BY e.seq", p.pk)
	if err != nil {
		return err
	}
	p.matchEvents(ids, created)
	return r.Each(ctx, func(rows *sql.Rows) error {
		var key string
		err := rows.Scan(&key)
		if _, ok := p.state[key]; !ok {
			p.removedKeys = append(p.removedKeys, key)
		}
		return err
	}, "SELECT t.key FROM states t WHERE t.app_name = ? AND t.user_id = ? AND t.session_id = ?", k.App, k.User, k.ID)
}

// compareFeedback finds the feedback that the stored session does not have.
func (p *importPlan) compareFeedback(ctx context.Context, r *ReadOnly) error {
	there := map[feedbackKey]bool{}
	if p.pk != 0 && len(p.Feedback) > 0 {
		if err := r.eachFeedback(ctx, p.pk, func(row feedbackRow) { there[feedbackKey{row.Invocation, row.Caller}] = true }); err != nil {
			return err
		}
	}
	p.selectFeedback(there)
	return nil
}

type feedbackKey struct{ invocation, caller string }

// selectFeedback selects what is not stored yet. A caller's stored feedback stays.
func (p *importPlan) selectFeedback(there map[feedbackKey]bool) {
	for _, f := range p.Feedback {
		if there[feedbackKey{f.Invocation, f.Caller}] {
			continue
		}
		if err := f.Validate(); err != nil {
			p.left = append(p.left, err.Error())
			continue
		}
		p.feedback = append(p.feedback, f)
	}
}

// matchEvents compares events by id. A session without events is the same one
// if its creation time is the same.
func (p *importPlan) matchEvents(ids []string, created int64) {
	n := min(len(ids), len(p.Events))
	for i := range n {
		if ids[i] != p.Events[i].ID {
			p.refusal = fmt.Sprintf("it exists with other events: number %d is %s, not %s", i+1, ids[i], p.Events[i].ID)
			return
		}
	}
	if n == 0 && created != p.Created.UnixMicro() {
		p.refusal = "another session with this id exists"
		return
	}
	p.present = n
}

// initialState returns the session's own state at creation.
func (p *importPlan) initialState() map[string]any {
	if p.Initial != nil {
		return p.Initial
	}
	first := map[string]any{}
	for k, v := range p.state {
		hasEvent := slices.ContainsFunc(p.Events, func(ev *session.Event) bool {
			_, ok := ev.Actions.StateDelta[k]
			return ok
		})
		if !hasEvent && v != nil {
			first[k] = v
		}
	}
	return first
}

// importSession atomically writes what the plan found missing.
func (b *Database) importSession(ctx context.Context, p *importPlan) error {
	cells := store.SplitState(p.state)
	for _, k := range p.removedKeys {
		cells = append(cells, store.StateWrite{Key: k, Scope: session.ScopeSession, Value: nil})
	}
	states, err := stateRows(p.Key, cells)
	if err != nil {
		return err
	}
	initial, err := backend.AppendMap(nil, p.initialState())
	if err != nil {
		return err
	}
	events := make([]fullEventRow, 0, len(p.Events)-p.present) // without their session
	for i, ev := range p.Events[p.present:] {
		text, err := session.AppendEvent(nil, ev)
		if err != nil {
			return fmt.Errorf("event %s: %w", ev.ID, err)
		}
		events = append(events, newEventRow(ev, int64(p.present+i+1), text, p.outcomeAt(p.present+i)))
	}
	j := &job{long: true}
	j.run = func(w *writer) error {
		// An earlier attempt may have committed before the connection was lost.
		if done, err := w.wasImported(j, p); done || err != nil {
			return err
		}
		pk, err := w.importHead(b.dialect, p, string(initial))
		if err == nil && !p.hasEvents() {
			err = w.importEvents(pk, events)
			if err == nil {
				err = w.writeStates(states)
			}
		}
		if err == nil {
			err = w.importFeedback(pk, p.feedback)
		}
		return err
	}
	err = b.writerFor(p.Key).executeJob(ctx, j)
	if err != nil && b.dialect.hasFault(err, engine.Conflict) {
		err = fmt.Errorf("%w: %w", session.ErrStale, err)
	}
	return err
}

// importHead creates the session, or renews its lease, so that no one else can
// acquire it until the transaction ends.
func (w *writer) importHead(d dialect, p *importPlan, initial string) (pk int64, err error) {
	if p.pk != 0 {
		g := &p.lease
		n, err := execAffected(w.ctx, w.stmt.renewLease, d.appendClock(g.Now, g.Term.Microseconds(), g.ID, g.Epoch))
		if err == nil && n == 0 {
			err = backend.SessionFenced(p.Key.ID)
		}
		return p.pk, err
	}
	row := newSessionRow(p.Key, p.Created.UnixMicro(), initial)
	res := w.orm.Clauses(clause.OnConflict{DoNothing: true}).Create(row)
	if res.Error == nil && res.RowsAffected == 0 {
		return 0, backend.SessionExists(p.Key.ID)
	}
	return row.Row.ID, res.Error
}

// wasImported reports whether the job's earlier attempt was committed.
func (w *writer) wasImported(j *job, p *importPlan) (bool, error) {
	if !j.maybeDone || p.hasEvents() { // feedback that is stored is not written again
		return false, nil
	}
	var head sessionRow
	k := p.Key
	res := w.orm.Where("app_name = ? AND user_id = ? AND id = ?", k.App, k.User, k.ID).Limit(1).Find(&head)
	if res.Error != nil || res.RowsAffected == 0 || len(p.Events) == 0 {
		return res.RowsAffected > 0, res.Error
	}
	var n int64
	last := p.Events[len(p.Events)-1]
	err := w.orm.Model(&eventRow{}).Where("session_pk = ? AND seq = ? AND id = ?", head.ID, len(p.Events), last.ID).Count(&n).Error
	return n > 0, err
}

// importFeedback inserts feedback that the session does not have.
func (w *writer) importFeedback(pk int64, all []store.Feedback) error {
	for i := range all {
		err := w.orm.Clauses(clause.OnConflict{DoNothing: true}).Omit("Session").Create(newFeedbackRow(pk, &all[i])).Error
		if err != nil {
			return fmt.Errorf("writing feedback: %w", err)
		}
	}
	return nil
}

// importEvents inserts events in statements that fit into a server's packet.
func (w *writer) importEvents(pk int64, rows []fullEventRow) error {
	bytes, from := 0, 0
	for i := range rows {
		rows[i].SessionID = pk
		bytes += len(rows[i].Event)
		if i+1 == len(rows) || i+1-from == rowsAtOnce || bytes+len(rows[i+1].Event) > packetBytes {
			some := rows[from : i+1]
			if err := w.orm.Create(&some).Error; err != nil {
				return err
			}
			bytes, from = 0, i+1
		}
	}
	return nil
}
