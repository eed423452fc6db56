package loader

import (
	"os"
	"path"

	"agenthost/internal/policy"
	"agenthost/pkg/spec"
)

// A Policy contains the permissions that a host grants to apps.
type Policy = policy.Policy

// A PolicyHost describes the host that a policy protects: its listeners, names,
// variables and secret values, and whether other machines can reach it (Shared).
type PolicyHost = policy.Host

// ReadPolicy reads a policy file for a host; an empty path is the policy without a
// file. An error about the content is a [spec.Diagnostics].
func ReadPolicy(path string, host PolicyHost) (*Policy, error) {
	var p *Policy
	if path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		n, ds := spec.Parse(path, text)
		if err := ds.Err(); err != nil {
			return nil, err
		}
		if p, ds = policy.Decode(n); ds.HasErrors() {
			return nil, ds.Err()
		}
	}
	return p.For(host), nil
}

// PolicyFiles returns the file kind for the host's policy.
func PolicyFiles() FileKind {
	return FileKind{
		Name: "policy", Matches: func(file string) bool { return path.Base(file) == "policy.yaml" }, Schema: policy.Schema,
		Title: "Policy", About: "The file of `--policy`; see [policy.md](policy.md).", Reference: func() []string { return []string{policy.Reference()} },
	}
}
