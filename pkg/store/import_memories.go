package store

import (
	"context"
	"database/sql"
	"fmt"

	"gorm.io/gorm/clause"

	"agenthost/pkg/session"
)

// MostMemories is the maximum number of memories per call.
const MostMemories = rowsAtOnce

// Memories imports at most MostMemories memories of one session, or of no
// session of a user. Existing memories stay unchanged; one with another content
// is skipped.
func (i *Importer) Memories(ctx context.Context, key session.Key, memories []*session.Memory) (Imported, error) {
	var out Imported
	if err := checkOwner(key.App, key.User); err != nil {
		return Imported{Refused: err.Error()}, nil
	}
	there, err := i.readMemories(ctx, key, memories)
	if err != nil {
		return out, fmt.Errorf("reading the memories of user %s: %w", key.User, err)
	}
	b := &memoryBatch{key: key}
	for _, m := range memories {
		rec, err := newMemoryRecord(m)
		old, ok := there[m.ID]
		switch {
		case err != nil:
			out.Left = append(out.Left, fmt.Sprintf("memory %s: %s", m.ID, err))
		case !ok:
			b.records = append(b.records, rec)
			out.Keys++
		case old == rec.text:
			out.Present++
		default:
			out.Left = append(out.Left, fmt.Sprintf("memory %s: exists with another content", m.ID))
		}
	}
	if i.store != nil && len(b.records) > 0 {
		err = i.store.Memories.backend.putMemories(ctx, b)
	}
	return out, err
}

// readMemories returns the texts of the existing memories, by id.
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

// Revision imports a revision of an app, and reports whether it was missing.
func (i *Importer) Revision(ctx context.Context, rev PackedRevision) (written bool, err error) {
	there := false
	err = i.readExisting(ctx, func(r *ReadOnly) error {
		return r.Each(ctx, func(rows *sql.Rows) error {
			there = true
			return nil
		}, "SELECT v.id FROM revisions v WHERE v.app_name = ? AND v.id = ?", rev.App, rev.row.ID)
	})
	if err == nil && !there && i.backend != nil {
		err = i.backend.writers[0].runWrite(ctx, func(w *writer) error {
			return w.orm.Clauses(clause.OnConflict{DoNothing: true}).Create(&rev.row).Error
		})
	}
	if err != nil {
		return false, fmt.Errorf("writing revision %s of app %s: %w", rev.row.ID, rev.App, err)
	}
	return !there, nil
}
