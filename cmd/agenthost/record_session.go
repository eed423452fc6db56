package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agenthost/internal/command"
	"agenthost/internal/terminal"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
	"agenthost/wing/apptest"
	"agenthost/wing/apptest/testcommand"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalfile"
)

// recordFlags are the flags for record.
type recordFlags struct {
	command.StoreFlags
	load            command.LoadFlags
	user, name, out string
}

func newRecordCommand(env command.Env) *cobra.Command {
	var f recordFlags
	cmd := &cobra.Command{
		Use:   "record APPDIR SESSION",
		Short: "Create a test or an eval case from a stored session",
		Long: `Record prints a stored session as a test: the user's messages and decisions, the
responses of models and of tools with external effects, and expectations for the
calls and the last text of each turn. Record runs the test once; when the app no
longer behaves as in the session, it prints the differences on stderr and exits with
status 1. --db is short for --session-db.

With --out FILE.eval.yaml or FILE.evalset.json, record appends a case to an eval set instead,
or creates the set: the user's messages and decisions, with the calls and responses of the
session as the expected ones. Comments in YAML are kept.

A session contains the user's messages, and so does its test or case: review it before
you share it.`,
		Args:    command.RequireArgs(2, 2),
		PreRunE: command.ApplyEnvironment,
		RunE: func(cmd *cobra.Command, args []string) error {
			return recordSession(cmd.Context(), env, &f, args)
		},
	}
	flags := cmd.Flags()
	f.RegisterFlags(env, flags)
	f.load.RegisterFlags(env, flags)
	flags.SetNormalizeFunc(expandDBFlag)
	flags.StringVar(&f.user, "user", "user", "user of the session")
	flags.StringVar(&f.name, "name", "", "name of the test or case (default: the session's name)")
	flags.StringVar(&f.out, "out", "", "append to this file: a test to root_agent.test.yaml, a case to orders.eval.yaml or orders.evalset.json")
	return cmd
}

// expandDBFlag makes --db an alias of --session-db.
func expandDBFlag(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "db" {
		name = "session-db"
	}
	return pflag.NormalizedName(name)
}

func recordSession(ctx context.Context, env command.Env, f *recordFlags, args []string) error {
	f.PrintLocation(env, args[0])
	l, err := f.load.NewLoader(args[0])
	if err != nil {
		return err
	}
	suite, ds := apptest.OpenSuite(ctx, l, args[0])
	if err := env.WriteDiagnostics(ds); err != nil {
		return err
	}
	if suite == nil {
		return &command.ExitError{Code: command.ExitProblems, Err: fmt.Errorf("%s has problems", args[0])}
	}
	record, err := f.readSession(ctx, session.Key{App: suite.App, User: f.user, ID: args[1]})
	if err != nil {
		return err
	}
	if strings.HasSuffix(f.out, evalfile.Suffix) || strings.HasSuffix(f.out, eval.SetSuffix) {
		return f.recordCase(env, &evalfile.Record{Name: f.name, Session: record.Session, Initial: record.Initial})
	}
	return f.saveTest(ctx, env, suite, record)
}

// saveTest writes the session as a test, and runs the test.
func (f *recordFlags) saveTest(ctx context.Context, env command.Env, suite *apptest.Suite, record *apptest.Record) error {
	record.Own = suite.UnmockedTools
	text, cutOff, err := apptest.Make(record)
	if err != nil {
		return command.FailWithf("cannot create a test from session %s: %w", record.Session.ID, err)
	}
	if cutOff {
		fmt.Fprintf(env.Err, "agenthost: the last turn of session %s has no answer and is not part of the test\n", record.Session.ID)
	}
	if err := f.writeTest(env, text); err != nil {
		return err
	}
	return runRecordedTest(ctx, env, suite, text)
}

// readSession reads the session and its initial state from the store.
func (f *recordFlags) readSession(ctx context.Context, key session.Key) (*apptest.Record, error) {
	st, err := f.OpenStoreFor(ctx, command.ReadDatabase)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	r := &apptest.Record{Name: f.name}
	if r.Session, err = st.Sessions.Get(ctx, key, nil); err != nil {
		return nil, command.FailWith(f.AddLocation(err))
	}
	if r.Initial, err = st.Sessions.Initial(ctx, key); err != nil {
		return nil, command.FailWith(err)
	}
	return r, nil
}

// writeTest prints the test, or appends it to the --out file.
func (f *recordFlags) writeTest(env command.Env, text string) error {
	if f.out == "" {
		_, err := fmt.Fprint(env.Out, text)
		return command.FailWith(err)
	}
	file, err := os.OpenFile(f.out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return command.FailWithf("--out: %w", err)
	}
	if info, err := file.Stat(); err == nil && info.Size() > 0 {
		text = "\n" + text
	}
	if _, err = file.WriteString(text); err != nil {
		file.Close()
		return command.FailWithf("--out: %w", err)
	}
	return command.FailWith(file.Close())
}

