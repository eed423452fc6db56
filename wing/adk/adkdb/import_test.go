package adkdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"agenthost/pkg/store/sqlstore"
	"agenthost/pkg/store/sqlstore/sqlite"
)

// engines are the engines under test.
var engines = sqlstore.Engines{sqlite.Engine()}

// endsAfter is a context that is canceled after a number of Done calls.
type endsAfter struct {
	context.Context
	end  context.CancelFunc
	left *atomic.Int64
}

func (c endsAfter) Done() <-chan struct{} {
	if c.left.Add(-1) < 0 {
		c.end()
	}
	return c.Context.Done()
}

// An import that is interrupted at any point leaves only whole sessions in the
// target, and the next import adds the others.
func TestImportInterrupted(t *testing.T) {
	const sessions, events = 10, 250
	dir := t.TempDir()
	source, target := filepath.Join(dir, "source.db"), "sqlite:///"+filepath.Join(dir, "target.db")
	db, err := sql.Open("sqlite", source)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"CREATE TABLE sessions (app_name TEXT, user_id TEXT, id TEXT, state TEXT, create_time REAL, PRIMARY KEY (app_name, user_id, id))",
		"CREATE TABLE events (id TEXT, app_name TEXT, user_id TEXT, session_id TEXT, invocation_id TEXT, timestamp REAL, event_data TEXT, PRIMARY KEY (app_name, user_id, session_id, id))",
		"CREATE TABLE app_states (app_name TEXT, state TEXT)",
		"CREATE TABLE user_states (app_name TEXT, user_id TEXT, state TEXT)",
		fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
INSERT INTO sessions SELECT 'a', 'u', 's' || i, '{"k":1}', i FROM n`, sessions),
		fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
INSERT INTO events SELECT 'e' || i, 'a', 'u', s.id, 'i', 100 - i / 3, '{"author":"user"}' FROM n, sessions s`, events),
	} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	written, cut := 0, 0
	for asks := int64(1); ; asks += asks/16 + 1 {
		c := endsAfter{left: new(atomic.Int64)}
		c.Context, c.end = context.WithCancel(t.Context())
		c.left.Store(asks)
		r, err := Import(c, engines, "sqlite:///"+source, target, nil)
		c.end()
		if r != nil {
			written += r.Sessions.Written
			if r.Events.Written != r.Sessions.Written*events {
				t.Errorf("%d events of %d sessions were written", r.Events.Written, r.Sessions.Written)
			}
		}
		if err == nil {
			break
		}
		if r != nil && r.Sessions.Written > 0 {
			cut++
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if written != sessions || cut == 0 {
		t.Errorf("%d sessions were written in the end, want %d; the import was interrupted %d times", written, sessions, cut)
	}
	v, err := engines.Verify(t.Context(), target)
	if err != nil || !v.Sound() || v.Sessions != sessions || v.Events != sessions*events {
		t.Errorf("Verify = %+v, %v", v, err)
	}
}
