package store

import (
	"cmp"
	"context"
	"database/sql"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/stdlib"
)

// The servers that the suite runs on, unless AGENTHOST_TEST_POSTGRES and
// AGENTHOST_TEST_MYSQL name others. A test has a schema or a database of its
// own there.
const (
	postgresServer = "postgres://postgres@127.0.0.1:5432/test"
	mysqlServer    = "mysql://root@127.0.0.1:3306/test"
)

// serverOf is the URL of a server that answers; without one the test is
// skipped.
func serverOf(t testing.TB, variable, otherwise string) *url.URL {
	t.Helper()
	u, err := url.Parse(cmp.Or(os.Getenv(variable), otherwise))
	if err != nil {
		t.Fatalf("%s is no URL", variable)
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", u.Host)
	if err != nil {
		t.Skipf("SKIPPED: no server of %s: %v", variable, err)
	}
	conn.Close()
	return u
}

func freshName() string { return "t" + strings.ReplaceAll(uuid.NewString(), "-", "") }

// fresh makes something on a server and drops it when the test ends.
func fresh(t testing.TB, db *sql.DB, create, drop string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if _, err := db.ExecContext(ctx, create); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := db.ExecContext(ctx, drop); err != nil {
			t.Error(err)
		}
		db.Close()
	})
}

func postgresSchema(t testing.TB) string {
	u := serverOf(t, "AGENTHOST_TEST_POSTGRES", postgresServer)
	server, err := parseServer("//"+strings.SplitN(u.String(), "://", 2)[1], "5432", postgresParams())
	if err != nil {
		t.Fatal(err)
	}
	config, err := postgresConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	name := freshName()
	fresh(t, stdlib.OpenDB(*config), "CREATE SCHEMA "+name, "DROP SCHEMA "+name+" CASCADE")
	q := u.Query()
	q.Set("search_path", name)
	q.Set("pool_size", "8") // other tests need connections too
	u.RawQuery = q.Encode()
	return u.String()
}

func mysqlDatabase(t testing.TB) string {
	u := serverOf(t, "AGENTHOST_TEST_MYSQL", mysqlServer)
	server, err := parseServer("//"+strings.SplitN(u.String(), "://", 2)[1], "3306", mysqlParams())
	if err != nil {
		t.Fatal(err)
	}
	config, err := mysqlConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	connector, err := driver.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	name := freshName()
	fresh(t, sql.OpenDB(connector), "CREATE DATABASE "+name, "DROP DATABASE "+name)
	u.Path = "/" + name
	return u.String()
}
