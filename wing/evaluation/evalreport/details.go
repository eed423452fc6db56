package evalreport

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/wing/evaluation/eval"
)

// FormatDetails formats a case's scores, reasons and turns: for each run that did not pass,
// the turns that failed; if all, every turn in every run.
func FormatDetails(o *eval.Outcome, all bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s:%s", o.Status, o.SetID, o.CaseID)
	if o.Model != "" {
		fmt.Fprintf(&b, " with %s", o.Model)
	}
	b.WriteString("\n")
	for _, m := range o.Metrics {
		score, threshold := "not evaluated", ""
		if m.Score != nil {
			score = formatScore(*m.Score)
		}
		if t := m.RequiredScore(); t != nil {
			threshold = ", required " + formatScore(*t)
		}
		if all || m.Status != eval.Passed {
			fmt.Fprintf(&b, "  %s: %s%s\n", m.Metric, score, threshold)
		}
	}
	for i, run := range o.Runs {
		if run.Status == eval.Passed && !all {
			continue
		}
		if len(o.Runs) > 1 {
			fmt.Fprintf(&b, "  run %d of %d: %s\n", i+1, len(o.Runs), run.Status)
		}
		writeNotes(&b, run, all)
		writeTurns(&b, run, all)
	}
	return b.String()
}

// writeNotes writes a run's reasons; unless all, without those for metrics that passed.
func writeNotes(b *strings.Builder, run *eval.CaseResult, all bool) {
	for _, n := range run.Notes {
		m := slices.IndexFunc(run.Overall, func(m *eval.MetricResult) bool { return m.Metric == n.Metric })
		if !all && m >= 0 && run.Overall[m].Status == eval.Passed {
			continue
		}
		var prefix []string
		if n.Turn != nil {
			prefix = append(prefix, fmt.Sprintf("turn %d", *n.Turn+1))
		}
		if n.Metric != "" {
			prefix = append(prefix, n.Metric)
		}
		for _, text := range []struct{ label, value string }{{"", n.Reason}, {"judge ", n.Judge}, {"judge answer: ", n.Answer}} {
			if text.value != "" {
				fmt.Fprintf(b, "  %s\n", strings.Join(append(prefix, text.label+abbreviateText(text.value)), ": "))
			}
		}
	}
}

// writeTurns writes turns with their expectations.
func writeTurns(b *strings.Builder, run *eval.CaseResult, all bool) {
	for i, t := range run.Turns {
		if !all && !hasFailed(t) {
			continue
		}
		fmt.Fprintf(b, "  turn %d\n", i+1)
		writeText(b, "user", t.Actual.UserContent)
		writeCalls(b, "calls", t.Actual)
		writeText(b, "response", t.Actual.FinalResponse)
		if t.Expected != nil {
			writeCalls(b, "expected calls", t.Expected)
			writeText(b, "expected response", t.Expected.FinalResponse)
		}
	}
}

func hasFailed(t *eval.TurnResult) bool {
	return slices.ContainsFunc(t.Metrics, func(m *eval.MetricResult) bool { return m.Status == eval.Failed })
}

func writeText(b *strings.Builder, label string, c *genai.Content) {
	if text := abbreviateText(model.TextOf(c)); text != "" {
		fmt.Fprintf(b, "    %s: %s\n", label, text)
	}
}

func writeCalls(b *strings.Builder, label string, inv *eval.Invocation) {
	if calls := formatCalls(inv); calls != "" {
		fmt.Fprintf(b, "    %s: %s\n", label, calls)
	}
}

// formatCalls formats a turn's tool calls as name(args), separated by commas.
func formatCalls(inv *eval.Invocation) string {
	var calls []string
	for _, c := range inv.Calls() {
		calls = append(calls, fmt.Sprintf("%s(%s)", c.Name, formatArgs(c.Args)))
	}
	return strings.Join(calls, ", ")
}

func formatArgs(args map[string]any) string {
	if args == nil {
		return "{}"
	}
	b, err := json.Marshal(args)
	if err != nil {
		return err.Error()
	}
	return abbreviateText(string(b))
}

// maxDetail limits each text in the details, in bytes.
const maxDetail = 500

func abbreviateText(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxDetail {
		return strings.ToValidUTF8(s[:maxDetail], "") + "…"
	}
	return s
}
