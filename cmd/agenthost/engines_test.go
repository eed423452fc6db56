package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"agenthost/internal/testdb"
)

// TestEngineScripts runs scripts once for each database engine. $ENGINE is its name, $DB and $DB2
// are the URLs of two new databases, and $OTHER is a database on another engine. SQL that differs
// between engines is in files whose names end with -ENGINE.sql.
func TestEngineScripts(t *testing.T) {
	for i, e := range testdb.Engines() {
		others := append(testdb.Engines()[i+1:], testdb.Engines()[:i]...)
		t.Run(e.Name, func(t *testing.T) {
			for _, e := range []testdb.Engine{e, others[0]} {
				if _, err := e.Server(t.Context()); errors.Is(err, testdb.ErrAbsent) {
					t.Skip(err)
				}
			}
			testscript.Run(t, testscript.Params{
				Dir: filepath.Join("testdata", "script", "engines"),
				Setup: func(env *testscript.Env) error {
					env.Setenv("ENGINE", e.Name)
					return errors.Join(setUpScript(env), setUpDB(t, env, "DB", e), setUpDB(t, env, "DB2", e), setUpDB(t, env, "OTHER", others[0]))
				},
				Cmds:                scriptCommands(),
				Condition:           evalCondition,
				RequireExplicitExec: true,
				RequireUniqueNames:  true,
				Deadline:            time.Now().Add(2 * time.Minute),
				UpdateScripts:       updating(),
			})
		})
	}
}

func setUpDB(t *testing.T, env *testscript.Env, name string, e testdb.Engine) error {
	url, drop, err := e.Fresh(t.Context(), env.WorkDir)
	if err != nil {
		return err
	}
	env.Setenv(name, url)
	env.Defer(func() {
		if err := drop(); err != nil {
			t.Error(err)
		}
	})
	return nil
}

// runSQLite runs files of SQL statements on a database file, which it creates if it is
// missing.
func runSQLite(ts *testscript.TestScript, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: sqlite DATABASE FILE.sql...")
	}
	runSQL(ts, append([]string{"sqlite:///" + ts.MkAbs(args[0])}, args[1:]...))
}

// runSQL runs files of SQL statements on the database at a URL.
func runSQL(ts *testscript.TestScript, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: sql URL FILE.sql...")
	}
	for _, file := range args[1:] {
		text, err := os.ReadFile(ts.MkAbs(file))
		ts.Check(err)
		ts.Check(testdb.Exec(context.Background(), args[0], strings.TrimSpace(string(text))))
	}
}
