// Package evalreport reports eval set results as a table, JSON, JUnit XML, CSV or an
// HTML page.
//
//	report, err := evalreport.New("table", false)
//	report.AddRun(job, journal)   // for each set and model
//	report.Write(stdout, stderr)
//
// A report holds the cases' scores in memory. Conversation texts are in a temporary
// file, because the texts for all cases may not fit in memory.
package evalreport

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"os"
	"slices"
	"time"

	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalrun"
)

// Formats are the output format names.
func Formats() []string { return []string{"table", "json", "junit", "csv", "html"} }

// A Report collects the results from runs. It is for one goroutine.
type Report struct {
	Cases []*Case
	// Comparisons are those with baselines.
	Comparisons []*Comparison
	// Files are the paths to the result files.
	Files []string
	// Duration is the time that all runs took.
	Duration time.Duration

	format  string
	verbose bool
	texts   *spool
	// page is the HTML page's template, nil for other formats.
	page *template.Template
}

// A Case is a case in the report. Its runs have no turns: the report's texts have them.
type Case struct {
	*eval.Outcome
	// PassRate is nil for a single run, and Baseline if the set has none.
	PassRate *PassRate
	Baseline *CaseBaseline

	file string
	// anchor identifies the case in an HTML page.
	anchor string
	// text is what the format prints about the conversations.
	text segment
}

// New returns an empty report in one of the [Formats]. Verbose adds the turns of passed cases
// to a table. The caller closes the report.
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

// AddRun adds the outcomes from running a set, and compares them with its baseline; nil if
// there is none.
func (r *Report) AddRun(job *evalrun.Job, journal *evalrun.Journal, baseline *eval.SetResult) error {
	first := len(r.Cases)
	for o, err := range journal.Outcomes(job.AllowNotEvaluated) {
		if err != nil {
			return err
		}
		c := &Case{Outcome: o, PassRate: newPassRate(len(o.Runs), o.PassedRuns), file: job.Set.Path, anchor: fmt.Sprintf("case-%d", len(r.Cases)+1)}
		if c.text, err = r.texts.appendText(r.formatConversations(c)); err != nil {
			return err
		}
		for i, run := range c.Runs {
			c.Runs[i] = &eval.CaseResult{Status: run.Status, Notes: run.Notes}
		}
		r.Cases = append(r.Cases, c)
	}
	r.compareRun(job, r.Cases[first:], baseline)
	return nil
}

// formatConversations formats a case's conversations.
func (r *Report) formatConversations(c *Case) string {
	switch {
	case r.format == "html":
		return r.formatPageCase(c)
	case r.format == "csv":
		return formatCSV(c.Outcome)
	case r.format != "json" && (c.Status != eval.Passed || r.verbose):
		return FormatDetails(c.Outcome, r.verbose)
	}
	return ""
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
		if c.Status == s {
			n++
		}
	}
	return n
}

// sumUsage adds up the usage by all cases.
func (r *Report) sumUsage() *eval.CaseUsage {
	sum := &eval.CaseUsage{}
	for _, c := range r.Cases {
		sum.Add(&c.Usage)
	}
	return sum
}

// listCases returns the cases in set order; one case with several models has consecutive
// entries.
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

// listModels returns a matrix's models.
func (r *Report) listModels() []string {
	var models []string
	for _, c := range r.Cases {
		if c.Model != "" && !slices.Contains(models, c.Model) {
			models = append(models, c.Model)
		}
	}
	return models
}

// Write writes the report to out. A table's summary goes to summary.
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

func findMetric(metrics []*eval.MetricResult, name string) *eval.MetricResult {
	i := slices.IndexFunc(metrics, func(m *eval.MetricResult) bool { return m.Metric == name })
	if i < 0 {
		return nil
	}
	return metrics[i]
}

// A spool is a temporary file for texts.
type spool struct {
	file *os.File
	end  int64
}

// A segment is a string's place in a spool.
type segment struct{ start, size int64 }

func newSpool() (*spool, error) {
	f, err := os.CreateTemp("", "agenthost-eval-*")
	if err != nil {
		return nil, err
	}
	return &spool{file: f}, nil
}

func (s *spool) closeFile() error {
	err := s.file.Close()
	if removeErr := os.Remove(s.file.Name()); err == nil {
		err = removeErr
	}
	return err
}

func (s *spool) appendText(text string) (segment, error) {
	n, err := s.file.WriteString(text)
	at := segment{s.end, int64(n)}
	s.end += int64(n)
	return at, err
}

// copyText writes a segment to w.
func (s *spool) copyText(w io.Writer, at segment) error {
	_, err := io.Copy(w, io.NewSectionReader(s.file, at.start, at.size))
	return err
}

func (s *spool) readText(at segment) (string, error) {
	text, err := io.ReadAll(io.NewSectionReader(s.file, at.start, at.size))
	return string(text), err
}
