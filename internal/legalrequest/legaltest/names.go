// Package legaltest tests services' rules for requests.
package legaltest

import (
	"strings"
	"testing"

	"agenthost/internal/legalrequest"
)

// FuzzToolName maps arbitrary names by a service's rules: each gets a legal one, two names
// never the same, and the original is restored.
func FuzzToolName(f *testing.F, rules *legalrequest.Rules) {
	for _, seed := range [][2]string{{"a.b", "a_b"}, {"", "unnamed_tool"}, {"x\xff", "x_"}, {strings.Repeat("x", 70), strings.Repeat("x", 71)}, {"structured_output", "9"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		sentA, restoredA, legalA := mapNames(rules, a)
		sentB, restoredB, legalB := mapNames(rules, a, b)
		if !legalA || !legalB || restoredA != a || restoredB != b || (sentA == sentB) != (a == b) {
			t.Errorf("%q is sent as %q and restored as %q, %q as %q and restored as %q", a, sentA, restoredA, b, sentB, restoredB)
		}
		again, _, _ := mapNames(rules, sentB)
		if again != sentB && sentB != "structured_output" {
			t.Errorf("the legal name %q is sent as %q", sentB, again)
		}
	})
}

// mapNames returns the name that the service gets for the last tool, and the name that is
// restored from it.
func mapNames(rules *legalrequest.Rules, names ...string) (sent, restored string, legal bool) {
	mapped := legalrequest.NewNameMap(&rules.Names)
	for _, name := range names {
		sent = mapped.MapName(name)
	}
	return sent, mapped.RestoreName(sent), rules.Names.IsLegal(sent)
}
