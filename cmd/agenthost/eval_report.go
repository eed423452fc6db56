package main

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/evalrun"
	"agenthost/pkg/eval"
	"agenthost/pkg/model"
)

// evalReport has what is printed of the cases: results contain whole conversations, so
// they stay in their files.
type evalReport struct {
	cases    []*evalCase
	files    []string
	duration time.Duration
}

// evalCase is a case in the report.
type evalCase struct {
	SetID         string         `json:"set"`
	CaseID        string         `json:"case"`
	Status        string         `json:"status"`
	Runs          int            `json:"runs"`
	PassedRuns    int            `json:"passedRuns"`
	Seconds       float64        `json:"seconds"`
	Metrics       []metricJSON   `json:"metrics"`
	Informational []metricJSON   `json:"informational"`
	Notes         []*evalRunNote `json:"notes,omitempty"`

	file, details string
	rows          [][]string
}

// metricJSON is a score in --output json; the score is null if there is none.
type metricJSON struct {
	Name      string   `json:"name"`
	Score     *float64 `json:"score"`
	Threshold *float64 `json:"threshold,omitempty"`
	Status    string   `json:"status"`
}

// evalRunNote explains a score in --output json. Runs and turns count from 1.
type evalRunNote struct {
	Run    int    `json:"run"`
	Turn   int    `json:"turn,omitempty"`
	Metric string `json:"metric,omitempty"`
	Reason string `json:"reason,omitempty"`
	Judge  string `json:"judge,omitempty"`
	Answer string `json:"answer,omitempty"`
}

// addJournal adds the outcomes of a set.
func (r *evalReport) addJournal(job *evalrun.Job, journal *evalrun.Journal, f *evalFlags) error {
	for o, err := range journal.Outcomes(job.AllowNotEvaluated) {
		if err != nil {
			return err
		}
		c := &evalCase{
			SetID: o.SetID, CaseID: o.CaseID, Status: o.Status.String(), Runs: len(o.Runs), PassedRuns: o.PassedRuns,
			Metrics: newMetricsJSON(o.Metrics), Informational: newMetricsJSON(o.Informational), file: job.Set.Path,
		}
		for i, run := range o.Runs {
			c.addRun(i+1, run)
		}
		if f.output == "csv" {
			c.rows = buildCSVRows(o)
		}
		if o.Status != eval.Passed || f.verbose {
			c.details = formatDetails(o, f.verbose)
		}
		r.cases = append(r.cases, c)
	}
	return nil
}

func newMetricsJSON(metrics []*eval.MetricResult) []metricJSON {
	all := []metricJSON{}
	for _, m := range metrics {
		all = append(all, metricJSON{m.Metric, m.Score, evalrun.Threshold(m), m.Status.String()})
	}
	return all
}

func (c *evalCase) addRun(number int, run *eval.CaseResult) {
	for _, t := range run.Turns {
		if t.Actual != nil && t.Actual.Duration != nil {
			c.Seconds += *t.Actual.Duration
		}
	}
	for _, n := range run.Notes {
		note := &evalRunNote{Run: number, Metric: n.Metric, Reason: n.Reason, Judge: n.Judge, Answer: n.Answer}
		if n.Turn != nil {
			note.Turn = *n.Turn + 1
		}
		c.Notes = append(c.Notes, note)
	}
}

func (r *evalReport) countStatus(s eval.Status) int {
	n := 0
	for _, c := range r.cases {
		if c.Status == s.String() {
			n++
		}
	}
	return n
}

// hasPassed reports whether all cases passed.
func (r *evalReport) hasPassed() bool { return r.countStatus(eval.Passed) == len(r.cases) }

func (r *evalReport) writeReport(out stdio, format string) error {
	switch format {
	case "json":
		return printJSON(out, map[string]any{
			"passed": r.countStatus(eval.Passed), "failed": r.countStatus(eval.Failed), "notEvaluated": r.countStatus(eval.NotEvaluated),
			"seconds": r.duration.Seconds(), "results": r.files, "cases": r.cases,
		})
	case "junit":
		return r.writeJUnit(out.out)
	case "csv":
		return r.writeCSV(out.out)
	}
	return r.writeTable(out)
}

