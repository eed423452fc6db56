package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"gorm.io/gorm/clause"

	"agenthost/internal/codec"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
)

// States imports keys for an app, or for one of its users if user is not empty; the keys have no
// prefix. Existing keys stay unchanged.
func (i *Importer) States(ctx context.Context, app, user string, keys map[string]any) (Imported, error) {
	if err := codec.CheckOwner(app, cmp.Or(user, "user")); err != nil {
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
		err = i.backend.writers[0].runLongWrite(ctx, func(w *writer) error {
			return w.orm.Clauses(clause.OnConflict{DoNothing: true}).CreateInBatches(&rows, rowsAtOnce).Error
		})
	}
	return out, err
}

// planStateKeys returns rows for the keys that do not exist.
func planStateKeys(owner stateRow, keys map[string]any, found map[string]string) (out Imported, rows []stateRow, err error) {
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		one, err := codec.CanonicalizeState(map[string]any{k: keys[k]})
		if err != nil {
			out.Left = append(out.Left, err.Error())
			continue
		}
		row := owner
		row.Key = k
		if row.Value, err = backend.EncodeValue(one[k]); err != nil {
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

// MostMemories is how many memories a call may have at most.
const MostMemories = rowsAtOnce

// Memories imports at most MostMemories memories from one session, or from none of a user's
// sessions. Existing memories stay unchanged; one with another content is skipped.
func (i *Importer) Memories(ctx context.Context, key session.Key, memories []*session.Memory) (Imported, error) {
	var out Imported
	if err := codec.CheckOwner(key.App, key.User); err != nil {
		return Imported{Refused: err.Error()}, nil
	}
	there, err := i.readMemories(ctx, key, memories)
	if err != nil {
		return out, fmt.Errorf("reading the memories of user %s: %w", key.User, err)
	}
	b := &store.MemoryBatch{Key: key}
	for _, m := range memories {
		rec, err := store.NewMemoryRecord(m)
		old, ok := there[m.ID]
		switch {
		case err != nil:
			out.Left = append(out.Left, fmt.Sprintf("memory %s: %s", m.ID, err))
		case !ok:
			b.Records = append(b.Records, rec)
			out.Keys++
		case old == rec.Text:
			out.Present++
		default:
			out.Left = append(out.Left, fmt.Sprintf("memory %s: exists with another content", m.ID))
		}
	}
	if i.store != nil && len(b.Records) > 0 {
		err = sqlMemories{b: i.backend}.PutMemories(ctx, b)
	}
	return out, err
}

// readMemories returns the existing memories' texts, by id.
func (i *Importer) readMemories(ctx context.Context, key session.Key, memories []*session.Memory) (map[string]string, error) {
	args := []any{key.App, key.User, key.ID}
	for _, m := range memories {
		args = append(args, m.ID)
	}
	there := map[string]string{}
	err := i.readExisting(ctx, func(r *ReadOnly) error {
		return r.Each(ctx, func(rows *sql.Rows) error {
			var id, text string
			err := rows.Scan(&id, &text)
			there[id] = text
			return err
		}, `SELECT m.id, m.memory FROM memories m JOIN memory_owners o ON o.pk = m.owner_pk
 WHERE o.app_name = ? AND o.user_id = ? AND m.session_id = ? AND m.id IN (`+repeatPlaceholders("?", len(memories))+")", args...)
	})
	return there, err
}

// Revision imports an app's revision, and reports whether it was missing.
func (i *Importer) Revision(ctx context.Context, rev PackedRevision) (written bool, err error) {
	there := false
	err = i.readExisting(ctx, func(r *ReadOnly) error {
		return r.Each(ctx, func(rows *sql.Rows) error {
			there = true
			return nil
		}, "SELECT v.id FROM revisions v WHERE v.app_name = ? AND v.id = ?", rev.App, rev.row.ID)
	})
	if err == nil && !there && i.backend != nil {
		err = i.backend.writers[0].runLongWrite(ctx, func(w *writer) error {
			return w.orm.Clauses(clause.OnConflict{DoNothing: true}).Create(&rev.row).Error
		})
	}
	if err != nil {
		return false, fmt.Errorf("writing revision %s of app %s: %w", rev.row.ID, rev.App, err)
	}
	return !there, nil
}

// Result imports a evaluation result, and reports whether it was missing.
func (i *Importer) Result(ctx context.Context, r PackedResult) (written bool, err error) {
	there := false
	err = i.readExisting(ctx, func(existing *ReadOnly) error {
		return existing.Each(ctx, func(rows *sql.Rows) error {
			there = true
			return nil
		}, "SELECT r.id FROM eval_results r WHERE r.app_name = ? AND r.id = ?", r.App, r.row.Row.ID)
	})
	if err == nil && !there && i.backend != nil {
		err = i.backend.writers[0].runLongWrite(ctx, func(w *writer) error {
			return w.orm.Clauses(clause.OnConflict{DoNothing: true}).Create(&r.row).Error
		})
	}
	if err != nil {
		return false, fmt.Errorf("writing result %s of app %s: %w", r.row.Row.ID, r.App, err)
	}
	return !there, nil
}

// Rollout imports an app's rollout, and reports whether it was missing. An existing one stays, also if
// it is another one.
func (i *Importer) Rollout(ctx context.Context, o PackedRollout) (written bool, err error) {
	there := false
	err = i.readExisting(ctx, func(existing *ReadOnly) error {
		return existing.Each(ctx, func(rows *sql.Rows) error {
			there = true
			return nil
		}, "SELECT o.version FROM rollouts o WHERE o.app_name = ?", o.App)
	})
	if err == nil && !there && i.backend != nil {
		err = i.backend.writers[0].runLongWrite(ctx, func(w *writer) error {
			return w.orm.Clauses(clause.OnConflict{DoNothing: true}).Create(&o.row).Error
		})
	}
	if err != nil {
		return false, fmt.Errorf("writing the rollout of app %s: %w", o.App, err)
	}
	return !there, nil
}

// OutcomeDay imports the outcomes of an app's deleted sessions on a day. Those of a day that has some stay, and
// others are skipped: their sum would count an import that is repeated twice.
func (i *Importer) OutcomeDay(ctx context.Context, d PackedOutcomeDay) (Imported, error) {
	if d.row.toOutcomeDay().Damaged {
		return Imported{Refused: "it is damaged"}, nil
	}
	var there []string
	err := i.readExisting(ctx, func(existing *ReadOnly) error {
		there = nil
		return existing.Each(ctx, func(rows *sql.Rows) error {
			var totals string
			err := rows.Scan(&totals)
			there = append(there, totals)
			return err
		}, "SELECT d.totals FROM outcome_days d WHERE d.app_name = ? AND d.day = ?", d.App, d.Day)
	})
	if err == nil && len(there) == 0 && i.backend != nil {
		err = i.backend.writers[0].runLongWrite(ctx, func(w *writer) error {
			return w.orm.Clauses(clause.OnConflict{DoNothing: true}).Create(&d.row).Error
		})
	}
	switch {
	case err != nil:
		return Imported{}, fmt.Errorf("writing outcomes of deleted sessions of app %s: %w", d.App, err)
	case len(there) == 0:
		return Imported{New: true}, nil
	case there[0] != d.row.Totals:
		return Imported{Refused: "the day has other ones"}, nil
	}
	return Imported{Present: 1}, nil
}
