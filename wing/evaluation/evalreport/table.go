package evalreport

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"agenthost/internal/terminal"
	"agenthost/wing/evaluation/eval"
)

// maxTableWidth is the width from which on a table continues below itself where the output is not a
// terminal, such as on a build server.
const maxTableWidth = 160

// writeTable prints a line for each case, then the details for those that did not pass. It
// prints the summary on summary.
func (r *Report) writeTable(out, summary io.Writer) error {
	limit := maxTableWidth
	if width := terminal.WidthOf(out); width > 0 {
		limit = width
	}
	for i, block := range r.splitTable(limit) {
		if i > 0 {
			fmt.Fprintln(out)
		}
		if err := writeRows(out, block); err != nil {
			return err
		}
	}
	for _, c := range r.listCases() {
		if err := r.texts.copyText(out, c.text); err != nil {
			return err
		}
	}
	r.writeComparisons(out)
	r.writeSummary(summary)
	return nil
}

// splitTable returns the table's columns, each with its title and a cell per case, in blocks
// that are not wider than the limit. Each block begins with the columns that name the case.
func (r *Report) splitTable(limit int) [][][]string {
	var named, block [][]string
	var blocks [][][]string
	namedWidth, width := 0, 0
	for _, column := range r.listColumns() {
		cells, cellWidth := []string{column.title}, utf8.RuneCountInString(column.title)
		for _, c := range r.listCases() {
			cell := column.format(c)
			cells, cellWidth = append(cells, cell), max(cellWidth, utf8.RuneCountInString(cell))
		}
		cellWidth += tableGap
		if column.names {
			named, block = append(named, cells), append(block, cells)
			namedWidth, width = namedWidth+cellWidth, width+cellWidth
			continue
		}
		if width+cellWidth > limit && len(block) > len(named) {
			blocks = append(blocks, block)
			block, width = slices.Clone(named), namedWidth
		}
		block, width = append(block, cells), width+cellWidth
	}
	return append(blocks, block)
}

// tableGap is the number of spaces between columns.
const tableGap = 2

func writeRows(out io.Writer, columns [][]string) error {
	titles := make([]terminal.Column, len(columns))
	for i, c := range columns {
		titles[i] = terminal.Column{Title: c[0], Whole: i == 0}
	}
	table := terminal.NewTable(titles...)
	for row := 1; row < len(columns[0]); row++ {
		var cells []terminal.Cell
		for _, c := range columns {
			cells = append(cells, terminal.Cell{Text: c[row], Role: statusRole(c[row])})
		}
		table.AddCells(cells...)
	}
	return table.Print(out)
}

// statusRole returns the role for a cell that has a status.
func statusRole(cell string) terminal.Role {
	switch cell {
	case eval.Passed.String():
		return terminal.Good
	case eval.Failed.String():
		return terminal.Bad
	case eval.NotEvaluated.String():
		return terminal.Warning
	}
	return terminal.Plain
}

// writeSummary prints how many cases ran, what they used, and the result files.
func (r *Report) writeSummary(w io.Writer) {
	fmt.Fprintf(w, "%s passed, %d failed, %d not evaluated in %s\n", formatCount(r.countStatus(eval.Passed), "case"),
		r.countStatus(eval.Failed), r.countStatus(eval.NotEvaluated), r.Duration.Round(time.Millisecond))
	if models := r.listModels(); len(models) > 1 {
		r.writeModels(w, models)
	}
	if len(r.listModels()) < 2 {
		writePassRates(w, r.Cases)
	}
	sum := r.sumUsage()
	for _, u := range []struct {
		label string
		usage *eval.Usage
	}{{"turns", sum.Turns}, {"judges", sum.Judges}} {
		if u.usage.Tokens() > 0 || u.usage != nil && u.usage.Cost != nil {
			fmt.Fprintf(w, "%s: %s, %d input and %d output tokens, cost %s\n", u.label, formatCount(u.usage.Calls, "model call"),
				u.usage.InputTokens, u.usage.OutputTokens, formatCost(u.usage))
		}
	}
	if sum.Judges != nil && sum.Judges.CachedAnswers > 0 {
		fmt.Fprintf(w, "judge answers: %d of %d from the cache\n", sum.Judges.CachedAnswers, sum.Judges.CachedAnswers+sum.Judges.Calls)
	}
	for _, file := range r.Files {
		fmt.Fprintf(w, "result: %s\n", file)
	}
}

