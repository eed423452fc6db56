package main

import (
	"cmp"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// postgresVariable names the server that scripts make databases on, unless it
// is the one at the usual port of this machine.
const postgresVariable = "AGENTHOST_TEST_POSTGRES"

func postgresServer() (*url.URL, error) {
	return url.Parse(cmp.Or(os.Getenv(postgresVariable), "postgres://postgres@127.0.0.1:5432/test"))
}

// condition knows postgres: there is a server. One that was named and does not
// answer is an error.
func condition(name string) (bool, error) {
	if name != "postgres" {
		return false, fmt.Errorf("unknown condition %q", name)
	}
	server, err := postgresServer()
	if err != nil {
		return false, err
	}
	conn, err := net.DialTimeout("tcp", server.Host, patience)
	if err != nil {
		if os.Getenv(postgresVariable) != "" {
			return false, fmt.Errorf("%s names a server that does not answer: %w", postgresVariable, err)
		}
		return false, nil
	}
	return true, conn.Close()
}

// postgres makes a database that ends with the script.
func postgres(ts *testscript.TestScript, args []string) {
	server, err := postgresServer()
	ts.Check(err)
	db, err := sql.Open("pgx", server.String())
	ts.Check(err)
	name := "agenthost_script_" + strings.ToLower(rand.Text()[:10])
	_, err = db.Exec("CREATE DATABASE " + name)
	ts.Check(err)
	ts.Defer(func() {
		_, err := db.Exec("DROP DATABASE " + name + " WITH (FORCE)")
		db.Close()
		ts.Check(err)
	})
	server.Path = "/" + name
	server.RawQuery = "pool_size=4" // other tests need connections too
	ts.Setenv(args[0], server.String())
}
