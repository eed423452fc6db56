package evalreport

import (
	"cmp"
	"crypto/sha256"
	_ "embed" // for the template
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/wing/evaluation/eval"
)

//go:embed report.html
var pageSource string

//go:embed report.css
var pageStyle string

const (
	// maxPageText limits each string on a page in bytes, and maxPageCases the conversations.
	maxPageText  = 20_000
	maxPageCases = 32 << 20
)

// parsePage parses the page's template. It has no scripts, and its policy allows only the
// report's style.
func parsePage() *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{
		"score": formatScored, "baseline": formatBaseline, "short": shortMetricName, "tokens": formatTokens, "cost": formatCost,
		"time": formatTime, "number": formatScore, "p": formatP, "short_p": func(p float64) string { return strings.TrimPrefix(formatP(p), "= ") }, "subject": formatSubject, "count": formatCount,
		"anchor": func(c *Case) string { return c.anchor },
		"metric": func(c *Case, name string) *eval.MetricResult { return findMetric(c.Metrics, name) },
		"class":  func(status any) string { return strings.ToLower(strings.ReplaceAll(fmt.Sprint(status), "_", "-")) },
	}).Parse(pageSource))
}

// A pageCase is a case's conversation in the page.
type pageCase struct {
	Anchor                       string
	SetID, CaseID, Model, Status string
	Runs                         []*pageRun
}

// A pageRun is one run of a case.
type pageRun struct {
	Number int
	Status string
	// Notes are those about the whole case.
	Notes []*eval.Note
	Turns []*pageTurn
}

// A pageTurn is a turn with what was expected.
type pageTurn struct {
	Number        int
	Seconds, User string
	// Calls and Response compare the expected with the actual ones.
	Calls, Response []diffPart
	Scores          []pageScore
}

// A pageScore is a turn's score, with the judge's reasons.
type pageScore struct {
	Metric, Score, Status string
	Rubrics               []*eval.RubricScore
	Notes                 []*eval.Note
}

// formatPageCase renders a case's section. Beyond the limit it is empty.
func (r *Report) formatPageCase(c *Case) string {
	if r.texts.end > maxPageCases {
		return ""
	}
	page := &pageCase{Anchor: c.anchor, SetID: c.SetID, CaseID: c.CaseID, Model: c.Model, Status: c.Status.String()}
	for i, run := range c.Runs {
		page.Runs = append(page.Runs, newPageRun(i+1, run))
	}
	var b strings.Builder
	if err := r.page.ExecuteTemplate(&b, "case", page); err != nil {
		return template.HTMLEscapeString(err.Error())
	}
	return b.String()
}

func newPageRun(number int, run *eval.CaseResult) *pageRun {
	p := &pageRun{Number: number, Status: run.Status.String()}
	for _, n := range run.Notes {
		if n.Turn == nil {
			p.Notes = append(p.Notes, limitNote(n))
		}
	}
	for i, t := range run.Turns {
		turn := &pageTurn{Number: i + 1, User: limitPageText(model.TextOf(t.Actual.UserContent))}
		if t.Actual.Duration != nil {
			turn.Seconds = formatTime(*t.Actual.Duration)
		}
		// Without an expectation, nothing differs.
		expected := cmp.Or(t.Expected, t.Actual)
		turn.Calls = diffCalls(expected, t.Actual)
		turn.Response = diffWords(textOfPage(cmp.Or(expected.FinalResponse, t.Actual.FinalResponse)), textOfPage(t.Actual.FinalResponse))
		for _, m := range t.Metrics {
			if m.Status != eval.Informational {
				turn.Scores = append(turn.Scores, newPageScore(m, run.Notes, i))
			}
		}
		p.Turns = append(p.Turns, turn)
	}
	return p
}

func newPageScore(m *eval.MetricResult, notes []*eval.Note, turn int) pageScore {
	s := pageScore{Metric: shortMetricName(m.Metric), Score: unknown, Status: m.Status.String()}
	if m.Score != nil {
		s.Score = formatScore(*m.Score)
	}
	if m.Details != nil {
		s.Rubrics = m.Details.RubricScores
	}
	for _, n := range notes {
		if n.Turn != nil && *n.Turn == turn && n.Metric == m.Metric {
			s.Notes = append(s.Notes, limitNote(n))
		}
	}
	return s
}

