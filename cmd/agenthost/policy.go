package main

import (
	"fmt"
	"os"
	"strings"

	"agenthost/pkg/loader"
	"agenthost/pkg/policy"
	"agenthost/pkg/spec"
)

// grant reads the policy, if there is one, into the options of a loader.
func (f *loadFlags) grant(opts *loader.Options) error {
	if f.policy == "" {
		return nil
	}
	text, err := os.ReadFile(f.policy)
	if err != nil {
		return failedf("--policy: %w", err)
	}
	n, ds := spec.Parse(f.policy, text)
	if !ds.HasErrors() {
		var more spec.Diagnostics
		opts.Policy, more = policy.Decode(n)
		ds = append(ds, more...)
	}
	if !ds.HasErrors() {
		return nil
	}
	var problems strings.Builder
	if err := ds.WriteText(&problems); err != nil {
		return failed(err)
	}
	return &codedError{exitNo, fmt.Errorf("--policy: %s has problems:\n%s", f.policy, strings.TrimSuffix(problems.String(), "\n"))}
}
