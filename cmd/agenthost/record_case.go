package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"agenthost/internal/command"
	"agenthost/pkg/spec"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalfile"
)

// recordCase appends a session as a case to the eval set of --out.
func (f *recordFlags) recordCase(env command.Env, r *evalfile.Record) error {
	src, err := os.ReadFile(f.out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return command.FailWithf("--out: %w", err)
	}
	appendCase := appendToSet
	if strings.HasSuffix(f.out, evalfile.Suffix) {
		appendCase = appendToEvalFile
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

// appendToEvalFile returns the text of an eval file with the session as a further case.
func appendToEvalFile(file string, src []byte, r *evalfile.Record) (text []byte, cutOff bool, err error) {
	item, cutOff, err := evalfile.RenderCase(r)
	if err != nil {
		return nil, cutOff, err
	}
	text, err = evalfile.AppendCase(filepath.ToSlash(file), src, item)
	return text, cutOff, err
}

// appendToSet returns the text of an eval set of ADK with the session as a further case.
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
