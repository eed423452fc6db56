package main

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"agenthost/internal/testdb"
)

// The uses of a database by a command. Only migrates may change the schema.
const (
	migrates = "migrates" // an older schema becomes the current one
	reads    = "reads"    // reads schema version 5 and later
	readsAll = "reads all"
	writes   = "writes" // requires the current version
)

// oldestRead is the first schema version that commands read without migrating it.
const oldestRead = 5

// A databaseCommand is a command line that opens $DB. $OTHER is an agenthost database with
// the current schema.
type databaseCommand struct{ name, args, use string }

// databaseCommands returns all commands with a database. A command that is not in the list
// fails [TestSchemaKept].
func databaseCommands() []databaseCommand {
	return []databaseCommand{
		{"serve", "", migrates}, // in the script serve-old-schema
		{"run", "echo hi --session m", migrates},
		{"db migrate", "$DB", migrates},

		{"db status", "$DB", readsAll},
		{"db check", "$DB", readsAll},
		{"session list", "echo", reads},
		{"session list", "echo --limit 5", reads},
		{"session show", "echo s", reads},
		{"session show", "echo s --json", reads},
		{"session prune", "echo --older-than 1ns --dry-run", reads},
		{"memory search", "echo hi", reads},
		{"memory search", "echo hi --memory $DB", reads},
		{"revisions", "echo", reads},
		{"diff", "echo REVISION", reads},
		{"plan", "echo", reads},
		{"rollback", "echo REVISION", reads},
		{"why", "echo s", reads},
		{"preview", "echo --session s hi", reads},
		{"record", "echo s", reads},
		{"db import", "$DB --session-db $OTHER", reads},
		{"db import", "$DB --session-db $OTHER --dry-run", reads},

		{"db import", "$OTHER --session-db $DB", writes},
		{"db import", "$OTHER --session-db $DB --dry-run", writes},
		{"session delete", "echo s", writes},
		{"session rewind", "echo s --turns 1", writes},
		{"session rewind", "echo s --turns 1 hi", writes},
		{"session prune", "echo --older-than 1ns", writes},
		{"memory add", "echo s", writes},
		{"memory delete", "echo s", writes},
		{"eval", "echo", writes},
	}
}

// TestSchemaKept: commands that run no app leave the schema of an older version as it is,
// on each engine and for each version, so that an older agenthost can still start. They
// read what they can, and otherwise name the version and db migrate. Control: run and db
// migrate change it.
func TestSchemaKept(t *testing.T) {
	for _, e := range testdb.Engines() {
		t.Run(e.Name, func(t *testing.T) {
			if _, err := e.Server(t.Context()); errors.Is(err, testdb.ErrAbsent) {
				t.Skip(err)
			}
			k := newSchemaKeeper(t, e)
			for version := k.current - 1; version >= 1; version-- {
				k.downgrade(version)
				for _, c := range databaseCommands() {
					if c.use != migrates {
						k.expectKept(c, version)
					}
				}
			}
			before := k.dump()
			k.expect(exitOK, "warning: migrated the database schema from=1 to=", databaseCommand{"db migrate", "$DB", migrates})
			if k.dump() == before {
				t.Error("control: db migrate has not changed the schema")
			}
			k.downgrade(oldestRead)
			before = k.dump()
			k.expect(exitOK, "warning: migrated the database schema from=5 to=", databaseCommand{"run", "echo hi --session m", migrates})
			if k.dump() == before {
				t.Error("control: run has not changed the schema")
			}
		})
	}
}

// TestDatabaseCommandsListed: each command with a database is in the list.
func TestDatabaseCommandsListed(t *testing.T) {
	listed := map[string]bool{}
	for _, c := range databaseCommands() {
		listed[c.name] = true
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
	walk(newRootCommand(stdio{}))
	if want, got := slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(listed)); !slices.Equal(want, got) {
		t.Errorf("commands with a database:\n%s\nin the list:\n%s", want, got)
	}
}

// TestReadersCreateNothing: commands that only read create no database file and no folder.
func TestReadersCreateNothing(t *testing.T) {
	k := newSchemaKeeper(t, testdb.Engines()[0])
	k.db = "sqlite:///" + filepath.Join(k.dir, "sub", "missing.db")
	for _, c := range databaseCommands() {
		if c.use != reads && c.use != readsAll {
			continue
		}
		k.run(c)
		if _, err := os.Stat(filepath.Join(k.dir, "sub")); err == nil {
			t.Fatalf("%s %s created a folder", c.name, c.args)
		}
	}
}

