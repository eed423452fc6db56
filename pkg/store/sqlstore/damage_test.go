package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"agenthost/pkg/session"
)

// Each damaged page in a database file is a violation with its place, whatever page it is and
// whatever it holds, and never a check error. Sessions that a host can read are counted. Control:
// the file without damage is sound.
func TestVerifyDamagedPages(t *testing.T) {
	const pageBytes = 4096
	whole := writeManySessions(t, 20)
	verify := func(content []byte) *Verification {
		t.Helper()
		path := filepath.Join(t.TempDir(), "x.db")
		mustSucceed(t, "writing", os.WriteFile(path, content, 0o600))
		v, err := allEngines().Verify(t.Context(), "sqlite:///"+path)
		if err != nil {
			t.Fatalf("the check failed: %v", err)
		}
		return v
	}
	if v := verify(whole); !v.Sound() || v.Readable != 20 || v.Unreadable != 0 {
		t.Fatalf("control: %+v", v)
	}
	random := rand.NewChaCha8([32]byte{7})
	partly := 0
	for page := range len(whole) / pageBytes {
		for _, kind := range []string{"zeroed", "random"} {
			content := bytes.Clone(whole)
			damaged := content[page*pageBytes : (page+1)*pageBytes]
			clear(damaged)
			if kind == "random" {
				_, _ = random.Read(damaged)
			}
			v := verify(content)
			if v.Sound() {
				t.Errorf("page %d, %s: no violation", page+1, kind)
			}
			if v.Readable > 0 && v.Unreadable > 0 {
				partly++
			}
		}
	}
	if partly == 0 {
		t.Error("no damage left some sessions readable and others not")
	}
}

// writeManySessions returns a database file's content with n sessions.
func writeManySessions(t *testing.T, n int) []byte {
	t.Helper()
	url := sqliteFile(t)
	s := openStore(t, url, nil)
	for i := range n {
		sess := createSession(t, s, session.Key{App: "app", User: "alice", ID: fmt.Sprint("s", i)}, map[string]any{"k": i})
		for range 4 {
			appendEvent(t, s, sess, textEvent("user", strings.Repeat("hello ", 200)))
		}
	}
	closeStore(t, s)
	content, err := os.ReadFile(strings.TrimPrefix(url, "sqlite:///"))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// A missing table and a value with another type are damage on each engine, and the other rules
// still run.
func TestVerifyMissingTable(t *testing.T) {
	for _, be := range backends()[1:4] {
		t.Run(be.name, func(t *testing.T) {
			url := be.url(t)
			s := openStore(t, url, nil)
			createSession(t, s, alice, map[string]any{"k": 1})
			closeStore(t, s)
			execSQL(t, url, "ALTER TABLE states RENAME TO lost")
			v, err := allEngines().Verify(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			broken := map[string]bool{}
			for _, r := range v.Rules {
				broken[r.Rule] = r.Broken > 0
			}
			if !broken["each state value decodes"] || broken["the first state of each session decodes"] || v.Sessions != 1 || v.Unreadable != 1 {
				t.Errorf("the report is %+v", v)
			}
		})
	}
}

// Errors that mean damage differ from connection errors, on each engine.
func TestDamageErrors(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{context.Canceled, false},
		{errors.New("connection refused"), false},
		{&pgconn.PgError{Code: "XX001"}, true},
		{&pgconn.PgError{Code: "57P01"}, false},
		{&driver.MySQLError{Number: 1194}, true},
		{&driver.MySQLError{Number: 1045}, false},
		{fmt.Errorf("reading: %w", errors.New(`sql: Scan error on column index 0, name "seq"`)), true},
	} {
		got := slices.ContainsFunc(allEngines(), func(e *Engine) bool { return (&readEngine{classify: e.Classify}).isDamage(tt.err) })
		if got != tt.want {
			t.Errorf("isDamage(%v) = %t", tt.err, got)
		}
	}
}
