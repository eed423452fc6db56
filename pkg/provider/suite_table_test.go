package provider_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const (
	tableFile  = "../../docs/models.md"
	tableBegin = "<!-- capabilities: go test ./pkg/provider -run TestCapabilityTable -update -->\n"
	tableEnd   = "<!-- end of capabilities -->\n"
)

// The table in docs/models.md is what the suite tests.
func TestCapabilityTable(t *testing.T) {
	raw, err := os.ReadFile(tableFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), tableBegin)
	_, after, closed := strings.Cut(rest, tableEnd)
	if !ok || !closed {
		t.Fatalf("%s has no markers %q and %q", tableFile, tableBegin, tableEnd)
	}
	want := before + tableBegin + "\n" + renderCapabilities() + "\n" + tableEnd + after
	if want == string(raw) {
		return
	}
	if !*update {
		t.Fatalf("the table of %s is not that of the suite: run go test ./pkg/provider -run TestCapabilityTable -update", tableFile)
	}
	if err := os.WriteFile(tableFile, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// renderCapabilities returns the table with a row for each capability, and the reasons of
// what is lacking.
func renderCapabilities() string {
	var b, notes strings.Builder
	head, rule := "| capability | test |", "| --- | --- |"
	for _, s := range suiteSubjects() {
		head += " " + s.title + " |"
		rule += " --- |"
	}
	fmt.Fprintf(&b, "%s\n%s\n", head, rule)
	for _, c := range capabilities() {
		fmt.Fprintf(&b, "| %s | `%s` |", c.title, c.slug)
		var titles []string
		reason := ""
		for _, s := range suiteSubjects() {
			lack, lacking := s.lacks[c.slug]
			switch {
			case lacking:
				b.WriteString(" no |")
				titles, reason = append(titles, s.title), lack.reason
			case c.network && s.local:
				b.WriteString(" – |")
			default:
				b.WriteString(" yes |")
			}
		}
		b.WriteString("\n")
		if reason != "" {
			fmt.Fprintf(&notes, "- %s, not with %s: %s\n", c.title, strings.Join(titles, ", "), reason)
		}
	}
	return b.String() + "\n" + notes.String()
}
