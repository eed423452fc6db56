package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm/clause"

	"agenthost/pkg/session"
)

// importLeaseTimeout is how long an import waits for a session with an active
// run.
const importLeaseTimeout = time.Second

// An Import is a session of another database to be imported.
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
}

// An Imported is the result for a session or for state keys.
type Imported struct {
	// New reports that the session did not exist.
	New bool
	// Events and Keys count what was written; Present counts the events or keys
	// that already existed.
	Events, Keys, Present int
	// Refused is the reason why a session was skipped. Left lists skipped state
	// keys with reasons.
	Refused string
	Left    []string
}

// An Importer imports sessions into a database that hosts may be using. It is
// not safe for concurrent use.
type Importer struct {
	url      string
	backend  *sqlBackend // nil in a rehearsal
	store    *Store
	existing *ReadOnly // nil if the database is missing or empty
}

// OpenImporter opens a database to import into, and creates a missing one. A
// rehearsal (dry run) only reports what an import would do.
func OpenImporter(ctx context.Context, url string, opts *Options, rehearsal bool) (*Importer, error) {
	i := &Importer{url: url}
	if strings.HasPrefix(url, "memory:") {
		return nil, errors.New("cannot import into memory: name a database")
	}
	if rehearsal {
		return i, i.openExisting(ctx)
	}
	if err := refuseForeignFile(ctx, url); err != nil {
		return nil, err
	}
	o := opts.withDefaults()
	o.Artifacts = "memory:"
	var err error
	if i.store, err = Open(ctx, url, o); err != nil {
		return nil, err
	}
	i.backend = i.store.Sessions.backend.(*sqlBackend)
	return i, nil
}

// openExisting opens a view of the current database.
func (i *Importer) openExisting(ctx context.Context) error {
	r, err := OpenReadOnly(ctx, i.url)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	at, err := r.readSchemaVersion(ctx)
	if err == nil && at > 0 {
		err = r.requireSchema(ctx)
	}
	if err != nil || at == 0 {
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

// Session imports a session atomically, under its lease. A session with an
// active run is skipped. If the session already has a prefix of the events, the
// rest is added; if it has other events, it is skipped and stays unchanged.
func (i *Importer) Session(ctx context.Context, imp *Import) (Imported, error) {
	if err := checkImport(imp); err != nil {
		return Imported{Refused: err.Error()}, nil
	}
	state, err := canonicalizeState(imp.State)
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
	p.lease = *i.store.Sessions.leases.newGrant(p.Key)
	p.lease.id = p.pk
	if p.lease.epoch, err = i.store.Sessions.leases.resolveEpoch(ctx, p.Key); err == nil {
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

// readExisting opens a view of the database, if there is one. It retries if the
// connection is lost.
func (i *Importer) readExisting(ctx context.Context, show func(r *ReadOnly) error) error {
	if i.backend == nil {
		if i.existing == nil {
			return nil
		}
		return show(i.existing)
	}
	e, _, err := findReadEngine(i.url)
	if err != nil {
		return err
	}
	return i.backend.retryRead(ctx, func() error {
		tx, err := i.backend.reads.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead})
		if err != nil {
			return err
		}
		defer tx.Rollback()
		return show(&ReadOnly{engine: e, tx: tx})
	})
}

// checkImport rejects a session that cannot be stored.
func checkImport(imp *Import) error {
	if err := checkSession(imp.Key); err != nil {
		return err
	}
	for _, ev := range imp.Events {
		if err := checkText("event id", ev.ID, maxID); err != nil {
			return err
		}
		if err := checkText("invocation id", ev.InvocationID, maxID); err != nil {
			return fmt.Errorf("event %s: %w", ev.ID, err)
		}
	}
	return nil
}

// States imports keys of an app, or of a user of it if user is not empty; the
// keys have no prefix. Existing keys stay unchanged.
func (i *Importer) States(ctx context.Context, app, user string, keys map[string]any) (Imported, error) {
	if err := checkOwner(app, cmp.Or(user, "user")); err != nil {
		return Imported{Refused: err.Error()}, nil
	}
	found := map[string]string{}
	err := i.readExisting(ctx, func(r *ReadOnly) error {
		return r.Each(ctx, func(rows *sql.Rows) error {
			var key, text string
			err := rows.Scan(&key, &text)
			found[key] = text
			return err
		}, "SELECT t.key, t.value FROM states t WHERE t.app_name = ? AND t.user_id = ? AND t.session_id = ''", app, user)
	})
	if err != nil {
		return Imported{}, fmt.Errorf("reading the state of app %s: %w", app, err)
	}
	out, rows, err := planStateKeys(stateRow{App: app, User: user}, keys, found)
	if err == nil && i.backend != nil && len(rows) > 0 {
		// A key that a host writes meanwhile also stays.
		err = i.backend.writers[0].runWrite(ctx, func(w *writer) error {
			return w.orm.Clauses(clause.OnConflict{DoNothing: true}).CreateInBatches(&rows, rowsAtOnce).Error
		})
	}
	return out, err
}

// planStateKeys returns rows for the keys that do not exist.
func planStateKeys(owner stateRow, keys map[string]any, found map[string]string) (out Imported, rows []stateRow, err error) {
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		one, err := canonicalizeState(map[string]any{k: keys[k]})
		if err != nil {
			out.Left = append(out.Left, err.Error())
			continue
		}
		row := owner
		row.Key = k
		if row.Value, err = encodeValue(one[k]); err != nil {
			return out, nil, err
		}
		switch old, ok := found[k]; {
		case !ok:
			rows = append(rows, row)
			out.Keys++
		case old == row.Value:
			out.Present++
		default:
			out.Left = append(out.Left, fmt.Sprintf("state key %q: exists with another value", k))
		}
	}
	return out, rows, nil
}
