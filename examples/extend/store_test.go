package main

import (
	"context"
	"path/filepath"
	"testing"

	"agenthost/examples/extend/kvstore"
	"agenthost/pkg/store"
	"agenthost/pkg/store/storetest"
)

// Sessions in bbolt pass the suite for session backends. A test's stores share the open file.
func TestStore(t *testing.T) {
	suite := &storetest.Suite{Durable: true, LocalClock: true}
	suite.Create = func(t testing.TB) storetest.Database {
		db, err := openBolt(filepath.Join(t.TempDir(), "sessions.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		db.NoSync = true // the tests do not cut the power
		return func(context.Context, *store.Options) (*store.Backends, error) {
			return &store.Backends{Sessions: kvstore.NewSessions(db)}, nil
		}
	}
	suite.Run(t)
}
