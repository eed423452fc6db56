package loader

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/store"
)

// formatReports returns the reports after a number, one per line.
func (s *watchEnv) formatReports(after int) string {
	var b strings.Builder
	reports, _ := s.watch.Reports(after)
	for _, r := range reports {
		fmt.Fprintf(&b, "%d %s %s", r.Number, r.App, r.Kind)
		if (r.From == r.To) != (r.Kind == ReportRecovered || r.Kind == ReportRefused) {
			b.WriteString(", the wrong revisions")
		}
		for _, c := range r.Changes {
			fmt.Fprintf(&b, "; %s %s %s", c.Where, c.Field, c.Kind)
		}
		b.WriteString(strings.Join(append([]string{""}, r.Files...), " "))
		b.WriteString("\n")
	}
	return b.String()
}

// TestReportsEachSave covers what each save reports: a change by agent and field, an error once,
// its fix, and the folder's removal.
func TestReportsEachSave(t *testing.T) {
	s := newServingEnv(t)
	_, more := s.watch.Reports(1)
	s.writeFile("x/root_agent.yaml", "name: a\ninstruction: y\ndescription: one\n")
	s.pollAndExpect(2, "x one")
	select {
	case <-more:
	default:
		t.Error("no notification of new reports")
	}
	s.writeFile("x/root_agent.yaml", "name: a\ninstuction: y\n")
	s.pollAndExpect(4)
	s.writeFile("x/root_agent.yaml", "name: a\ninstruction: y\ndescription: one\n")
	s.pollAndExpect(2)
	s.writeFile("x/root_agent.yaml", "# why\nname: a\ninstruction: y\ndescription: one\n")
	s.pollAndExpect(2, "x one")
	s.must(os.RemoveAll(s.path("x")))
	s.pollAndExpect(2, "-x")
	want := `2 x loaded; agent a instruction changed root_agent.yaml
3 x refused
4 x recovered
5 x loaded root_agent.yaml
6 x removed
`
	if diff := cmp.Diff(want, s.formatReports(1)); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
}

// TestReportsManualReload covers how a pending change is reported.
func TestReportsManualReload(t *testing.T) {
	s := newWatchEnv(t)
	s.writeFile("x/app.yaml", "reload: {sessions: manual}\n")
	s.writeFile("x/root_agent.yaml", agentYAML("one"))
	s.must(s.watch.Sync(t.Context()))
	s.writeFile("x/root_agent.yaml", agentYAML("two"))
	s.pollAndExpect(3)
	s.must(s.watch.Sync(t.Context()))
	want := `2 x waiting; agent a description changed root_agent.yaml
3 x loaded; agent a description changed root_agent.yaml
`
	if diff := cmp.Diff(want, s.formatReports(1)); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
}

// TestReportsAreBounded expects the oldest reports to be dropped.
func TestReportsAreBounded(t *testing.T) {
	j := newJournal(listKinds())
	for range maxReports + 3 {
		j.appendReport(Report{}, nil, nil)
	}
	last, _ := j.reportsAfter(0)
	if len(last) != maxReports || last[0].Number != 4 {
		t.Errorf("%d reports from number %d, want %d from 4", len(last), last[0].Number, maxReports)
	}
	if none, _ := j.reportsAfter(maxReports + 3); none != nil {
		t.Errorf("reports after the last one: %v", none)
	}
}

// TestReportsUnread expects changes to be computed when a report is read. Only the last
// reports keep their files; a report that was read keeps its changes.
func TestReportsUnread(t *testing.T) {
	j := newJournal(listKinds())
	revisionAt := func(n int) *store.Revision {
		return &store.Revision{App: "x", Files: map[string][]byte{"root_agent.yaml": fmt.Appendf(nil, "name: a\ninstruction: i%d\n", n)}}
	}
	appendReports := func(from, to int) {
		for n := from; n < to; n++ {
			j.appendReport(Report{}, revisionAt(n), revisionAt(n+1))
		}
	}
	appendReports(0, 1)
	j.reportsAfter(0)
	appendReports(1, 3+maxCompared)
	reports, _ := j.reportsAfter(0)
	for i, r := range reports {
		if want := i == 0 || i > 2; (len(r.Changes) == 1) != want {
			t.Errorf("report %d has the changes %v, want some: %v", r.Number, r.Changes, want)
		}
	}
}
