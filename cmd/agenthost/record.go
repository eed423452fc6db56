package main

import (
	"errors"
	"os"

	"agenthost/internal/command"
	"agenthost/pkg/loader"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// runRecorded runs a verb and appends its models' and tools' responses to a script. It appends to
// an existing file, because a session continues too.
func runRecorded(file string, run func(opts *loader.Options) error) error {
	out, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return command.FailWithf("--record: %w", err)
	}
	rec := provider.NewRecorder(out)
	err = run(&loader.Options{WrapModel: rec.Wrap, WrapTool: loader.RecordTools(rec)})
	if writeErr := errors.Join(rec.Err(), out.Close()); err == nil {
		err = command.FailWith(writeErr)
	}
	return err
}

// replayOptions returns loader options that replay model and tool responses from a record.
func replayOptions(env command.Env, file string) (*loader.Options, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, command.FailWithf("--replay: %w", err)
	}
	n, ds := spec.Parse(file, text)
	var script *provider.Script
	if !ds.HasErrors() {
		var more spec.Diagnostics
		script, more = provider.DecodeScript(n)
		ds = append(ds, more...)
	}
	if err := env.WriteDiagnostics(ds); err != nil {
		return nil, err
	}
	if ds.HasErrors() {
		return nil, command.FailWithf("--replay: %s has problems", file)
	}
	return &loader.Options{Model: provider.NewScripted(script, nil), WrapTool: loader.ReplayTools(script)}, nil
}