// writeTable prints a line for each case, then the details of those that did not pass. It
// prints the summary on stderr.
func (r *evalReport) writeTable(out stdio) error {
	w := tabwriter.NewWriter(out.out, 0, 0, 2, ' ', 0)
	metrics, informational := r.listColumns()
	several := slices.ContainsFunc(r.cases, func(c *evalCase) bool { return c.Runs > 1 })
	header := []string{"case", "status"}
	if several {
		header = append(header, "passed")
	}
	for _, name := range metrics {
		header = append(header, shortMetricName(name))
	}
	header = append(header, informational...)
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, c := range r.cases {
		cells := []string{c.SetID + ":" + c.CaseID, c.Status}
		if several {
			cells = append(cells, fmt.Sprintf("%d/%d", c.PassedRuns, c.Runs))
		}
		for _, name := range metrics {
			cells = append(cells, formatCell(findMetricJSON(c.Metrics, name)))
		}
		for _, name := range informational {
			cells = append(cells, formatCell(findMetricJSON(c.Informational, informationalColumns()[name])))
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, c := range r.cases {
		if _, err := io.WriteString(out.out, c.details); err != nil {
			return err
		}
	}
	fmt.Fprintf(out.err, "%s passed, %d failed, %d not evaluated in %s\n", formatCount(r.countStatus(eval.Passed), "case"),
		r.countStatus(eval.Failed), r.countStatus(eval.NotEvaluated), r.duration.Round(time.Millisecond))
	for _, file := range r.files {
		fmt.Fprintf(out.err, "result: %s\n", file)
	}
	return nil
}

// informationalColumns maps columns of the table to their metrics, which are means over
// the turns.
func informationalColumns() map[string]string {
	return map[string]string{"calls/turn": eval.ToolCallCount, "tokens/turn": eval.TokenCount}
}

// listColumns returns the metrics of the table in the order of their first use, and the
// columns of informational metrics that have a value.
func (r *evalReport) listColumns() (metrics, informational []string) {
	for _, c := range r.cases {
		for _, m := range c.Metrics {
			if !slices.Contains(metrics, m.Name) {
				metrics = append(metrics, m.Name)
			}
		}
	}
	for _, name := range []string{"calls/turn", "tokens/turn"} {
		if slices.ContainsFunc(r.cases, func(c *evalCase) bool {
			m := findMetricJSON(c.Informational, informationalColumns()[name])
			return m != nil && m.Score != nil
		}) {
			informational = append(informational, name)
		}
	}
	return metrics, informational
}

func shortMetricName(name string) string {
	if m, ok := eval.FindMetric(name); ok {
		return cmp.Or(m.Short, name)
	}
	return name
}

func findMetricJSON(metrics []metricJSON, name string) *metricJSON {
	i := slices.IndexFunc(metrics, func(m metricJSON) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &metrics[i]
}

// formatCell formats a score, with its threshold if it is below.
func formatCell(m *metricJSON) string {
	switch {
	case m == nil || m.Score == nil:
		return "-"
	case m.Status == eval.Failed.String() && m.Threshold != nil:
		return formatScore(*m.Score) + " < " + formatScore(*m.Threshold)
	default:
		return formatScore(*m.Score)
	}
}

// formatScore formats a number with at most three decimals.
func formatScore(v float64) string {
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
}

// formatDetails formats the scores, the reasons and the turns of a case: of each run that
// did not pass, the turns that failed; if all, every turn of every run.
func formatDetails(o *evalrun.Outcome, all bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s:%s\n", o.Status, o.SetID, o.CaseID)
	for _, m := range o.Metrics {
		score, threshold := "not evaluated", ""
		if m.Score != nil {
			score = formatScore(*m.Score)
		}
		if t := evalrun.Threshold(m); t != nil {
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

// writeNotes writes the reasons of a run; unless all, without those of metrics that passed.
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
		for _, text := range []struct{ label, value string }{{"", n.Reason}, {"judge ", n.Judge}, {"answer of the judge: ", n.Answer}} {
			if text.value != "" {
				fmt.Fprintf(b, "  %s\n", strings.Join(append(prefix, text.label+abbreviateText(text.value)), ": "))
			}
		}
	}
}

// writeTurns writes turns with what was expected of them.
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

// formatCalls formats the tool calls of a turn as name(args), separated by commas.
func formatCalls(inv *eval.Invocation) string {
	var calls []string
	for _, c := range inv.Calls() {
		calls = append(calls, fmt.Sprintf("%s(%s)", c.Name, abbreviateJSON(c.Args)))
	}
	return strings.Join(calls, ", ")
}

// maxDetail limits each text of the details, in bytes.
const maxDetail = 500

func abbreviateText(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxDetail {
		return strings.ToValidUTF8(s[:maxDetail], "") + "…"
	}
	return s
}

// writeJUnit prints a suite for each set. A case that failed is a failure, and one that was
// not evaluated an error.
func (r *evalReport) writeJUnit(out io.Writer) error {
	all := &junitSuites{Time: formatSeconds(r.duration)}
	for _, c := range r.cases {
		n := len(all.Suites)
		if n == 0 || all.Suites[n-1].Name != c.SetID {
			all.Suites = append(all.Suites, &junitSuite{Name: c.SetID})
			n++
		}
		item := junitCase{Name: c.CaseID, Class: c.SetID, File: c.file, Time: formatSeconds(time.Duration(c.Seconds * float64(time.Second)))}
		problem := &junitFailure{Message: c.findReason(), Text: c.details}
		switch c.Status {
		case eval.Failed.String():
			item.Failure = problem
		case eval.NotEvaluated.String():
			item.Error = problem
		}
		all.Suites[n-1].addCase(item)
	}
	return all.writeXML(out)
}

// findReason returns the first metric that did not pass, or else the first note.
func (c *evalCase) findReason() string {
	for _, m := range c.Metrics {
		if m.Status != eval.Passed.String() {
			return fmt.Sprintf("%s %s", m.Name, strings.Replace(formatCell(&m), "-", "not evaluated", 1))
		}
	}
	for _, n := range c.Notes {
		if n.Reason != "" {
			return n.Reason
		}
	}
	return c.Status
}

// writeCSV prints a row for each turn and metric, with the columns of ADK's
// AgentEvaluator, and a row without metric for a case that did not run.
func (r *evalReport) writeCSV(out io.Writer) error {
	w := csv.NewWriter(out)
	if err := w.Write([]string{
		"eval_set_id", "eval_id", "metric_name", "threshold", "score", "eval_status",
		"prompt", "expected_response", "actual_response", "expected_tool_calls", "actual_tool_calls",
	}); err != nil {
		return err
	}
	for _, c := range r.cases {
		if err := w.WriteAll(c.rows); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

func buildCSVRows(o *evalrun.Outcome) [][]string {
	var rows [][]string
	for _, run := range o.Runs {
		if len(run.Turns) == 0 {
			rows = append(rows, []string{o.SetID, o.CaseID, "", "", "", run.Status.String(), "", "", "", "", ""})
		}
		for _, t := range run.Turns {
			expected := cmp.Or(t.Expected, &eval.Invocation{})
			for _, m := range t.Metrics {
				rows = append(rows, []string{
					o.SetID, o.CaseID, m.Metric, formatOptional(evalrun.Threshold(m)), formatOptional(m.Score), m.Status.String(),
					model.TextOf(t.Actual.UserContent), model.TextOf(expected.FinalResponse), model.TextOf(t.Actual.FinalResponse),
					formatCalls(expected), formatCalls(t.Actual),
				})
			}
		}
	}
	return rows
}

func formatOptional(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'f', -1, 64)
}
