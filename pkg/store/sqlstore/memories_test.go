package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"agenthost/pkg/store"
)

// A database without memories, as the first version made it, gets them.
func TestMemoryTablesMigration(t *testing.T) {
	url := sqliteFile(t)
	s := openStore(t, url, nil)
	createSession(t, s, alice, nil)
	err := s.db.writers[0].runWrite(t.Context(), func(w *writer) error {
		for _, statement := range []string{
			"DROP TABLE memories", "DROP TABLE memory_terms", "DROP TABLE memory_owners", "DELETE FROM schema_migrations WHERE version >= 2",
		} {
			if _, err := w.conn.ExecContext(context.Background(), statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	s = openStore(t, url, nil)
	addEvents(t, s, alice, eventAtMinute("e", "user", "word", 1))
	diff(t, "memories", "word", searchText(t, s, alice, "word"))
	getSession(t, s, alice, nil)
}

func TestMemoryDeleteRemovesRows(t *testing.T) {
	s := openStore(t, sqliteFile(t), nil)
	addEvents(t, s, alice, eventAtMinute("e", "user", "two words", 1))
	addToMemory(t, s, newSession(alice, eventAtMinute("f", "user", "other words", 1)))
	count := func(table string) (n int) {
		b := s.db
		if err := b.reads.QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count("memory_terms"); n != 2 {
		t.Errorf("%d terms after a replacement, want 2", n)
	}
	if err := s.Memories.DeleteAll(t.Context(), "app", "alice"); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"memories", "memory_terms", "memory_owners"} {
		if n := count(table); n != 0 {
			t.Errorf("%s has %d rows", table, n)
		}
	}
}

// A long session is added and replaced in portions.
func TestManyMemories(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url string) {
		s := openStore(t, url, nil)
		sess := newSession(alice)
		for i := range 2*rowsAtOnce + 1 {
			sess.History.Append(eventAtMinute(fmt.Sprint(i), "user", fmt.Sprintf("n%d %s", i, strings.Repeat("天地玄黄宇宙洪荒", i%3)), i))
		}
		addToMemory(t, s, sess)
		addEvents(t, s, alice, sess.Events()...)
		diff(t, "found", "n600 ", searchText(t, s, alice, "n600"))
		addToMemory(t, s, newSession(alice, eventAtMinute("0", "user", "left", 1)))
		diff(t, "replaced", "left", searchText(t, s, alice, "left n600 天地"))
	})
}

// The rows that a search reads do not grow with the other memories.
func TestMemoryPlan(t *testing.T) {
	s := openStore(t, sqliteFile(t), nil)
	text, args := buildSearchSQL(1, &store.MemorySearch{Weights: []store.TermWeight{{Term: "a", Points: 1}, {Term: "b", Points: 2}}, NotSession: "s", Limit: 3})
	rows, err := s.db.reads.Query("EXPLAIN QUERY PLAN "+text, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(step, "SCAN memor") || strings.Contains(step, "SCAN m") {
			t.Errorf("the search has the step %s", step)
		}
	}
}

func TestMemoryDamagedRow(t *testing.T) {
	s := openStore(t, sqliteFile(t), nil)
	addEvents(t, s, alice, eventAtMinute("e", "user", "word", 1))
	b := s.db
	err := b.writers[0].runWrite(t.Context(), func(w *writer) error {
		_, err := w.conn.ExecContext(context.Background(), "UPDATE memories SET memory = '['")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Memories.Search(t.Context(), "app", "alice", store.MemoryQuery{Text: "word"})
	if err == nil || !strings.Contains(err.Error(), "reading a memory") {
		t.Errorf("Search = %v", err)
	}
}