// runRecordedTest checks that the new test passes.
func runRecordedTest(ctx context.Context, env command.Env, suite *apptest.Suite, text string) error {
	tests, ds := suite.DecodeTests("the test", []byte(text))
	if ds.HasErrors() {
		return &command.ExitError{Code: command.ExitProblems, Err: fmt.Errorf("the test was created, but is not valid for the current app:\n%w", ds.Err())}
	}
	for _, t := range tests {
		if r := suite.Run(ctx, t); !r.Passed() {
			var out strings.Builder
			if err := testcommand.WriteResult(&out, r); err != nil {
				return command.FailWith(err)
			}
			return &command.ExitError{Code: command.ExitProblems, Err: fmt.Errorf("the test was created, but fails:\n%s", out.String())}
		}
	}
	return nil
}

// recordCase appends a session as a case to the --out eval set.
func (f *recordFlags) recordCase(env command.Env, r *evalfile.Record) error {
	src, err := os.ReadFile(f.out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return command.FailWithf("--out: %w", err)
	}
	text, cutOff, err := appendCase(f.out, src, r)
	if ds := spec.Diagnostics(nil); errors.As(err, &ds) {
		if err := env.WriteDiagnostics(ds); err != nil {
			return err
		}
		return &command.ExitError{Code: command.ExitProblems, Err: fmt.Errorf("session %s was not added to %s", r.Session.ID, f.out)}
	}
	if err != nil {
		return command.FailWithf("cannot create a case from session %s: %w", r.Session.ID, err)
	}
	if cutOff {
		fmt.Fprintf(env.Err, "agenthost: the last turn of session %s has no answer and is not part of the case\n", r.Session.ID)
	}
	return command.FailWith(replaceFile(f.out, text))
}

// appendCase returns an eval file's or set's text with the session as a further case.
func appendCase(file string, src []byte, r *evalfile.Record) (text []byte, cutOff bool, err error) {
	if strings.HasSuffix(file, evalfile.Suffix) {
		return appendToEvalFile(file, src, r)
	}
	return appendToSet(file, src, r)
}

// saveReplayCases is the [replaycommand.CaseWriter]. Sessions that a case cannot express, or that the file has already, are
// reported and left out.
func saveReplayCases(ctx context.Context, env command.Env, st *store.Store, file string, keys []session.Key) (added int, err error) {
	if !strings.HasSuffix(file, evalfile.Suffix) && !strings.HasSuffix(file, eval.SetSuffix) {
		return 0, fmt.Errorf("--save-cases must end with %s or %s, got %q", evalfile.Suffix, eval.SetSuffix, file)
	}
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, command.FailWithf("--save-cases: %w", err)
	}
	for _, key := range keys {
		r := &evalfile.Record{Name: key.User + "-" + key.ID}
		if r.Session, err = st.Sessions.Get(ctx, key, nil); err == nil {
			r.Initial, err = st.Sessions.Initial(ctx, key)
		}
		if err != nil {
			return added, command.FailWith(err)
		}
		with, _, err := appendCase(file, text, r)
		if err != nil {
			fmt.Fprintf(env.Err, "agenthost: session %s is not a case: %s\n", terminal.CleanLine(key.ID), terminal.CleanLine(err.Error()))
			continue
		}
		text, added = with, added+1
	}
	if added == 0 {
		return 0, nil
	}
	return added, command.FailWith(replaceFile(file, text))
}

// appendToEvalFile returns an eval file's text with the session as a further case.
func appendToEvalFile(file string, src []byte, r *evalfile.Record) (text []byte, cutOff bool, err error) {
	item, cutOff, err := evalfile.RenderCase(r)
	if err != nil {
		return nil, cutOff, err
	}
	text, err = evalfile.AppendCase(filepath.ToSlash(file), src, item)
	return text, cutOff, err
}

// appendToSet returns an ADK eval set's text with the session as a further case.
func appendToSet(file string, src []byte, r *evalfile.Record) (text []byte, cutOff bool, err error) {
	c, cutOff, err := evalfile.MakeCase(r)
	if err != nil {
		return nil, cutOff, err
	}
	now := float64(time.Now().UnixMicro()) / 1e6
	id := strings.TrimSuffix(filepath.Base(file), eval.SetSuffix)
	set := &eval.Set{ID: id, Name: id, CreationTimestamp: now}
	if len(src) > 0 {
		if set, err = eval.ReadSet(filepath.ToSlash(file), src, nil); err != nil {
			return nil, cutOff, err
		}
	}
	if set.Case(c.ID) != nil {
		return nil, cutOff, fmt.Errorf("%s has a case %q already: choose another --name", file, c.ID)
	}
	c.CreationTimestamp = now
	set.Cases = append(set.Cases, c)
	text, err = eval.EncodeFile(set)
	return append(text, '\n'), cutOff, err
}

// replaceFile writes a file at once: a reader sees the old or the new content. A new file is
// readable only by its owner, as sessions are.
func replaceFile(file string, text []byte) error {
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	temp, err := os.CreateTemp(filepath.Dir(file), ".record-*")
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(text)
	if err = errors.Join(err, temp.Chmod(mode), temp.Sync(), temp.Close()); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return os.Rename(temp.Name(), file)
}