// writeModels prints what each model passed and used.
func (r *Report) writeModels(w io.Writer, models []string) {
	for _, model := range models {
		sum, passed := &eval.CaseUsage{}, 0
		var cases []*Case
		for _, c := range r.Cases {
			if c.Model != model {
				continue
			}
			cases = append(cases, c)
			if c.Status == eval.Passed {
				passed++
			}
			sum.Add(&c.Usage)
		}
		fmt.Fprintf(w, "%s: %d of %s passed, tokens %s, cost %s\n", model, passed, formatCount(len(cases), "case"), formatTokens(sum.Turns), formatCost(sum.Turns))
		writePassRates(w, cases)
	}
}

// A column in the table.
type column struct {
	title  string
	format func(c *Case) string
	// names is whether the column names the case.
	names bool
}

// listColumns returns the table's columns. Metrics are in the order of their first use. The
// columns for runs, calls, tokens and costs are left out if no case has a value.
func (r *Report) listColumns() []column {
	columns := []column{
		{title: "case", format: func(c *Case) string { return c.SetID + ":" + c.CaseID }, names: true},
	}
	if len(r.listModels()) > 0 {
		columns = append(columns, column{title: "model", format: func(c *Case) string { return c.Model }, names: true})
	}
	columns = append(columns, column{title: "status", format: func(c *Case) string { return c.Status.String() }})
	addKnown := func(title string, format func(c *Case) string) {
		if slices.ContainsFunc(r.Cases, func(c *Case) bool { return format(c) != unknown }) {
			columns = append(columns, column{title: title, format: format})
		}
	}
	addKnown("baseline", formatBaseline)
	for _, c := range passColumns() {
		addKnown(c.title, c.format)
	}
	for _, name := range r.listMetrics() {
		columns = append(columns, column{title: shortMetricName(name), format: func(c *Case) string { return formatScored(findMetric(c.Metrics, name)) }})
	}
	addKnown("calls/turn", func(c *Case) string { return formatScored(findMetric(c.Informational, eval.ToolCallCount)) })
	addKnown("tokens", func(c *Case) string { return formatTokens(c.Usage.Turns) })
	addKnown("cost", func(c *Case) string { return formatCost(c.Usage.Turns) })
	addKnown("judge tokens", func(c *Case) string { return formatTokens(c.Usage.Judges) })
	addKnown("judge cost", func(c *Case) string { return formatCost(c.Usage.Judges) })
	return append(columns, column{title: "time", format: func(c *Case) string { return formatTime(c.Seconds) }})
}

// listMetrics returns the metrics with a threshold in the order of their first use.
func (r *Report) listMetrics() []string {
	var names []string
	for _, c := range r.Cases {
		for _, m := range c.Metrics {
			if !slices.Contains(names, m.Metric) {
				names = append(names, m.Metric)
			}
		}
	}
	return names
}

func shortMetricName(name string) string {
	if m, ok := eval.FindMetric(name); ok {
		return cmp.Or(m.Short, name)
	}
	return name
}

// unknown is the cell for an unknown value.
const unknown = "-"

func formatPassedRuns(c *Case) string {
	if len(c.Runs) < 2 {
		return unknown
	}
	return fmt.Sprintf("%d/%d", c.PassedRuns, len(c.Runs))
}

// formatScored formats a score, with its threshold if it is below.
func formatScored(m *eval.MetricResult) string {
	switch {
	case m == nil || m.Score == nil:
		return unknown
	case m.Status == eval.Failed && m.RequiredScore() != nil:
		return formatScore(*m.Score) + " < " + formatScore(*m.RequiredScore())
	default:
		return formatScore(*m.Score)
	}
}

// formatScore formats a number with at most three decimals.
func formatScore(v float64) string {
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
}

func formatTokens(u *eval.Usage) string {
	if u.Tokens() == 0 {
		return unknown
	}
	return strconv.FormatInt(u.Tokens(), 10)
}

// formatCost formats US dollars with at least two significant digits.
func formatCost(u *eval.Usage) string {
	if u == nil || u.Cost == nil {
		return unknown
	}
	usd := *u.Cost
	scale := 1e4
	for usd > 0 && usd*scale < 10 && scale < 1e9 {
		scale *= 10
	}
	return "$" + strconv.FormatFloat(math.Round(usd*scale)/scale, 'f', -1, 64)
}

// formatTime formats how long the turns took; less than a second is not worth a comparison.
func formatTime(seconds float64) string {
	if seconds < 1 {
		return "<1s"
	}
	return time.Duration(seconds * float64(time.Second)).Round(100 * time.Millisecond).String()
}

func formatCount(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
