package eval

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"google.golang.org/genai"

	"agenthost/internal/number"
)

// measureTrajectory compares each turn's calls with the expected ones.
func measureTrajectory(_ context.Context, in *Input) (*Scores, error) {
	m, err := newCallMatcher(in.Criterion)
	if err != nil {
		return nil, err
	}
	return ScoreTurns(in, func(i int) *float64 {
		score := m.scoreCalls(in.Actual[i].Calls(), in.Expected[i].Calls())
		return &score
	}), nil
}

// A callMatcher matches calls by a criterion.
type callMatcher struct {
	*Criterion
	patterns map[string]map[string]*regexp.Regexp
}

func newCallMatcher(c *Criterion) (*callMatcher, error) {
	m := &callMatcher{c, map[string]map[string]*regexp.Regexp{}}
	for tool, rule := range c.Tools {
		if rule == nil {
			return nil, fmt.Errorf("tools.%s is null", tool)
		}
		m.patterns[tool] = map[string]*regexp.Regexp{}
		for arg, pattern := range rule.Patterns {
			re, err := regexp.Compile(`^(?s:` + pattern + `)$`)
			if err != nil {
				return nil, fmt.Errorf("tools.%s.patterns.%s: %w", tool, arg, err)
			}
			m.patterns[tool][arg] = re
		}
	}
	return m, nil
}

// scoreCalls returns 1 if the calls match, else 0; with PartialScore the share that does.
func (m *callMatcher) scoreCalls(actual, expected []*genai.FunctionCall) float64 {
	matched := m.countMatches(actual, expected)
	total := len(expected)
	if m.MatchType == MatchExact && len(actual) != total {
		if !m.PartialScore {
			return 0
		}
		// Calls that are not expected count against an exact match: this is its F1.
		return 2 * float64(matched) / float64(len(actual)+total)
	}
	switch {
	case matched == total:
		return 1
	case m.PartialScore:
		return float64(matched) / float64(total)
	default:
		return 0
	}
}

func (m *callMatcher) countMatches(actual, expected []*genai.FunctionCall) int {
	switch {
	case m.MatchType == MatchInOrder, m.PartialScore && m.MatchType == MatchExact:
		// A call too many shifts the others: they still count for a part of the score.
		return m.countInOrder(actual, expected)
	case m.MatchType == MatchAnyOrder:
		return m.countAnyOrder(actual, expected)
	default:
		n := 0
		for i := range min(len(actual), len(expected)) {
			if m.matchesCall(actual[i], expected[i]) {
				n++
			}
		}
		return n
	}
}

// countInOrder returns the longest common subsequence's length.
func (m *callMatcher) countInOrder(actual, expected []*genai.FunctionCall) int {
	row := make([]int, len(expected)+1)
	for _, a := range actual {
		diagonal := 0
		for j, e := range expected {
			above := row[j+1]
			if m.matchesCall(a, e) {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(above, row[j])
			}
			diagonal = above
		}
	}
	return row[len(expected)]
}

// countAnyOrder returns the size of the largest matching of expected and actual calls. A call
// may match several, because patterns and tolerances are not equalities.
func (m *callMatcher) countAnyOrder(actual, expected []*genai.FunctionCall) int {
	takenBy := make([]int, len(actual))
	for i := range takenBy {
		takenBy[i] = -1
	}
	n := 0
	for e := range expected {
		tried := make([]bool, len(actual))
		var assign func(e int) bool
		assign = func(e int) bool {
			for a := range actual {
				if tried[a] || !m.matchesCall(actual[a], expected[e]) {
					continue
				}
				tried[a] = true
				if takenBy[a] < 0 || assign(takenBy[a]) {
					takenBy[a] = e
					return true
				}
			}
			return false
		}
		if assign(e) {
			n++
		}
	}
	return n
}

func (m *callMatcher) matchesCall(actual, expected *genai.FunctionCall) bool {
	if actual.Name != expected.Name {
		return false
	}
	if m.IgnoreArgs {
		return true
	}
	tool := actual.Name
	rule := m.Tools[tool]
	if rule == nil {
		tool, rule = "*", m.Tools["*"]
	}
	if rule == nil {
		return (actual.Args == nil) == (expected.Args == nil) && number.EqualInPython(actual.Args, expected.Args, 0)
	}
	return m.matchesArgs(actual.Args, expected.Args, tool)
}

// matchesArgs compares the arguments that a tool's rule selects. Here, missing arguments are
// the same as empty ones.
func (m *callMatcher) matchesArgs(actual, expected map[string]any, tool string) bool {
	rule := m.Tools[tool]
	isCompared := func(name string) bool {
		return (len(rule.Only) == 0 || slices.Contains(rule.Only, name)) && !slices.Contains(rule.Ignore, name)
	}
	for name, re := range m.patterns[tool] {
		v, ok := actual[name]
		if isCompared(name) && (!ok || !re.MatchString(textOfValue(v))) {
			return false
		}
	}
	for name := range mergeKeys(actual, expected) {
		if _, hasPattern := m.patterns[tool][name]; hasPattern || !isCompared(name) {
			continue
		}
		a, inActual := actual[name]
		e, inExpected := expected[name]
		if inActual != inExpected || !number.EqualInPython(a, e, rule.Tolerance) {
			return false
		}
	}
	return true
}

func mergeKeys(a, b map[string]any) map[string]bool {
	keys := map[string]bool{}
	for k := range a {
		keys[k] = true
	}
	for k := range b {
		keys[k] = true
	}
	return keys
}

// textOfValue returns a string as it is and any other value as JSON.
func textOfValue(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// measureParameters scores the share of expected arguments that the calls have. The rule
// comes from an open change in ADK.
func measureParameters(_ context.Context, in *Input) (*Scores, error) {
	return ScoreTurns(in, func(i int) *float64 {
		return scoreParameters(in.Actual[i].Calls(), in.Expected[i].Calls())
	}), nil
}

// scoreParameters searches each expected call after the last one found. Without expected
// calls there is no score.
func scoreParameters(actual, expected []*genai.FunctionCall) *float64 {
	var scores []*float64
	for _, e := range expected {
		score := 0.0
		if i := slices.IndexFunc(actual, func(a *genai.FunctionCall) bool { return a.Name == e.Name }); i >= 0 {
			score = shareOfArgs(actual[i].Args, e.Args)
			actual = actual[i+1:]
		}
		scores = append(scores, &score)
	}
	return meanOf(scores)
}

func shareOfArgs(actual, expected map[string]any) float64 {
	if len(expected) == 0 {
		return 1
	}
	n := 0
	for k, e := range expected {
		if a, ok := actual[k]; ok && number.EqualInPython(a, e, 0) {
			n++
		}
	}
	return float64(n) / float64(len(expected))
}
