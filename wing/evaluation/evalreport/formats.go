package evalreport

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"

	"agenthost/internal/junit"
	"agenthost/pkg/model"
	"agenthost/wing/evaluation/eval"
)

func (r *Report) writeJSON(out io.Writer) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	report := map[string]any{
		"passed": r.countStatus(eval.Passed), "failed": r.countStatus(eval.Failed), "notEvaluated": r.countStatus(eval.NotEvaluated),
		"seconds": r.Duration.Seconds(), "usage": r.sumUsage(), "results": r.Files, "cases": r.listCaseJSON(),
	}
	if len(r.Comparisons) > 0 {
		report["comparisons"] = r.Comparisons
	}
	return enc.Encode(report)
}

// caseJSON is a case in --output json.
type caseJSON struct {
	SetID         string         `json:"set"`
	CaseID        string         `json:"case"`
	Model         string         `json:"model,omitempty"`
	Status        string         `json:"status"`
	Runs          int            `json:"runs"`
	PassedRuns    int            `json:"passedRuns"`
	PassRate      *PassRate      `json:"passRate,omitempty"`
	Seconds       float64        `json:"seconds"`
	Usage         eval.CaseUsage `json:"usage"`
	Metrics       []metricJSON   `json:"metrics"`
	Informational []metricJSON   `json:"informational"`
	Notes         []noteJSON     `json:"notes,omitempty"`
	Baseline      *CaseBaseline  `json:"baseline,omitempty"`
}

// metricJSON is a score; Score is nil if there is none.
type metricJSON struct {
	Name      string   `json:"name"`
	Score     *float64 `json:"score"`
	Threshold *float64 `json:"threshold,omitempty"`
	Status    string   `json:"status"`
}

// noteJSON explains a score. Runs and turns count from 1.
type noteJSON struct {
	Run    int    `json:"run"`
	Turn   int    `json:"turn,omitempty"`
	Metric string `json:"metric,omitempty"`
	Reason string `json:"reason,omitempty"`
	Judge  string `json:"judge,omitempty"`
	Answer string `json:"answer,omitempty"`
}

// listCaseJSON returns the cases as JSON has them.
func (r *Report) listCaseJSON() []caseJSON {
	list := func(metrics []*eval.MetricResult) []metricJSON {
		all := []metricJSON{}
		for _, m := range metrics {
			all = append(all, metricJSON{m.Metric, m.Score, m.RequiredScore(), m.Status.String()})
		}
		return all
	}
	var all []caseJSON
	for _, c := range r.Cases {
		var notes []noteJSON
		for i, run := range c.Runs {
			for _, n := range run.Notes {
				note := noteJSON{Run: i + 1, Metric: n.Metric, Reason: n.Reason, Judge: n.Judge, Answer: n.Answer}
				if n.Turn != nil {
					note.Turn = *n.Turn + 1
				}
				notes = append(notes, note)
			}
		}
		all = append(all, caseJSON{
			c.SetID, c.CaseID, c.Model, c.Status.String(), len(c.Runs), c.PassedRuns, c.PassRate, c.Seconds, c.Usage,
			list(c.Metrics), list(c.Informational), notes, c.Baseline,
		})
	}
	return all
}

// writeJUnit prints a suite for each set and model. A case that failed is a failure, and one that
// was not evaluated an error. Usage is in the suites' properties and in the cases' output, because
// cases have no properties in the JUnit schema.
func (r *Report) writeJUnit(out io.Writer) error {
	all := &junit.Suites{Time: junit.FormatSeconds(r.Duration)}
	usage := map[*junit.Suite]*eval.CaseUsage{}
	for _, c := range r.Cases {
		n := len(all.Suites)
		name := formatSubject(c.SetID, c.Model)
		if n == 0 || all.Suites[n-1].Name != name {
			all.Suites = append(all.Suites, &junit.Suite{Name: name, File: filepath.ToSlash(c.file)})
			n++
		}
		suite := all.Suites[n-1]
		if usage[suite] == nil {
			usage[suite] = &eval.CaseUsage{}
		}
		usage[suite].Add(&c.Usage)
		text, err := r.texts.readText(c.text)
		if err != nil {
			return err
		}
		item := junit.Case{
			Name: c.CaseID, Class: name, Time: junit.FormatSeconds(time.Duration(c.Seconds * float64(time.Second))),
			Out: formatProperties(c.listProperties()),
		}
		problem := &junit.Problem{Message: c.findReason(), Text: text}
		switch c.Status {
		case eval.Failed:
			item.Failure = problem
		case eval.NotEvaluated:
			item.Error = problem
		}
		suite.AddCase(item)
	}
	for _, suite := range all.Suites {
		if properties := usageProperties(usage[suite]); len(properties) > 0 {
			suite.Properties = &junit.Properties{Properties: properties}
		}
	}
	return all.WriteXML(out)
}

// listProperties lists a case's usage and baseline.
func (c *Case) listProperties() []junit.Property {
	all := usageProperties(&c.Usage)
	if baseline := formatBaseline(c); baseline != unknown {
		all = append(all, junit.Property{Name: "baseline", Value: baseline})
	}
	return all
}

