package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/rogpeppe/go-internal/testscript"

	"agenthost/internal/testdb"
)

func postgresEngine() testdb.Engine {
	i := slices.IndexFunc(testdb.Engines(), func(e testdb.Engine) bool { return e.Name == "postgres" })
	return testdb.Engines()[i]
}

// evalCondition evaluates the conditions [postgres] and [python]. A test in package wasi is skipped
// where there is no Python.
func evalCondition(name string) (bool, error) {
	if name == "python" {
		_, err := os.Stat(filepath.Join(interpretersFolder, "python-3.11.3.wasm"))
		return err == nil, nil
	}
	if name != "postgres" {
		return false, fmt.Errorf("unknown condition %q", name)
	}
	_, err := postgresEngine().Server(context.Background())
	if errors.Is(err, testdb.ErrAbsent) {
		return false, nil
	}
	return err == nil, err
}

// createPostgres creates a database that is dropped after the script.
func createPostgres(ts *testscript.TestScript, args []string) {
	url, drop, err := postgresEngine().Fresh(context.Background(), "")
	ts.Check(err)
	ts.Defer(func() { ts.Check(drop()) })
	ts.Setenv(args[0], url)
}