// diffCalls compares calls in their order.
func diffCalls(expected, actual *eval.Invocation) []diffPart {
	var parts []diffPart
	a, b := listCalls(expected), listCalls(actual)
	for len(a) > 0 || len(b) > 0 {
		switch at := slices.Index(b, append(a, "")[0]); {
		case len(a) > 0 && at == 0:
			parts = append(parts, diffPart{"same", a[0]})
			a, b = a[1:], b[1:]
		case len(a) > 0 && at < 0:
			parts = append(parts, diffPart{"missing", a[0]})
			a = a[1:]
		default:
			parts = append(parts, diffPart{"extra", b[0]})
			b = b[1:]
		}
	}
	return parts
}

func listCalls(inv *eval.Invocation) []string {
	var calls []string
	for _, c := range inv.Calls() {
		calls = append(calls, fmt.Sprintf("%s(%s)", c.Name, formatArgs(c.Args)))
	}
	return calls
}

func textOfPage(c *genai.Content) string { return limitPageText(model.TextOf(c)) }

func limitPageText(s string) string {
	if len(s) > maxPageText {
		return strings.ToValidUTF8(s[:maxPageText], "") + "…"
	}
	return s
}

func limitNote(n *eval.Note) *eval.Note {
	limited := *n
	limited.Reason, limited.Answer = limitPageText(n.Reason), limitPageText(n.Answer)
	return &limited
}

// writeHTML writes a page without scripts that needs no other files.
func (r *Report) writeHTML(out io.Writer) error {
	hash := sha256.Sum256([]byte(pageStyle))
	var sets []string
	for _, c := range r.Cases {
		if !slices.Contains(sets, c.SetID) {
			sets = append(sets, c.SetID)
		}
	}
	cases := r.listCases()
	skipped := 0
	for _, c := range cases {
		if c.text.size == 0 {
			skipped++
		}
	}
	if err := r.page.ExecuteTemplate(out, "head", map[string]any{
		"Style": template.CSS(pageStyle),
		"Hash":  base64.StdEncoding.EncodeToString(hash[:]),
		"Title": strings.Join(sets, ", "), "Created": time.Now().UTC().Format("2006-01-02 15:04 UTC"), "Duration": r.Duration.Round(time.Millisecond).String(),
		"Passed": r.countStatus(eval.Passed), "Failed": r.countStatus(eval.Failed), "NotEvaluated": r.countStatus(eval.NotEvaluated),
		"Usage": r.sumUsage(), "Metrics": r.listMetrics(), "Models": r.listModels(), "Cases": cases, "Comparisons": r.Comparisons,
		"Files": r.Files, "Skipped": skipped, "HasBaseline": len(r.Comparisons) > 0,
		"HasRuns": slices.ContainsFunc(cases, func(c *Case) bool { return c.PassRate != nil }),
	}); err != nil {
		return err
	}
	for _, c := range cases {
		if err := r.texts.copyText(out, c.text); err != nil {
			return err
		}
	}
	return r.page.ExecuteTemplate(out, "foot", nil)
}

// maxDiffWords limits the words on each side of a difference: the time grows with their product.
const maxDiffWords = 1000

// A diffPart is a word sequence that both sides have, or only one.
type diffPart struct {
	// Kind is "same", "missing" (only expected) or "extra" (only actual).
	Kind, Text string
}

// diffWords compares two strings word by word by their longest common subsequence. Long
// strings are one part each.
func diffWords(expected, actual string) []diffPart {
	a, b := strings.Fields(expected), strings.Fields(actual)
	if len(a) > maxDiffWords || len(b) > maxDiffWords {
		return []diffPart{{"missing", expected}, {"extra", actual}}
	}
	// lengths[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	lengths := make([][]int, len(a)+1)
	for i := range lengths {
		lengths[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				lengths[i][j] = lengths[i+1][j+1] + 1
			} else {
				lengths[i][j] = max(lengths[i+1][j], lengths[i][j+1])
			}
		}
	}
	var parts []diffPart
	appendWord := func(kind, word string) {
		if n := len(parts); n > 0 && parts[n-1].Kind == kind {
			parts[n-1].Text += " " + word
			return
		}
		parts = append(parts, diffPart{kind, word})
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			appendWord("same", a[i])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && lengths[i+1][j] >= lengths[i][j+1]:
			appendWord("missing", a[i])
			i++
		default:
			appendWord("extra", b[j])
			j++
		}
	}
	return parts
}
