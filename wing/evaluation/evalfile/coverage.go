package evalfile

import (
	"fmt"
	"slices"
	"strings"

	"agenthost/pkg/spec"
	"agenthost/wing/evaluation/eval"
)

// A gap is an expectation that no metric scores, or a metric that lacks what it compares.
type gap struct {
	// problem has no position yet.
	problem spec.Diagnostic
	// index is the case's index, turn the index of its turn; -1 for none.
	index, turn int
	// key is a key in the case or turn; empty if the gap is the whole.
	key string
	// more is how many other cases have the same kind of gap.
	more int
}

// findGaps returns the gaps in a set with the given metrics: the first case for each kind.
func findGaps(cases []*eval.Case, measures []*eval.Measure) []*gap {
	g := &gapFinder{}
	for i, c := range cases {
		own := eval.MergeMeasures(measures, c.Criteria)
		if len(own) == 0 {
			continue // the criteria are invalid
		}
		g.index, g.measures, g.seen = i, own, map[string]bool{}
		if c.Scenario != nil {
			g.checkScenario()
		}
		g.checkMetricsWithoutRubrics(c)
		g.checkRubrics(c.Rubrics, -1)
		for turn, inv := range c.Conversation {
			g.checkRubrics(inv.Rubrics, turn)
			g.checkTurn(c, inv, turn)
		}
	}
	return g.gaps
}

type gapFinder struct {
	gaps     []*gap
	index    int
	measures []*eval.Measure
	// seen are the kinds of gaps in the current case.
	seen map[string]bool
}

// addGap adds a gap, or counts it if there is one of its kind.
func (g *gapFinder) addGap(kind string, found gap) {
	if g.seen[kind] {
		return
	}
	g.seen[kind] = true
	found.index = g.index
	for _, known := range g.gaps {
		if known.problem.Rule == found.problem.Rule && known.problem.Message == found.problem.Message {
			known.more++
			return
		}
	}
	g.gaps = append(g.gaps, &found)
}

// checkScenario finds metrics that compare with expected turns, which a scenario does not have.
func (g *gapFinder) checkScenario() {
	for _, m := range g.measures {
		metric, known := eval.FindMetric(m.Metric)
		if known && metric.NeedsExpected && !m.Criterion.OnlyExpected {
			g.addGap(m.Metric, gap{turn: -1, problem: spec.Diagnostic{
				Rule: "eval-plan", Message: fmt.Sprintf("metric %s cannot score the case: turns with a simulated user have no expectations", m.Metric),
				Hint: "move the case to its own file, or set only_expected: true in the criterion",
			}})
		}
	}
}

const rubricsHint = "add rubrics: {NAME: TEXT} to the criterion or to the case"

// checkMetricsWithoutRubrics finds metrics that judge by rubrics, without one in the case.
func (g *gapFinder) checkMetricsWithoutRubrics(c *eval.Case) {
	all := slices.Clone(c.Rubrics)
	for _, inv := range c.Conversation {
		all = append(all, inv.Rubrics...)
	}
	for _, kind := range []string{eval.TypeFinalResponse, eval.TypeToolUse, eval.TypeTrajectory} {
		if slices.ContainsFunc(all, func(r *eval.Rubric) bool { return r.Type == kind }) {
			continue
		}
		metric := metricOfRubric(kind)
		if slices.ContainsFunc(g.measures, func(m *eval.Measure) bool { return m.Metric == metric && len(m.Criterion.Rubrics) == 0 }) {
			g.addGap(metric, gap{turn: -1, problem: spec.Diagnostic{
				Rule: "eval-no-rubrics", Message: fmt.Sprintf("metric %s has no rubrics for the case", metric), Hint: rubricsHint,
			}})
		}
	}
}

// checkRubrics finds rubrics that no metric judges.
func (g *gapFinder) checkRubrics(rubrics []*eval.Rubric, turn int) {
	for _, r := range rubrics {
		metric := metricOfRubric(r.Type)
		switch {
		case metric == "":
			g.addUnscored("rubrics", turn, fmt.Sprintf("no metric judges rubrics of the type %q", r.Type), "use "+eval.TypeFinalResponse+", "+eval.TypeToolUse+" or "+eval.TypeTrajectory)
		case !g.hasMetric(metric):
			g.addUnscored("rubrics", turn, "the rubrics are not judged without the metric "+metric, "add it to metrics")
		}
	}
}

func (g *gapFinder) addUnscored(key string, turn int, message, hint string) {
	g.addGap(message, gap{turn: turn, key: key, problem: spec.Diagnostic{Rule: "eval-unscored", Message: message, Hint: hint}})
}

func metricOfRubric(rubricType string) string {
	switch rubricType {
	case eval.TypeFinalResponse:
		return eval.RubricFinalResponse
	case eval.TypeToolUse:
		return eval.RubricToolUse
	case eval.TypeTrajectory:
		return eval.RubricTrajectory
	}
	return ""
}

