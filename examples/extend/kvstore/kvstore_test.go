package kvstore_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"agenthost/examples/extend/kvstore"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
	"agenthost/pkg/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The sessions pass the suite on a database that runs each write twice, as one does
// after a conflict.
func TestConformance(t *testing.T) {
	suite := &storetest.Suite{LocalClock: true, Durable: true}
	suite.Create = func(testing.TB) storetest.Database {
		db := &mapDB{conflicts: true}
		return func(context.Context, *store.Options) (*store.Backends, error) {
			return &store.Backends{Sessions: kvstore.NewSessions(db)}, nil
		}
	}
	suite.Run(t)
}

// A damaged or missing row is an error with its place. It is not the client's fault.
func TestDamagedRows(t *testing.T) {
	tests := []struct{ name, key, value, want string }{
		{"head", "happ\x00ana\x00s", "{", "session app/ana/s is damaged: head: unexpected end of JSON input"},
		{"head ID", "happ\x00ana\x00s", "{}", "session app/ana/s is damaged: head: id 0, version 0, 0 bytes"},
		{"event", "e\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01", "\x02{}{", "session app/ana/s is damaged: event 1: "},
		{"event without provenance", "e\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01", "\x7f", "session app/ana/s is damaged: event 1: row is incomplete"},
		{"missing event", "e\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01", "", "session app/ana/s is damaged: event 1: row is missing"},
		{"missing last event", "e\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02", "", "session app/ana/s is damaged: event 2: row is missing"},
		{"state", "sapp\x00ana\x00s\x00k", "nul", `session app/ana/s is damaged: state key "k": reading a state value: `},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			db := &mapDB{}
			key := session.Key{App: "app", User: "ana", ID: "s"}
			writeTwoEvents(t, db, key)
			err := db.Update(t.Context(), func(tx kvstore.Tx) error {
				if tt.value == "" {
					return tx.Delete([]byte(tt.key))
				}
				return tx.Put([]byte(tt.key), []byte(tt.value))
			})
			if err != nil {
				t.Fatal(err)
			}
			_, err = openStore(t, db).Sessions.Get(t.Context(), key, nil)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) || errors.Is(err, session.ErrInvalid) {
				t.Errorf("Get = %v, want %s", err, tt.want)
			}
		})
	}
}

// Event provenance is stored.
func TestProvenance(t *testing.T) {
	db := &mapDB{}
	key := session.Key{App: "app", User: "ana", ID: "s"}
	writeTwoEvents(t, db, key)
	sess, err := openStore(t, db).Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := sess.Events()[1].Provenance; got != (session.Provenance{Revision: "r2"}) {
		t.Errorf("provenance = %+v", got)
	}
}

// writeTwoEvents creates a session with two events and a state key.
func writeTwoEvents(t *testing.T, db *mapDB, key session.Key) {
	t.Helper()
	st := openStore(t, db)
	sess, err := st.Sessions.Create(t.Context(), key, map[string]any{"k": 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, revision := range []string{"r1", "r2"} {
		ev := &session.Event{Author: "user", Provenance: session.Provenance{Revision: revision}, Response: model.Response{Content: model.UserText("hi")}}
		if err := st.Sessions.Append(t.Context(), sess, ev); err != nil {
			t.Fatal(err)
		}
	}
}

func openStore(t *testing.T, db *mapDB) *store.Store {
	t.Helper()
	st := store.New(&store.Backends{
		Sessions: kvstore.NewSessions(db), Artifacts: memstore.NewArtifacts(),
		Memories: memstore.NewMemories(), Revisions: memstore.NewRevisions(),
	}, nil)
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

// A mapDB is a key-value database in memory.
type mapDB struct {
	mu     sync.RWMutex
	keys   []string // sorted
	values map[string][]byte
	// conflicts makes Update run each write twice and drop the first result.
	conflicts bool
}

func (db *mapDB) View(_ context.Context, read func(kvstore.Tx) error) error {
	db.mu.RLock()
	defer db.mu.RUnlock()
	return read(&mapTx{db: db})
}

func (db *mapDB) Update(_ context.Context, write func(kvstore.Tx) error) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.conflicts {
		tx := &mapTx{db: db}
		_ = write(tx)
		tx.rollback()
	}
	tx := &mapTx{db: db}
	err := write(tx)
	if err != nil {
		tx.rollback()
	}
	return err
}

// A mapTx writes to its database, and can undo that.
type mapTx struct {
	db   *mapDB
	undo []func()
}

func (tx *mapTx) rollback() {
	for _, undo := range slices.Backward(tx.undo) {
		undo()
	}
}

func (tx *mapTx) Get(key []byte) ([]byte, error) { return tx.db.values[string(key)], nil }

func (tx *mapTx) Put(key, value []byte) error {
	tx.set(string(key), bytes.Clone(value))
	return nil
}

func (tx *mapTx) Delete(key []byte) error {
	tx.set(string(key), nil)
	return nil
}

func (tx *mapTx) set(key string, value []byte) {
	old := tx.db.values[key]
	tx.undo = append(tx.undo, func() { tx.db.set(key, old) })
	tx.db.set(key, value)
}

func (db *mapDB) set(key string, value []byte) {
	i, has := slices.BinarySearch(db.keys, key)
	switch {
	case value == nil && has:
		db.keys = slices.Delete(db.keys, i, i+1)
		delete(db.values, key)
		return
	case value == nil:
		return
	case !has:
		db.keys = slices.Insert(db.keys, i, key)
	}
	if db.values == nil {
		db.values = map[string][]byte{}
	}
	db.values[key] = value
}

func (tx *mapTx) Scan(from, to []byte, each func(key, value []byte) error) error {
	i, _ := slices.BinarySearch(tx.db.keys, string(from))
	for ; i < len(tx.db.keys) && tx.db.keys[i] < string(to); i++ {
		if err := each([]byte(tx.db.keys[i]), tx.db.values[tx.db.keys[i]]); err != nil {
			return err
		}
	}
	return nil
}
