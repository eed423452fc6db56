package main

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/internal/testdb"
)

// TestSchemaKept: commands that run no app leave an older version's database as it is, on each
// engine and for each version, so that an older agenthost can still start. They read what they can,
// and otherwise name the version and db migrate. Control: run and db migrate change it.
func TestSchemaKept(t *testing.T) {
	for _, e := range testdb.Engines() {
		t.Run(e.Name, func(t *testing.T) {
			if _, err := e.Server(t.Context()); errors.Is(err, testdb.ErrAbsent) {
				t.Skip(err)
			}
			old := newOldDatabase(t, e)
			for version := old.Current - 1; version >= 1; version-- {
				downgrade(t, old, version)
				for _, c := range testdb.Commands() {
					if c.Use == testdb.Migrates {
						continue
					}
					if err := old.CheckKept(t.Context(), c, version); err != nil {
						t.Error(err)
					}
				}
			}
			if err := old.CheckMigrates(t.Context(), testdb.Command{Name: "db migrate", Args: "$DB"}, 1); err != nil {
				t.Error(err)
			}
			downgrade(t, old, testdb.OldestRead)
			if err := old.CheckMigrates(t.Context(), testdb.Command{Name: "run", Args: "echo hi --session m"}, testdb.OldestRead); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDatabaseCommandsListed: each command with a database is in the list.
func TestDatabaseCommandsListed(t *testing.T) {
	listed := map[string]bool{}
	for _, c := range testdb.Commands() {
		listed[c.Name] = true
	}
	found := map[string]bool{}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		_, path, _ := strings.Cut(cmd.CommandPath(), " ")
		if cmd.Flags().Lookup("session-db") != nil || cmd.Flags().Lookup("memory") != nil {
			found[path] = true
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(newRootCommand(command.Env{}))
	if want, got := slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(listed)); !slices.Equal(want, got) {
		t.Errorf("commands with a database:\n%s\nin the list:\n%s", want, got)
	}
}

// TestReadersCreateNothing: commands that only read create no database file and no folder.
func TestReadersCreateNothing(t *testing.T) {
	old := newOldDatabase(t, testdb.Engines()[0])
	old.URL = "sqlite:///" + filepath.Join(t.TempDir(), "sub", "missing.db")
	for _, c := range testdb.Commands() {
		if c.Use != testdb.Reads && c.Use != testdb.ReadsAll {
			continue
		}
		old.Run(t.Context(), c)
		if _, err := os.Stat(filepath.Dir(strings.TrimPrefix(old.URL, "sqlite:///"))); err == nil {
			t.Fatalf("%s %s created a folder", c.Name, c.Args)
		}
	}
}

func newOldDatabase(t *testing.T, e testdb.Engine) *testdb.OldDatabase {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	fresh := func(e testdb.Engine) string {
		url, drop, err := e.Fresh(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := drop(); err != nil {
				t.Error(err)
			}
		})
		return url
	}
	old, err := testdb.NewOldDatabase(t.Context(), dir, fresh(e), fresh(testdb.Engines()[0]), func(ctx context.Context, args []string) (code int, out string) {
		var b bytes.Buffer
		code = run(ctx, args, command.Env{In: strings.NewReader(""), Out: &b, Err: &b})
		return code, b.String()
	})
	if err != nil {
		t.Fatal(err)
	}
	return old
}

func downgrade(t *testing.T, old *testdb.OldDatabase, version int64) {
	t.Helper()
	if err := testdb.Downgrade(t.Context(), old.URL, version); err != nil {
		t.Fatal(err)
	}
}
