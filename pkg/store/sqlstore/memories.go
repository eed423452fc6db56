package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// sqlMemories stores memories in an SQL database.
type sqlMemories struct {
	b *Database
	// closing closes its own database; nil if the sessions share it.
	closing func() error
}

// runUserWrite runs one user's write. A user's writes run one after the other.
func (m sqlMemories) runUserWrite(ctx context.Context, who store.UserKey, what string, run func(db *gorm.DB) error) error {
	w := m.b.writerFor(session.Key{App: who.App, User: who.User})
	return m.b.wrapError(what, w.runWrite(ctx, func(w *writer) error { return run(w.orm) }))
}

// rowsAtOnce limits one statement's parameters.
const rowsAtOnce = 300

func (m sqlMemories) PutMemories(ctx context.Context, b *store.MemoryBatch) error {
	return m.runUserWrite(ctx, b.UserKey(), "adding memories", func(db *gorm.DB) error { return writeMemories(db, b) })
}

func writeMemories(db *gorm.DB, b *store.MemoryBatch) error {
	who, err := findMemoryOwner(db, b.UserKey())
	if err == nil && who == 0 && len(b.Records) > 0 {
		row := memoryOwnerRow{App: b.Key.App, User: b.Key.User}
		if err := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&row).Error; err != nil {
			return err
		}
		who, err = findMemoryOwner(db, b.UserKey())
	}
	if err != nil || who == 0 {
		return err
	}
	there, err := queryExistingMemories(db, who, b)
	if err != nil {
		return err
	}
	texts := map[string]string{}
	for id, row := range there {
		texts[id] = row.Memory
	}
	write, remove := b.DiffExisting(texts)
	var gone []int64
	for _, id := range remove {
		gone = append(gone, there[id].PK)
	}
	for some := range slices.Chunk(gone, rowsAtOnce) {
		if err := db.Where("memory_pk IN ?", some).Delete(&memoryTermRow{}).Error; err != nil {
			return err
		}
		if err := db.Where("pk IN ?", some).Delete(&memoryRow{}).Error; err != nil {
			return err
		}
	}
	for _, rec := range write {
		if err := insertMemory(db, who, b.Key.ID, rec); err != nil {
			return err
		}
	}
	return nil
}

// findMemoryOwner returns 0 if the user has no memories.
func findMemoryOwner(db *gorm.DB, who store.UserKey) (pk int64, err error) {
	q := db.Model(&memoryOwnerRow{}).Select("pk").Where("app_name = ? AND user_id = ?", who.App, who.User)
	err = q.Limit(1).Scan(&pk).Error
	return pk, err
}

// queryExistingMemories returns the rows to compare a batch with, by id: all in its session if it
// prunes, else those with its ids.
func queryExistingMemories(db *gorm.DB, who int64, b *store.MemoryBatch) (map[string]memoryRow, error) {
	there := map[string]memoryRow{}
	find := func(ids []string) error {
		var rows []memoryRow
		q := db.Select("pk", "id", "memory").Where("owner_pk = ? AND session_id = ?", who, b.Key.ID)
		if ids != nil {
			q = q.Where("id IN ?", ids)
		}
		err := q.Find(&rows).Error
		for _, row := range rows {
			there[row.ID] = row
		}
		return err
	}
	if b.Prune {
		return there, find(nil)
	}
	for some := range slices.Chunk(b.Records, rowsAtOnce) {
		ids := make([]string, len(some))
		for i, rec := range some {
			ids[i] = rec.ID
		}
		if err := find(ids); err != nil {
			return nil, err
		}
	}
	return there, nil
}

func insertMemory(db *gorm.DB, who int64, id string, rec *store.MemoryRecord) error {
	row := memoryRow{Owner: who, Session: id, ID: rec.ID, Time: rec.Time, Memory: rec.Text}
	res := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&row)
	// No row: another process has added the same memory meanwhile.
	if res.Error != nil || res.RowsAffected == 0 || len(rec.Terms) == 0 {
		return res.Error
	}
	for terms := range slices.Chunk(rec.Terms, rowsAtOnce) {
		args := make([]any, 0, 3*len(terms))
		for _, term := range terms {
			args = append(args, who, term, row.PK)
		}
		values := strings.Repeat(", (?, ?, ?)", len(terms))[2:]
		if err := db.Exec("INSERT INTO memory_terms (owner_pk, term, memory_pk) VALUES "+values, args...).Error; err != nil {
			return err
		}
	}
	return nil
}

