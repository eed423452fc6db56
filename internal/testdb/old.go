package testdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// failureStatus is a failing command's exit status.
const failureStatus = 3

// An OldDatabase is the database of an app echo with a session, a memory and a revision, which can
// be turned into an older agenthost's. Commands run on it.
type OldDatabase struct {
	// URL is $DB, and other $OTHER.
	URL, other string
	// Current is the program's schema version.
	Current  int64
	revision string
	runArgs  func(ctx context.Context, args []string) (code int, out string)
}

// NewOldDatabase writes the app into a folder, in which runArgs runs agenthost with arguments, and
// creates its session in the empty databases at two URLs.
func NewOldDatabase(ctx context.Context, dir, at, other string, runArgs func(ctx context.Context, args []string) (code int, out string)) (*OldDatabase, error) {
	for name, text := range map[string]string{
		"root_agent.yaml": "name: echo\nmodel: demo\ninstruction: Repeat.\n",
		"app.yaml":        "models:\n  demo: {provider: scripted, script: s.yaml}\n",
		"s.yaml":          "- text: \"You wrote: {user}\"\n",
		"a.eval.yaml":     "metrics: {response_match: 0.1}\ncases:\n  - name: a\n    user: hi\n    expect: {text: \"You wrote: hi\"}\n",
	} {
		path := filepath.Join(dir, "echo", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			return nil, err
		}
	}
	o := &OldDatabase{URL: at, other: other, runArgs: runArgs}
	for _, c := range []Command{
		{"db migrate", "$OTHER", Migrates},
		{"run", "echo hi --session s", Migrates},
		{"memory add", "echo s", Writes},
	} {
		if code, out := o.Run(ctx, c); code != 0 {
			return nil, fmt.Errorf("%s %s: exit status %d: %s", c.Name, c.Args, code, out)
		}
	}
	_, out := o.Run(ctx, Command{"revisions", "echo", Reads})
	fields := strings.Fields(out)
	if len(fields) < 4 {
		return nil, fmt.Errorf("revisions echo: no revision in %q", out)
	}
	o.revision = fields[3]
	var err error
	o.Current, err = readVersion(ctx, at)
	return o, err
}

func readVersion(ctx context.Context, at string) (version int64, err error) {
	db, err := Open(at)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, "SELECT max(version) FROM schema_migrations").Scan(&version)
	return version, err
}

// Run runs a command on the database, and returns its exit status and its output.
func (o *OldDatabase) Run(ctx context.Context, c Command) (code int, out string) {
	args := strings.NewReplacer("$DB", o.URL, "$OTHER", o.other, "REVISION", cmp.Or(o.revision, "none")).Replace(c.Args)
	argv := append(strings.Fields(c.Name), strings.Fields(args)...)
	if !strings.Contains(c.Args, "$DB") {
		argv = append(argv, "--session-db", o.URL)
	}
	return o.runArgs(ctx, argv)
}

// CheckKept runs a command on the older schema version that the database has. It returns an
// error if the command changes the schema or a row, does not read what it can read, or does
// not name the version and db migrate.
func (o *OldDatabase) CheckKept(ctx context.Context, c Command, version int64) error {
	before, err := DumpDatabase(ctx, o.URL)
	if err != nil {
		return err
	}
	code, out := o.Run(ctx, c)
	after, err := DumpDatabase(ctx, o.URL)
	refused := c.Use == Writes || c.Use == Reads && version < OldestRead
	switch {
	case err != nil:
		return err
	case after != before:
		return fmt.Errorf("%s %s changed schema version %d: %s", c.Name, c.Args, version, describeChange(before, after))
	case c.Use == Refuses && code == failureStatus:
		return nil
	case !refused && code != 0:
		return fmt.Errorf("%s %s on version %d: exit status %d, want 0\n%s", c.Name, c.Args, version, code, out)
	case refused && (code != failureStatus || !strings.Contains(out, "database has schema version "+strconv.FormatInt(version, 10)+", and ")):
		return fmt.Errorf("%s %s on version %d: exit status %d, want 3 with the version\n%s", c.Name, c.Args, version, code, out)
	case refused && !strings.Contains(out, "hint: run agenthost db migrate"):
		return fmt.Errorf("%s %s on version %d has no way out: %s", c.Name, c.Args, version, out)
	}
	return nil
}

// describeChange returns a dump's first change with the characters around it.
func describeChange(before, after string) string {
	at := 0
	for at < min(len(before), len(after)) && before[at] == after[at] {
		at++
	}
	around := func(dump string) string { return dump[max(0, min(at, len(dump))-100):min(at+200, len(dump))] }
	return fmt.Sprintf("%q became %q", around(before), around(after))
}

// CheckMigrates is CheckKept's control: it returns an error if a command does not migrate the
// schema version that the database has, or does not change the database's dump.
func (o *OldDatabase) CheckMigrates(ctx context.Context, c Command, version int64) error {
	before, err := DumpDatabase(ctx, o.URL)
	if err != nil {
		return err
	}
	code, out := o.Run(ctx, c)
	after, err := DumpDatabase(ctx, o.URL)
	warning := fmt.Sprintf("warning: migrated the database schema from=%d to=%d", version, o.Current)
	switch {
	case err != nil:
		return err
	case code != 0 || !strings.Contains(out, warning):
		return fmt.Errorf("%s %s: exit status %d, want 0 with %q\n%s", c.Name, c.Args, code, warning, out)
	case after == before:
		return fmt.Errorf("control: %s %s has not changed the database", c.Name, c.Args)
	}
	return nil
}