// A schemaKeeper has a database with a session, a memory, a revision and a result.
type schemaKeeper struct {
	t              *testing.T
	dir, db, other string
	revision       string
	current        int64
}

func newSchemaKeeper(t *testing.T, e testdb.Engine) *schemaKeeper {
	t.Helper()
	k := &schemaKeeper{t: t, dir: t.TempDir()}
	t.Chdir(k.dir)
	for name, text := range map[string]string{
		"echo/root_agent.yaml": "name: echo\nmodel: demo\ninstruction: Repeat.\n",
		"echo/app.yaml":        "models:\n  demo: {provider: scripted, script: s.yaml}\n",
		"echo/s.yaml":          "- text: \"You wrote: {user}\"\n",
		"echo/a.eval.yaml":     "metrics: {response_match: 0.1}\ncases:\n  - name: a\n    user: hi\n    expect: {text: \"You wrote: hi\"}\n",
	} {
		if err := errors.Join(os.MkdirAll("echo", 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	fresh := func(e testdb.Engine) string {
		url, drop, err := e.Fresh(t.Context(), k.dir)
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
	k.db, k.other = fresh(e), fresh(testdb.Engines()[0])
	k.expect(exitOK, "", databaseCommand{"db migrate", "$OTHER", migrates})
	k.expect(exitOK, "", databaseCommand{"run", "echo hi --session s", migrates})
	k.expect(exitOK, "", databaseCommand{"memory add", "echo s", writes})
	out := k.expect(exitOK, "", databaseCommand{"revisions", "echo", reads})
	k.revision = strings.Fields(out)[3]
	for k.current = 1; !strings.Contains(k.expect(exitOK, "", databaseCommand{"db status", "$DB", readsAll}), "version "+strconv.FormatInt(k.current, 10)+", required"); {
		k.current++
	}
	return k
}

// run runs a command on the database, and returns its exit status and its output.
func (k *schemaKeeper) run(c databaseCommand) (code int, out string) {
	k.t.Helper()
	args := strings.NewReplacer("$DB", k.db, "$OTHER", k.other, "REVISION", cmp.Or(k.revision, "none")).Replace(c.args)
	argv := append(strings.Fields(c.name), strings.Fields(args)...)
	if !strings.Contains(c.args, "$DB") {
		argv = append(argv, "--session-db", k.db)
	}
	var b bytes.Buffer
	code = run(k.t.Context(), argv, stdio{in: strings.NewReader(""), out: &b, err: &b})
	return code, b.String()
}

func (k *schemaKeeper) expect(code int, text string, c databaseCommand) string {
	k.t.Helper()
	got, out := k.run(c)
	if got != code || !strings.Contains(out, text) {
		k.t.Errorf("%s %s: exit status %d, want %d with %q\n%s", c.name, c.args, got, code, text, out)
	}
	return out
}

// expectKept runs a command on a schema version, which must stay.
func (k *schemaKeeper) expectKept(c databaseCommand, version int64) {
	k.t.Helper()
	before := k.dump()
	code, text := exitOK, ""
	switch {
	case c.use == writes, c.use == reads && version < oldestRead:
		code, text = exitFailure, "database has schema version "+strconv.FormatInt(version, 10)+", and "
	}
	out := k.expect(code, text, c)
	if code == exitFailure && !strings.Contains(out, "hint: run agenthost db migrate") {
		k.t.Errorf("%s %s on version %d has no way out: %s", c.name, c.args, version, out)
	}
	if after := k.dump(); after != before {
		k.t.Fatalf("%s %s changed schema version %d:\n%s\nto\n%s", c.name, c.args, version, before, after)
	}
}

// dump describes the schema, and the contents of a database file.
func (k *schemaKeeper) dump() string {
	k.t.Helper()
	text, err := testdb.DumpSchema(k.t.Context(), k.db)
	if err != nil {
		k.t.Fatal(err)
	}
	if path, ok := strings.CutPrefix(k.db, "sqlite:///"); ok {
		b, err := os.ReadFile(path)
		if err != nil {
			k.t.Fatal(err)
		}
		text += string(b)
	}
	return text
}

func (k *schemaKeeper) downgrade(version int64) {
	k.t.Helper()
	if err := testdb.Downgrade(k.t.Context(), k.db, version); err != nil {
		k.t.Fatal(err)
	}
}