func (m sqlMemories) DeleteUser(ctx context.Context, who store.UserKey) error {
	return m.runUserWrite(ctx, who, "deleting memories", func(db *gorm.DB) error {
		pk, err := findMemoryOwner(db, who)
		if err != nil || pk == 0 {
			return err
		}
		for _, row := range []table{&memoryTermRow{}, &memoryRow{}} {
			if err := db.Where("owner_pk = ?", pk).Delete(row).Error; err != nil {
				return err
			}
		}
		return db.Where("pk = ?", pk).Delete(&memoryOwnerRow{}).Error
	})
}

func (m sqlMemories) CountTerms(ctx context.Context, who store.UserKey, terms []string) (store.TermCounts, error) {
	var t store.TermCounts
	err := m.b.retryRead(ctx, func(ctx context.Context) (err error) {
		t, err = countMemoryTerms(m.b.readers.WithContext(ctx), who, terms)
		return err
	})
	return t, m.b.wrapError("counting memories", err)
}

func countMemoryTerms(db *gorm.DB, who store.UserKey, terms []string) (store.TermCounts, error) {
	t := store.TermCounts{ByTerm: map[string]int{}}
	pk, err := findMemoryOwner(db, who)
	if err != nil || pk == 0 {
		return t, err
	}
	var all int64
	if err := db.Model(&memoryRow{}).Where("owner_pk = ?", pk).Count(&all).Error; err != nil {
		return t, err
	}
	t.Total = int(all)
	var selects []string
	var args []any
	for i, term := range terms { // each count is limited to ManyMemories+1
		selects = append(selects, fmt.Sprintf("SELECT %d AS i, count(*) AS n FROM (SELECT memory_pk FROM memory_terms WHERE owner_pk = ? AND term = ? LIMIT %d) t",
			i, store.ManyMemories+1))
		args = append(args, pk, term)
	}
	var counts []struct{ I, N int }
	err = db.Raw(strings.Join(selects, " UNION ALL "), args...).Scan(&counts).Error
	for _, c := range counts {
		t.ByTerm[terms[c.I]] = c.N
	}
	return t, err
}

func (m sqlMemories) SearchMemories(ctx context.Context, s *store.MemorySearch) ([]*session.Memory, error) {
	var texts []string
	err := m.b.retryRead(ctx, func(ctx context.Context) (err error) {
		db := m.b.readers.WithContext(ctx)
		texts = nil // of an earlier attempt
		pk, err := findMemoryOwner(db, s.Owner)
		if err != nil || pk == 0 {
			return err
		}
		text, args := buildSearchSQL(pk, s)
		return db.Raw(text, args...).Scan(&texts).Error
	})
	if err != nil {
		return nil, m.b.wrapError("searching memories", err)
	}
	memories := make([]*session.Memory, len(texts))
	for i, text := range texts {
		if memories[i], err = store.DecodeMemory(text); err != nil {
			return nil, err
		}
	}
	return memories, nil
}

// buildSearchSQL sums the weights by memory. Each term is a primary key range. Weights are
// literals, because engines differ in a parameter's type there.
func buildSearchSQL(pk int64, s *store.MemorySearch) (text string, args []any) {
	var hits []string
	for _, w := range s.Weights {
		hits = append(hits, "SELECT memory_pk, "+strconv.FormatInt(w.Points, 10)+" AS points FROM memory_terms WHERE owner_pk = ? AND term = ?")
		args = append(args, pk, w.Term)
	}
	text = "SELECT m.memory FROM (SELECT h.memory_pk, sum(h.points) AS points FROM (" + strings.Join(hits, " UNION ALL ") +
		") h GROUP BY h.memory_pk) f JOIN memories m ON m.pk = f.memory_pk"
	if s.NotSession != "" {
		text += " WHERE m.session_id <> ?"
		args = append(args, s.NotSession)
	}
	return text + " ORDER BY f.points DESC, m.timestamp DESC, m.pk DESC LIMIT " + strconv.Itoa(s.Limit), args
}

func (m sqlMemories) Close() error {
	if m.closing == nil {
		return nil
	}
	return m.closing()
}
