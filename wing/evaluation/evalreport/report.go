// Package evalreport reports the results of eval sets as a table, JSON, JUnit XML, CSV or an
// HTML page.
//
//	report, err := evalreport.New("table", false)
//	report.AddRun(job, journal)   // for each set and model
//	report.Write(stdout, stderr)
//
// A report holds the scores of the cases in memory. Texts of conversations are in a
// temporary file, because those of all cases may not fit in memory.
package evalreport

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalrun"
)

// Formats are the names of the output formats.
func Formats() []string { return []string{"table", "json", "junit", "csv", "html"} }

// A Report collects the results of runs. It is for one goroutine.
type Report struct {
	Cases []*Case
	// Comparisons are those with baselines.
	Comparisons []*Comparison
	// Files are the paths of the result files.
	Files []string
	// Duration is the time that all runs took.
	Duration time.Duration

	format  string
	verbose bool
	texts   *spool
	// page is the template of the HTML page, nil for other formats.
	page *template.Template
}

// A Case is a case in the report, and in --output json.
type Case struct {
	SetID         string         `json:"set"`
	CaseID        string         `json:"case"`
	Model         string         `json:"model,omitempty"`
	Status        string         `json:"status"`
	Runs          int            `json:"runs"`
	PassedRuns    int            `json:"passedRuns"`
	PassRate      *PassRate      `json:"passRate,omitempty"`
	Seconds       float64        `json:"seconds"`
	Usage         eval.CaseUsage `json:"usage"`
	Metrics       []Metric       `json:"metrics"`
	Informational []Metric       `json:"informational"`
	Notes         []*Note        `json:"notes,omitempty"`
	// Baseline is nil if the set has none.
	Baseline *CaseBaseline `json:"baseline,omitempty"`

	file string
	// anchor identifies the case in an HTML page.
	anchor string
	// text is what the format prints of the conversations.
	text segment
}

// A Metric is a score; Score is nil if there is none.
type Metric struct {
	Name      string   `json:"name"`
	Score     *float64 `json:"score"`
	Threshold *float64 `json:"threshold,omitempty"`
	Status    string   `json:"status"`
}

// A Note explains a score. Runs and turns count from 1.
type Note struct {
	Run    int    `json:"run"`
	Turn   int    `json:"turn,omitempty"`
	Metric string `json:"metric,omitempty"`
	Reason string `json:"reason,omitempty"`
	Judge  string `json:"judge,omitempty"`
	Answer string `json:"answer,omitempty"`
}

// New returns an empty report in one of the [Formats]. Verbose adds the turns of passed
// cases to a table. The caller closes the report.
func New(format string, verbose bool) (*Report, error) {
	texts, err := newSpool()
	if err != nil {
		return nil, fmt.Errorf("creating a temporary file: %w", err)
	}
	r := &Report{format: format, verbose: verbose, texts: texts}
	if format == "html" {
		r.page = parsePage()
	}
	return r, nil
}

// Close deletes the temporary file.
func (r *Report) Close() error { return r.texts.closeFile() }

// AddRun adds the outcomes of a run of a set, and compares them with its baseline; nil if
// there is none.
func (r *Report) AddRun(job *evalrun.Job, journal *evalrun.Journal, baseline *evalrun.Baseline) error {
	first := len(r.Cases)
	for o, err := range journal.Outcomes(job.AllowNotEvaluated) {
		if err != nil {
			return err
		}
		c := &Case{
			SetID: o.SetID, CaseID: o.CaseID, Model: journal.Subject().Model, Status: o.Status.String(), Runs: len(o.Runs), PassedRuns: o.PassedRuns,
			PassRate: newPassRate(len(o.Runs), o.PassedRuns),
			Seconds:  o.Seconds, Usage: o.Usage, Metrics: newMetrics(o.Metrics), Informational: newMetrics(o.Informational),
			Notes: newNotes(o), file: job.Set.Path, anchor: fmt.Sprintf("case-%d", len(r.Cases)+1),
		}
		if c.text, err = r.texts.appendText(r.formatOutcome(c, o)); err != nil {
			return err
		}
		r.Cases = append(r.Cases, c)
	}
	r.compareRun(job, r.Cases[first:], baseline)
	return nil
}

// formatOutcome formats the conversations of a case.
func (r *Report) formatOutcome(c *Case, o *evalrun.Outcome) string {
	switch {
	case r.format == "html":
		return r.formatPageCase(c, o)
	case r.format == "csv":
		return formatCSV(o, c.Model)
	case r.format != "json" && (o.Status != eval.Passed || r.verbose):
		return FormatDetails(o, c.Model, r.verbose)
	}
	return ""
}

func newMetrics(metrics []*eval.MetricResult) []Metric {
	all := []Metric{}
	for _, m := range metrics {
		all = append(all, Metric{m.Metric, m.Score, evalrun.Threshold(m), m.Status.String()})
	}
	return all
}

func newNotes(o *evalrun.Outcome) []*Note {
	var all []*Note
	for i, run := range o.Runs {
		for _, n := range run.Notes {
			note := &Note{Run: i + 1, Metric: n.Metric, Reason: n.Reason, Judge: n.Judge, Answer: n.Answer}
			if n.Turn != nil {
				note.Turn = *n.Turn + 1
			}
			all = append(all, note)
		}
	}
	return all
}

// HasPassed reports whether all cases passed; those with a baseline, whether there is no
// regression.
func (r *Report) HasPassed() bool {
	return !slices.ContainsFunc(r.Cases, (*Case).hasRegression) &&
		!slices.ContainsFunc(r.Comparisons, func(c *Comparison) bool { return len(c.Regressions) > 0 })
}

func (r *Report) countStatus(s eval.Status) int {
	n := 0
	for _, c := range r.Cases {
		if c.Status == s.String() {
			n++
		}
	}
	return n
}

// sumUsage adds up the usage of all cases.
func (r *Report) sumUsage() *eval.CaseUsage {
	sum := &eval.CaseUsage{}
	for _, c := range r.Cases {
		sum.Add(&c.Usage)
	}
	return sum
}

// listCases returns the cases in the order of the sets, those of one case with several
// models one after the other.
func (r *Report) listCases() []*Case {
	type key struct{ set, id string }
	order := map[key]int{}
	for i, c := range r.Cases {
		if _, ok := order[key{c.SetID, c.CaseID}]; !ok {
			order[key{c.SetID, c.CaseID}] = i
		}
	}
	return slices.SortedStableFunc(slices.Values(r.Cases), func(a, b *Case) int {
		return cmp.Compare(order[key{a.SetID, a.CaseID}], order[key{b.SetID, b.CaseID}])
	})
}

// listModels returns the models of a matrix.
func (r *Report) listModels() []string {
	var models []string
	for _, c := range r.Cases {
		if c.Model != "" && !slices.Contains(models, c.Model) {
			models = append(models, c.Model)
		}
	}
	return models
}

// Write writes the report to out. The summary of a table goes to summary.
func (r *Report) Write(out, summary io.Writer) error {
	switch r.format {
	case "json":
		return r.writeJSON(out)
	case "junit":
		return r.writeJUnit(out)
	case "csv":
		return r.writeCSV(out)
	case "html":
		return r.writeHTML(out)
	}
	return r.writeTable(out, summary)
}

func findMetric(metrics []Metric, name string) *Metric {
	i := slices.IndexFunc(metrics, func(m Metric) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &metrics[i]
}
