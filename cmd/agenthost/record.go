package main

import (
	"errors"
	"os"

	"agenthost/pkg/loader"
	"agenthost/pkg/provider"
)

// recording lets a verb run with its models' answers added to a script. A file
// that was there goes on at its end, as a session does.
func recording(file string, run func(opts *loader.Options) error) error {
	out, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return failedf("--record: %w", err)
	}
	rec := provider.NewRecorder(out)
	err = run(&loader.Options{Wrap: rec.Wrap})
	if lost := errors.Join(rec.Err(), out.Close()); err == nil {
		err = failed(lost)
	}
	return err
}
