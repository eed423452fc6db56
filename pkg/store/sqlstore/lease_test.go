package sqlstore

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// A lease costs no flush to the disk; an event always has one.
func TestLeaseWritesNotSynced(t *testing.T) {
	for _, tt := range []struct{ query, light, whole string }{{"", "1", "2"}, {"?synchronous=normal", "1", "1"}} {
		s := openStore(t, sqliteFile(t)+tt.query, nil)
		createSession(t, s, alice, nil)
		level := func() (level string) {
			conn := s.db.writers[0].conn
			if err := conn.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&level); err != nil {
				t.Fatal(err)
			}
			return level
		}
		defer acquire(t, s.Sessions, alice)()
		diff(t, "synchronous of the lease"+tt.query, tt.light, level())
		appendEvent(t, s, getSession(t, s, alice, nil), textEvent("user", "hi"))
		diff(t, "synchronous of the event"+tt.query, tt.whole, level())
	}
}

// A killed host's sessions are released immediately where liveness locks are supported; a slow
// host's, or those whose owner has no lock, are not.
func TestLeaseOfKilledProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: liveness locks require Linux")
	}
	url := sqliteFile(t)
	o := &store.Options{Lease: time.Hour}
	a, b := openStore(t, url, o), openStore(t, url, o)
	sess := createSession(t, a, alice, nil)
	defer acquire(t, a.Sessions, alice)()
	_, _, err := b.Sessions.Acquire(t.Context(), alice, 0)
	wantErr(t, "Acquire while the holder lives", err, session.ErrBusy, "")
	if err := a.db.liveness.close(); err != nil {
		t.Fatal(err)
	}
	a.db.liveness = nil
	release := acquire(t, b.Sessions, alice)
	wantErr(t, "late append", a.Sessions.Append(t.Context(), sess, textEvent("user", "hi")), session.ErrFenced, "")
	release()
	closeStore(t, b)

	c := openStore(t, url, o)
	execSQL(t, url, fmt.Sprintf("UPDATE sessions SET lease_owner = 'old/1/12345678', lease_until = %d", time.Now().Add(time.Hour).UnixMicro()))
	_, _, err = c.Sessions.Acquire(t.Context(), alice, 0)
	wantErr(t, "Acquire of what an older version holds", err, session.ErrBusy, "of old/1/12345678")
}
