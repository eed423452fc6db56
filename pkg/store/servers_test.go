package store

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"testing"

	"agenthost/internal/testdb"
)

func engineByName(name string) testdb.Engine {
	i := slices.IndexFunc(testdb.Engines(), func(e testdb.Engine) bool { return e.Name == name })
	return testdb.Engines()[i]
}

// engineURL is the URL of a server that answers; without one the test is
// skipped.
func engineURL(t testing.TB, engine string) *url.URL {
	t.Helper()
	u, err := engineByName(engine).Server(t.Context())
	skipAbsent(t, err)
	return u
}

func skipAbsent(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, testdb.ErrAbsent) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// newDatabase is the URL of a database that is dropped when the test ends.
func newDatabase(t testing.TB, engine string) string {
	t.Helper()
	at, drop, err := engineByName(engine).Fresh(t.Context(), t.TempDir())
	skipAbsent(t, err)
	t.Cleanup(func() {
		if err := drop(); err != nil {
			t.Error(err)
		}
	})
	return at
}

func sqliteFile(t testing.TB) string { return newDatabase(t, "sqlite") }

func postgresSchema(t testing.TB) string { return newDatabase(t, "postgres") }

// poolerSchema is a schema behind a pooler with few connections to its server.
func poolerSchema(t testing.TB) string { return startPooler(t, postgresSchema(t), 3) }

func mysqlDatabase(t testing.TB) string { return newDatabase(t, "mysql") }

// execSQL executes SQL statements without the store.
func execSQL(t testing.TB, url, text string) {
	t.Helper()
	if err := testdb.Exec(t.Context(), url, text); err != nil {
		t.Fatal(err)
	}
}

// startPooler returns the URL of a PostgreSQL database behind a PgBouncer with
// transaction pooling.
func startPooler(t testing.TB, at string, size int) string {
	t.Helper()
	p, err := testdb.StartPooler(t.Context(), engineURL(t, "postgres"), t.TempDir(), size)
	if errors.Is(err, testdb.ErrNoPooler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	through, err := p.Through(at)
	if err != nil {
		t.Fatal(err)
	}
	return through
}

// cleanUp is carryOut after the test.
func cleanUp(t testing.TB, url, text string) {
	t.Helper()
	if err := testdb.Exec(context.Background(), url, text); err != nil {
		t.Error(err)
	}
}
