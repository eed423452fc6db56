package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
)

func TestReopenKeepsData(t *testing.T) {
	url := sqliteFile(t)
	s := openStore(t, url, nil)
	sess := createSession(t, s, alice, map[string]any{"k": 1, "user:k": "u", "app:k": []any{true}})
	for i := range 300 {
		appendEvent(t, s, sess, textEvent("user", fmt.Sprint(i)))
	}
	want := plainState(t, sess)
	closeStore(t, s)

	s = openStore(t, url, nil)
	diff(t, "session", want, plainState(t, getSession(t, s, alice, nil)))
}

// Two stores on one file see each other's writes, and do not confuse a recreated
// session with a cached one.
func TestTwoStoresOnOneFile(t *testing.T) {
	url := sqliteFile(t)
	a, b := openStore(t, url, nil), openStore(t, url, nil)
	mine := createSession(t, a, alice, nil)
	theirs := getSession(t, b, alice, nil)
	appendEvent(t, b, theirs, stateEvent(map[string]any{"k": "b"}))
	wantErr(t, "stale append", a.Sessions.Append(t.Context(), mine, textEvent("user", "x")), session.ErrStale, "")
	diff(t, "the first sees", plainState(t, theirs), plainState(t, getSession(t, a, alice, nil)))

	if err := b.Sessions.Delete(t.Context(), alice); err != nil {
		t.Fatal(err)
	}
	recreated := createSession(t, b, alice, nil)
	appendEvent(t, b, recreated, textEvent("user", "first"))
	appendEvent(t, b, recreated, textEvent("user", "second"))
	diff(t, "the first sees the new one", plainState(t, recreated), plainState(t, getSession(t, a, alice, nil)))
	if err := b.Sessions.Delete(t.Context(), alice); err != nil {
		t.Fatal(err)
	}
	_, err := a.Sessions.Get(t.Context(), alice, nil)
	wantErr(t, "the first", err, session.ErrNotFound, "")
	var wg sync.WaitGroup
	for i, s := range []*testStore{a, b, a, b} {
		wg.Go(func() {
			sess := createSession(t, s, session.Key{App: "app", User: "u", ID: fmt.Sprint(i)}, nil)
			for range 50 {
				appendEvent(t, s, sess, textEvent("user", "hi"))
			}
		})
	}
	wg.Wait()
}

func TestDeleteRemovesRows(t *testing.T) {
	s := openStore(t, sqliteFile(t), nil)
	sess := createSession(t, s, alice, map[string]any{"k": 1, "user:k": 2})
	appendEvent(t, s, sess, stateEvent(map[string]any{"l": 1}))
	if err := s.Sessions.Delete(t.Context(), alice); err != nil {
		t.Fatal(err)
	}
	for table, want := range map[string]int{"sessions": 0, "events": 0, "states": 1} {
		var got int
		b := s.db
		if err := b.reads.QueryRow("SELECT count(*) FROM " + table).Scan(&got); err != nil || got != want {
			t.Errorf("%s has %d rows, %v, want %d", table, got, err, want)
		}
	}
}

// One job that fails half way takes no other of its batch with it, and leaves
// the writer as it was.
func TestBatchWithFailingJob(t *testing.T) {
	s := openStore(t, sqliteFile(t), nil)
	sess := createSession(t, s, alice, nil)
	w := s.db.writers[0]
	broken := errors.New("disk on fire")
	write := func(id string) *job {
		return &job{run: func(w *writer) error {
			return w.orm.Create(&sessionRow{App: "app", User: "u", Session: id}).Error
		}}
	}
	batch := []*job{
		write("one"),
		{run: func(w *writer) error {
			return errors.Join(w.orm.Create(&sessionRow{App: "app", User: "u", Session: "bad"}).Error, broken)
		}},
		{run: func(*writer) error { return backend.SessionStale("x", 1, 2) }},
		write("two"),
	}
	w.commitBatch(batch)
	for i, want := range []error{nil, broken, session.ErrStale, nil} {
		if !errors.Is(batch[i].err, want) {
			t.Errorf("job %d = %v, want %v", i, batch[i].err, want)
		}
	}
	list, err := s.Sessions.List(t.Context(), "app", "u")
	if err != nil || len(list) != 2 {
		t.Errorf("%d sessions, %v, want the two of the good jobs", len(list), err)
	}
	appendEvent(t, s, sess, textEvent("user", "hi"))
}

// An event that is there already does not spoil what else is in its batch.
func TestBatchRepeatedEvent(t *testing.T) {
	s := openStore(t, sqliteFile(t), nil)
	sess := createSession(t, s, alice, nil)
	ev := textEvent("user", "hi")
	ev.ID = "one"
	appendEvent(t, s, sess, ev)
	b := s.db
	repeat := &appendJob{AppendRecord: store.AppendRecord{Key: alice, Version: 1, Event: ev}}
	other := stateEvent(nil)
	other.ID = "two"
	next := &appendJob{AppendRecord: store.AppendRecord{Key: alice, Version: 1, Event: other}}
	batch := []*job{
		{run: func(w *writer) error { return w.insertEvent(repeat, b.dialect) }},
		{run: func(w *writer) error { return w.insertEvent(next, b.dialect) }},
	}
	b.writers[0].commitBatch(batch)
	if !errors.Is(batch[0].err, errConflict) || batch[1].err != nil || next.seq != 2 {
		t.Errorf("jobs = %v, %v; seq %d", batch[0].err, batch[1].err, next.seq)
	}
}

