package modeltest_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const (
	tableFile  = "../../docs/models.md"
	tableBegin = "<!-- capabilities: go test ./internal/modeltest -run TestCapabilityTable -update -->\n"
	tableEnd   = "<!-- end of capabilities -->\n"
)

// The tables in docs/models.md are what the suite tests.
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
		t.Fatalf("the table of %s is not that of the suite: run go test ./internal/modeltest -run TestCapabilityTable -update", tableFile)
	}
	if err := os.WriteFile(tableFile, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// renderCapabilities returns two tables with a row for each capability, and what happens
// where one is lacking.
func renderCapabilities() string {
	var names []string
	for _, s := range suiteSubjects() {
		names = append(names, "`"+s.name+"`")
	}
	return "PROVIDER is one of these, in the order of the columns: " + strings.Join(names, ", ") + ".\n\n" +
		renderTable("request", requestRows()) + "\n" + renderTable("failure", failureRows())
}

func renderTable(subject string, rows []capability) string {
	var b, notes strings.Builder
	head, rule := "| "+subject+" | TEST |", "| --- | --- |"
	for _, s := range suiteSubjects() {
		head += " " + s.title + " |"
		rule += " --- |"
	}
	fmt.Fprintf(&b, "%s\n%s\n", head, rule)
	for _, c := range rows {
		fmt.Fprintf(&b, "| %s | `%s` |", c.title, c.slug)
		for _, s := range suiteSubjects() {
			fmt.Fprintf(&b, " %s |", c.cell(s))
		}
		b.WriteString("\n")
		writeLacks(&notes, c)
	}
	if notes.Len() > 0 {
		b.WriteString("\n" + notes.String())
	}
	return b.String()
}

func (c capability) cell(s *suiteSubject) string {
	if _, lacking := s.lacks[c.slug]; lacking {
		return "no"
	}
	if c.network && s.local {
		return "–"
	}
	return "yes"
}

// writeLacks writes a line for each reason why providers lack a capability.
func writeLacks(b *strings.Builder, c capability) {
	var reasons []string
	titles := map[string][]string{}
	for _, s := range suiteSubjects() {
		if lack, ok := s.lacks[c.slug]; ok {
			if titles[lack.reason] == nil {
				reasons = append(reasons, lack.reason)
			}
			titles[lack.reason] = append(titles[lack.reason], s.title)
		}
	}
	for _, reason := range reasons {
		fmt.Fprintf(b, "- `%s`, no with %s: %s.\n", c.slug, strings.Join(titles[reason], ", "), reason)
	}
}
