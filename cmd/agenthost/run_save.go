package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"agenthost/wing/apptest"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalfile"
)

// saveTest appends the session as a test to a file, and runs the test, as the command record does.
func (t *conversation) saveTest(ctx context.Context, file string) error {
	suite, ds := apptest.OpenSuite(ctx, t.loader, t.dir)
	if err := t.env.WriteDiagnostics(ds); err != nil {
		return err
	}
	if suite == nil {
		return fmt.Errorf("%s has problems", t.dir)
	}
	f, record, err := t.newRecord(ctx, cmp.Or(file, filepath.Join(t.dir, "saved.test.yaml")))
	if err != nil {
		return err
	}
	if !strings.HasSuffix(f.out, ".test.yaml") {
		return fmt.Errorf("/save-test must be followed by a file named *.test.yaml, got %s", f.out)
	}
	if err := f.saveTest(ctx, t.env, suite, record); err != nil {
		return err
	}
	fmt.Fprintf(t.env.Err, "saved as test %q in %s\n", record.Name, f.out)
	return nil
}

// saveCase appends the session as an eval case to a file.
func (t *conversation) saveCase(ctx context.Context, file string) error {
	f, record, err := t.newRecord(ctx, cmp.Or(file, filepath.Join(t.dir, "saved"+evalfile.Suffix)))
	if err != nil {
		return err
	}
	if !strings.HasSuffix(f.out, evalfile.Suffix) && !strings.HasSuffix(f.out, eval.SetSuffix) {
		return fmt.Errorf("/save-case must be followed by a file named *%s or *%s, got %s", evalfile.Suffix, eval.SetSuffix, f.out)
	}
	if err := f.recordCase(t.env, &evalfile.Record{Name: record.Name, Session: record.Session, Initial: record.Initial}); err != nil {
		return err
	}
	fmt.Fprintf(t.env.Err, "saved as case %q in %s\n", record.Name, f.out)
	return nil
}

// newRecord returns the session as a record. Its name is the session's, with a number if the file
// has it already.
func (t *conversation) newRecord(ctx context.Context, file string) (*recordFlags, *apptest.Record, error) {
	st := t.host.Store()
	record := &apptest.Record{Name: t.key.ID}
	var err error
	if record.Session, err = t.readSession(ctx); err != nil {
		return nil, nil, err
	}
	if record.Initial, err = st.Sessions.Initial(ctx, t.key); err != nil {
		return nil, nil, err
	}
	file = expandHome(strings.Trim(file, `"`))
	if written, err := os.ReadFile(file); err == nil {
		for n := 2; strings.Contains(string(written), record.Name) && n < 1000; n++ {
			record.Name = fmt.Sprintf("%s-%d", t.key.ID, n)
		}
	}
	return &recordFlags{out: file, name: record.Name}, record, nil
}