// checkTurn finds a turn without the response that a metric compares, and expectations that no
// metric compares. A custom metric may compare anything.
func (g *gapFinder) checkTurn(c *eval.Case, inv *eval.Invocation, turn int) {
	for _, m := range g.measures {
		if m.Metric == eval.ResponseMatch && inv.FinalResponse == nil && !m.Criterion.OnlyExpected && expectsSomething(c) {
			g.addGap(m.Metric, gap{turn: turn, problem: spec.Diagnostic{
				Rule: "eval-no-text", Message: "response_match_score is 0 for a turn without an expected response",
				Hint: "add expect: {text: TEXT}, or set only_expected: true in the criterion",
			}})
		}
	}
	if slices.ContainsFunc(g.measures, func(m *eval.Measure) bool { _, known := eval.FindMetric(m.Metric); return !known }) {
		return
	}
	if inv.Intermediate != nil && !g.hasMetric(eval.ToolTrajectory) && !g.hasMetric(eval.ToolParameterMatch) {
		g.addUnscored("calls", turn, "the expected calls are not compared by any metric", "add tool_trajectory: 1 to metrics")
	}
	if inv.FinalResponse != nil && !g.hasMetric(eval.ResponseMatch) && !g.hasMetric(eval.FinalResponseMatch) && !g.hasMetric(eval.ResponseEvaluation) {
		g.addUnscored("text", turn, "the expected response is not compared by any metric", "add response_match: 0.8 to metrics")
	}
}

func (g *gapFinder) hasMetric(metric string) bool {
	return slices.ContainsFunc(g.measures, func(m *eval.Measure) bool { return m.Metric == metric })
}

// locateAt returns the warning at a position.
func (g *gap) locateAt(at spec.Pos) spec.Diagnostic {
	d := g.problem
	d.Pos, d.Severity = at, spec.Warning
	switch {
	case g.more == 1:
		d.Message += " (and 1 more case)"
	case g.more > 1:
		d.Message += fmt.Sprintf(" (and %d more cases)", g.more)
	}
	return d
}

// CheckRubrics warns about metrics that judge by rubrics and have none for a case, before models
// are called.
func CheckRubrics(file string, cases []*eval.Case, measures []*eval.Measure) spec.Diagnostics {
	var all spec.Diagnostics
	for _, g := range findGaps(cases, measures) {
		if g.problem.Rule == "eval-no-rubrics" {
			g.problem.Message = strings.Replace(g.problem.Message, "the case", "case "+cases[g.index].ID, 1)
			all = append(all, g.locateAt(spec.Pos{File: file}))
		}
	}
	return all
}

// WarnOfGeneralRubrics returns the warning for a metric that judges by its own rubrics.
func WarnOfGeneralRubrics(file, metric string) spec.Diagnostic {
	return spec.Diagnostic{
		Pos: spec.Pos{File: file}, Severity: spec.Warning, Rule: "eval-no-rubrics",
		Message: fmt.Sprintf("metric %s judges by general rubrics, because no case has rubrics", metric), Hint: rubricsHint,
	}
}

// setMeasures returns a set's metrics: its own, or else those from the config next to it.
func (n *Names) setMeasures(own *eval.Config) []*eval.Measure {
	switch {
	case own != nil && own.Criteria != nil:
		return own.Measures()
	case n.Config != nil:
		return n.Config.Measures()
	}
	return eval.DefaultConfig().Measures()
}

// checkCoverage warns about gaps at their places in YAML.
func (d *decoder) checkCoverage(n *spec.Node, f *File) {
	items := listItems(n.Get("cases"))
	for _, g := range findGaps(f.Cases, d.names.setMeasures(f.Config)) {
		at := items[g.index]
		if g.turn > 0 {
			at = at.Get("then").Items[g.turn-1]
		}
		place := at
		switch expect := at.Get("expect"); {
		case g.problem.Rule == "eval-plan":
			place = at.Get("plan")
		case g.key == "rubrics" && g.turn < 0:
			place = at.Get("rubrics")
		case g.key != "":
			place = expect.Get(g.key)
		}
		warning := g.locateAt(place.Pos)
		warning.Source = place.Errorf("", "").Source
		d.addDiagnostics(warning)
	}
}

// checkCoverage warns about gaps in an ADK set. Its recorded turns have calls and responses
// whatever is measured.
func (a *adkFile) checkCoverage(set *eval.Set) {
	for _, g := range findGaps(set.Cases, a.names.setMeasures(nil)) {
		if g.key == "calls" || g.key == "text" {
			continue
		}
		path := []any{"eval_cases", g.index}
		switch {
		case g.problem.Rule == "eval-plan":
			path = append(path, "conversation_scenario")
		case g.turn >= 0:
			path = append(path, "conversation", g.turn)
		}
		if g.key != "" {
			path = append(path, g.key)
		}
		a.diagnostics = append(a.diagnostics, g.locateAt(a.places.Locate(path...)))
	}
}
