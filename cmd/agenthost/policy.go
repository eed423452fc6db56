package main

import (
	"agenthost/pkg/loader"
	"agenthost/pkg/policy"
)

// grant reads the policy, if there is one, into the options of a loader.
func (f *loadFlags) grant(opts *loader.Options) error {
	if f.policy == "" {
		return nil
	}
	n, err := readDocument("--policy", f.policy)
	if err != nil {
		return err
	}
	p, ds := policy.Decode(n)
	opts.Policy = p
	return problemsOf("--policy", f.policy, ds)
}
