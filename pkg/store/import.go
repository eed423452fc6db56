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

// importLeaseTimeout is how long an import waits for a session that a host runs.
const importLeaseTimeout = time.Second

// An Import is a session of another database, as it is to stand here.
type Import struct {
	Key     session.Key
	Created time.Time
	// Initial holds the session's own keys as it began. Nil says that nobody
	// knows: those that no event tells of are taken for it.
	Initial map[string]any
	// State holds the session's own keys as they are now. What the events say
	// of the state is stored with them, and not applied again.
	State map[string]any
	// Events are in their order, with ids and times. They get their numbers.
	Events []*session.Event
}

// An Imported says what became of a session, or of state keys.
type Imported struct {
	// New says that the session was not there.
	New bool
	// Events and Keys count what was written; Present counts the events, or
	// keys, that were there.
	Events, Keys, Present int
	// Refused says why the session was left out, Left which state keys were,
	// and why.
	Refused string
	Left    []string
}

// An Importer writes the sessions of another database into one, while hosts may
// use it. It is for one goroutine.
type Importer struct {
	url      string
	backend  *sqlBackend // nil when nothing is to be written
	store    *Store
	existing *ReadOnly // nil when there is no database, or nothing in it
}

// OpenImporter opens a database to import into, and makes it when it is
// missing. A rehearsal says what an import would do, and writes nothing.
func OpenImporter(ctx context.Context, url string, opts *Options, rehearsal bool) (*Importer, error) {
	i := &Importer{url: url}
	if strings.HasPrefix(url, "memory:") {
		return nil, errors.New("importing into memory: would be forgotten at once: name a database")
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

// openExisting opens a view of what is there now.
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

// Close ends the import.
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

// Session writes a session in one step, and as its only run: one that a host
// runs is refused. Where it is already, with a part of its events, the rest is
// added; where it has other events, it is refused and stays as it is.
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

// executePlan carries out a plan under the session's lease, and makes the plan anew
// first: who had the session before may have changed it.
func (i *Importer) executePlan(ctx context.Context, p *importPlan) (Imported, error) {
	_, release, err := i.store.Sessions.Acquire(ctx, p.Key, importLeaseTimeout)
	if errors.Is(err, session.ErrBusy) {
		return Imported{Refused: "a host runs it at the moment: import it again later"}, nil
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
		return Imported{Refused: "it was changed here in the meantime: import it again"}, nil
	case err != nil:
		return Imported{}, fmt.Errorf("writing session %s: %w", p.Key, err)
	}
	return p.summarize(), nil
}

// readExisting shows the database as it is, if there is one; again when the connection
// is lost meanwhile.
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

// checkImport says what could not be stored.
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

// States writes keys of an app, or of a user of it when user is not empty; the
// keys have no prefix. A key that is there stays as it is.
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
		// A key that a host writes in the meantime stays as well.
		err = i.backend.writers[0].runWrite(ctx, func(w *writer) error {
			return w.orm.Clauses(clause.OnConflict{DoNothing: true}).CreateInBatches(&rows, rowsAtOnce).Error
		})
	}
	return out, err
}

// planStateKeys makes rows of the keys that are not there.
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
			out.Left = append(out.Left, fmt.Sprintf("state key %q: has another value here", k))
		}
	}
	return out, rows, nil
}