// A write that is canceled in the queue has no effect, and the others continue.
func TestWriteQueueCancelled(t *testing.T) {
	s := openStore(t, sqliteFile(t), nil)
	w := s.db.writers[0]
	started, proceed := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		err := w.runWrite(t.Context(), func(*writer) error { close(started); <-proceed; return nil })
		if err != nil {
			t.Errorf("the first job: %v", err)
		}
	})
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := w.runWrite(ctx, func(*writer) error { t.Error("a job ran that was taken back"); return nil })
	wantErr(t, "cancelled job", err, context.Canceled, "")
	for range 3 * maxBatch {
		wg.Go(func() {
			if err := w.runWrite(t.Context(), func(*writer) error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	close(proceed)
	wg.Wait()
	if w.busy || len(w.queue) != 0 {
		t.Errorf("busy %v, %d in the queue", w.busy, len(w.queue))
	}
}

func TestCloseWaitsForWrites(t *testing.T) {
	url := sqliteFile(t)
	s := openStore(t, url, nil)
	sess := createSession(t, s, alice, nil)
	w := s.db.writers[0]
	started, proceed := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.runWrite(t.Context(), func(*writer) error { close(started); <-proceed; return nil }) })
	<-started
	wg.Go(func() { appendEvent(t, s, sess, textEvent("user", "hi")) })
	for queued := 0; queued == 0; {
		w.mu.Lock()
		queued = len(w.queue)
		w.mu.Unlock()
	}
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	for !w.isClosed() {
	}
	close(proceed)
	wg.Wait()
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if n := getSession(t, openStore(t, url, nil), alice, nil).History.Len(); n != 1 {
		t.Errorf("%d events after Close, want 1", n)
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	url := sqliteFile(t)
	s := openStore(t, url, nil)
	row := migrationRow{Version: 99, Name: "future"}
	err := s.db.writers[0].runWrite(t.Context(), func(w *writer) error { return w.orm.Create(&row).Error })
	if err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	_, err = allEngines().Open(t.Context(), url, nil)
	if err == nil || !strings.Contains(err.Error(), "database has schema version 99, this program supports versions up to 13: use a newer agenthost or another database") {
		t.Errorf("Open = %v", err)
	}
}

func TestForeignDatabaseIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.db")
	if err := os.WriteFile(file, []byte(strings.Repeat("no database", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := allEngines().Open(t.Context(), "sqlite:///"+file, nil)
	if err == nil || !strings.Contains(err.Error(), "file is not a database") {
		t.Errorf("Open = %v", err)
	}
}

func TestConcurrentOpenFile(t *testing.T) {
	url := sqliteFile(t)
	runConcurrently(t, 4, func(int) error {
		s, err := allEngines().Open(t.Context(), url, nil)
		if err != nil {
			return err
		}
		return s.Close()
	})
}

// The migrations lead to the tables that the row types describe.
func TestSchema(t *testing.T) {
	s := openStore(t, sqliteFile(t), nil)
	db := s.db.readers
	for _, row := range []table{
		&sessionRow{}, &fullEventRow{}, &stateRow{}, &memoryOwnerRow{}, &memoryRow{}, &memoryTermRow{}, &migrationRow{},
	} {
		stmt := &gorm.Statement{DB: db}
		if err := stmt.Parse(row); err != nil {
			t.Fatal(err)
		}
		for _, column := range stmt.Schema.DBNames {
			if !db.Migrator().HasColumn(row, column) {
				t.Errorf("table %s has no column %s", row.TableName(), column)
			}
		}
	}
	for _, index := range []string{"sessions_key", "events_id", "memory_owners_key", "memories_key"} {
		var unique int
		err := db.Raw("SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND name = ? AND sql LIKE 'CREATE UNIQUE%'", index).Scan(&unique).Error
		if err != nil || unique != 1 {
			t.Errorf("unique index %s: %d, %v", index, unique, err)
		}
	}
}

// The tables and indexes of a new file are those that earlier programs created, to the byte.
func TestSQLiteSchemaText(t *testing.T) {
	want, err := os.ReadFile("testdata/sqlite_schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	err = openStore(t, sqliteFile(t), nil).db.readers.Raw("SELECT sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name").Scan(&texts).Error
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "schema", string(want), strings.Join(texts, ";\n")+";\n")
}

// The last program that closes a database file removes its -wal and -shm files, so that it
// can be copied; one that closes it earlier leaves them to the others.
func TestCloseRemovesWAL(t *testing.T) {
	url := sqliteFile(t)
	first, second := openStore(t, url, nil), openStore(t, url, nil)
	createSession(t, first, alice, nil)
	path := strings.TrimPrefix(url, "sqlite:///")
	for i, s := range []*testStore{first, second} {
		closeStore(t, s)
		for _, end := range []string{"-wal", "-shm"} {
			if _, err := os.Stat(path + end); (err == nil) != (i == 0) {
				t.Errorf("%s after close %d: %v", end, i+1, err)
			}
		}
	}
}

func TestPragmas(t *testing.T) {
	for query, want := range map[string]string{"": "2", "?synchronous=normal": "1"} {
		s := openStore(t, sqliteFile(t)+query, nil)
		b := s.db
		for pragma, want := range map[string]string{"journal_mode": "wal", "foreign_keys": "1", "synchronous": want, "busy_timeout": formatMillis(defaultTimeout)} {
			var got string
			if err := b.writers[0].conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
				t.Errorf("%s of the writer%s = %s, %v, want %s", pragma, query, got, err, want)
			}
		}
		if _, err := b.reads.Exec("DELETE FROM sessions"); err == nil {
			t.Error("a reader can write")
		}
	}
}

// Queries on long sessions use an index.
func TestQueryPlans(t *testing.T) {
	s := openStore(t, sqliteFile(t), nil)
	b := s.db
	plan := func(query string, args ...any) string {
		rows, err := b.reads.Query("EXPLAIN QUERY PLAN "+query, args...)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var steps []string
		for rows.Next() {
			var id, parent, unused int
			var step string
			if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
				t.Fatal(err)
			}
			steps = append(steps, step)
		}
		return strings.Join(steps, "\n")
	}
	dry := b.readers.Session(&gorm.Session{DryRun: true})
	old := time.Unix(1, 0)
	narrow := (&Database{readers: dry, provenance: b.provenance}).narrowQuery(t.Context(), store.Head{ID: 1, Version: 2}, store.EventWindow{Last: 5, After: &old}).Find(&[]eventRow{}).Statement
	for name, p := range map[string]string{
		"head":   plan(fmt.Sprintf(headSQL, b.outcome), "a", "u", "s"),
		"events": plan(fmt.Sprintf(eventsSQL, b.provenance), 1, 0, 9),
		"narrow": plan(narrow.SQL.String(), narrow.Vars...),
	} {
		if strings.Contains(p, "SCAN") || strings.Contains(p, "TEMP B-TREE") {
			t.Errorf("plan of the read %s:\n%s", name, p)
		}
	}
}

func TestDatabaseFilePermissions(t *testing.T) {
	url := sqliteFile(t)
	openStore(t, url, nil)
	info, err := os.Stat(strings.TrimPrefix(url, "sqlite:///"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("database file: %v, %v, want mode 0600", info.Mode(), err)
	}
}

// A page is read from an index, in its order: nothing is sorted or looked
// through.
func TestPageUsesIndex(t *testing.T) {
	b := openStore(t, sqliteFile(t), nil).db
	for user, index := range map[string]string{"": "sessions_of_app (app_name=? AND pk>?)", "u": "sessions_of_user (app_name=? AND user_id=? AND pk>?)"} {
		var plan []struct{ Detail string }
		q := b.readers.Session(&gorm.Session{DryRun: true})
		var heads []headRow
		st := queryHeads(store.SessionQuery{App: "app", User: user, After: 7, Limit: 10}, q).Find(&heads).Statement
		if err := b.readers.Raw("EXPLAIN QUERY PLAN "+st.SQL.String(), st.Vars...).Scan(&plan).Error; err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(plan)
		if !strings.Contains(text, index) || strings.Contains(text, "TEMP B-TREE") || strings.Contains(text, "SCAN s") {
			t.Errorf("user %q: %s", user, text)
		}
	}
}

// A deleted session leaves no row in any table, and no artifact of its own.
func TestStoreDeleteRemovesAllRows(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url string) {
		s := openStore(t, url, nil)
		sess := createSession(t, s, alice, map[string]any{"k": 1})
		release := acquire(t, s.Sessions, alice)
		appendEvent(t, s, sess, stateEvent(map[string]any{"l": 1}))
		release()
		saveText(t, s, alice, "note.txt")
		if err := s.Delete(t.Context(), alice, 0); err != nil {
			t.Fatal(err)
		}
		b := s.db
		for _, table := range tableNames() {
			var n int
			if err := b.reads.QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil || n != 0 {
				t.Errorf("%s has %d rows, %v", table, n, err)
			}
		}
		if names, err := s.Artifacts.Keys(t.Context(), alice); err != nil || len(names) != 0 {
			t.Errorf("artifacts = %v, %v", names, err)
		}
	})
}

// TestStatsOfWrites: each write of a database is counted, and so is each
// transaction.
func TestStatsOfWrites(t *testing.T) {
	st := openStore(t, sqliteFile(t), nil)
	before := st.Stats()
	sess, err := st.Sessions.Create(t.Context(), alice, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Sessions.Append(t.Context(), sess, &session.Event{Author: session.UserAuthor}); err != nil {
		t.Fatal(err)
	}
	got := st.Stats()
	if w, n := got.Writes-before.Writes, got.Transactions-before.Transactions; w != 2 || n != 2 {
		t.Errorf("a session and an event are %d writes in %d transactions, want 2 in 2", w, n)
	}
}