// usageProperties are the known tokens and costs for turns and judges.
func usageProperties(u *eval.CaseUsage) []junit.Property {
	var all []junit.Property
	for _, part := range []struct {
		prefix string
		usage  *eval.Usage
	}{{"", u.Turns}, {"judge_", u.Judges}} {
		if part.usage.Tokens() > 0 {
			all = append(all, junit.Property{Name: part.prefix + "input_tokens", Value: strconv.FormatInt(part.usage.InputTokens, 10)},
				junit.Property{Name: part.prefix + "output_tokens", Value: strconv.FormatInt(part.usage.OutputTokens, 10)})
		}
		if part.usage != nil && part.usage.Cost != nil {
			all = append(all, junit.Property{Name: part.prefix + "cost_usd", Value: formatOptional(part.usage.Cost)})
		}
	}
	return all
}

func formatProperties(all []junit.Property) string {
	var lines []string
	for _, p := range all {
		lines = append(lines, p.Name+": "+p.Value)
	}
	return strings.Join(lines, "\n")
}

// findReason returns the first metric that did not pass, or else the first note.
func (c *Case) findReason() string {
	for _, m := range c.Metrics {
		if m.Status != eval.Passed {
			return fmt.Sprintf("%s %s", m.Metric, strings.Replace(formatScored(m), unknown, "not evaluated", 1))
		}
	}
	for _, run := range c.Runs {
		for _, n := range run.Notes {
			if n.Reason != "" {
				return n.Reason
			}
		}
	}
	return c.Status.String()
}

// writeCSV prints a row for each turn and metric, with the columns from ADK's AgentEvaluator
// and the case's usage, and a row without metric for a case that did not run.
func (r *Report) writeCSV(out io.Writer) error {
	header := []string{
		"eval_set_id", "eval_id", "metric_name", "threshold", "score", "eval_status",
		"prompt", "expected_response", "actual_response", "expected_tool_calls", "actual_tool_calls",
		"model", "run", "turn", "seconds", "run_tokens", "run_cost_usd", "run_judge_tokens", "run_judge_cost_usd",
	}
	if _, err := io.WriteString(out, formatRows([][]string{header})); err != nil {
		return err
	}
	for _, c := range r.Cases {
		if err := r.texts.copyText(out, c.text); err != nil {
			return err
		}
	}
	return nil
}

// formatCSV formats a case's rows.
func formatCSV(o *eval.Outcome) string {
	var rows [][]string
	for i, run := range o.Runs {
		usage := cmp.Or(run.Usage, &eval.CaseUsage{})
		used := []string{
			formatKnownTokens(usage.Turns), formatKnownCost(usage.Turns), formatKnownTokens(usage.Judges), formatKnownCost(usage.Judges),
		}
		number := strconv.Itoa(i + 1)
		if len(run.Turns) == 0 {
			rows = append(rows, append([]string{formatCell(o.SetID), formatCell(o.CaseID), "", "", "", run.Status.String(), "", "", "", "", "", formatCell(o.Model), number, "", ""}, used...))
		}
		for n, t := range run.Turns {
			expected := cmp.Or(t.Expected, &eval.Invocation{})
			for _, m := range t.Metrics {
				rows = append(rows, append([]string{
					formatCell(o.SetID), formatCell(o.CaseID), formatCell(m.Metric), formatOptional(m.RequiredScore()), formatOptional(m.Score), m.Status.String(),
					formatCell(model.TextOf(t.Actual.UserContent)), formatCell(model.TextOf(expected.FinalResponse)), formatCell(model.TextOf(t.Actual.FinalResponse)),
					formatCell(formatCalls(expected)), formatCell(formatCalls(t.Actual)), formatCell(o.Model), number, strconv.Itoa(n + 1), formatOptional(t.Actual.Duration),
				}, used...))
			}
		}
	}
	return formatRows(rows)
}

// formatCell returns text from models, users and files for a cell. Spreadsheets run a cell
// that begins with one of =+-@ as a formula, also after a tab or a line break: such a cell
// begins with an apostrophe (OWASP, CSV injection). Control characters and characters that
// change the text direction are written as escapes. The report's numbers do not pass through
// it, and stay numbers.
func formatCell(text string) string {
	var b strings.Builder
	if text != "" && strings.ContainsRune("=+-@\t\r\n", rune(text[0])) {
		b.WriteByte('\'')
	}
	for _, r := range text {
		switch {
		case r != '\n' && r != '\t' && unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func formatRows(rows [][]string) string {
	var b strings.Builder
	_ = csv.NewWriter(&b).WriteAll(rows) // a builder does not fail
	return b.String()
}

func formatKnownTokens(u *eval.Usage) string {
	if u.Tokens() == 0 {
		return ""
	}
	return strconv.FormatInt(u.Tokens(), 10)
}

func formatKnownCost(u *eval.Usage) string {
	if u == nil {
		return ""
	}
	return formatOptional(u.Cost)
}

func formatOptional(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'f', -1, 64)
}
