package rollout

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"agenthost/pkg/session"
)

// A condition is an entry in rollout.abort: a test on the share for which a measure is true.
type condition struct {
	// Test is above or worse.
	Test string `json:"test"`
	// Measure is its name: a fact such as failed, or a number such as usd.
	Measure string `json:"measure"`
	// Operator compares a number with Than or, if Percentile is set, with that percentile on the
	// stable revision; it is empty for a fact.
	Operator   string  `json:"operator,omitempty"`
	Than       float64 `json:"than,omitempty"`
	Percentile bool    `json:"percentile,omitempty"`
	// Limit is the rate for above, and the least difference for worse.
	Limit float64 `json:"limit"`
	// Source is how the author wrote it.
	Source string `json:"source"`
}

// The tests, and a session's measures.
const (
	testAbove = "above"
	testWorse = "worse"
)

var (
	facts   = []string{"failed", "tool_error", "rejected"}
	numbers = []string{"seconds", "tokens", "usd", "turns", "score"}
)

// maxCondition limits a condition's length, since it is stored.
const maxCondition = 200

// conditionForm matches TEST(MEASURE, LIMIT) and TEST(MEASURE OPERATOR VALUE, LIMIT).
var conditionForm = regexp.MustCompile(`^\s*([a-z]+)\s*\(\s*([a-z_]+)\s*(?:(<=|>=|<|>)\s*(?:(stable\.p90\.)([a-z_]+)|(-?[0-9.]+))\s*)?,\s*([0-9.]+)\s*\)\s*$`)

// errorHint shows the forms of a condition.
const errorHint = "write above(failed, 0.1), worse(failed, 0.02) or worse(usd > stable.p90.usd, 0.1)"

// commaHint is for a condition that YAML has cut at its comma.
const commaHint = `in [ ] a comma ends an item: quote the condition, such as ["above(failed, 0.1)"]`

// parseCondition reads an entry in rollout.abort.
func parseCondition(source string) (condition, error) {
	m := conditionForm.FindStringSubmatch(source)
	if m == nil || len(source) > maxCondition {
		return condition{}, fmt.Errorf("%.100q is not a condition", source)
	}
	c := condition{Test: m[1], Measure: m[2], Operator: m[3], Percentile: m[4] != "", Source: strings.TrimSpace(source)}
	var err error
	if c.Limit, err = strconv.ParseFloat(m[7], 64); err == nil && m[6] != "" {
		c.Than, err = strconv.ParseFloat(m[6], 64)
	}
	switch known := facts; {
	case err != nil:
		return condition{}, fmt.Errorf("%.100q has a malformed number", source)
	case c.Test != testAbove && c.Test != testWorse:
		return condition{}, fmt.Errorf("unknown test %q: known are %s and %s", c.Test, testAbove, testWorse)
	case c.Operator != "":
		known = numbers
		fallthrough
	default:
		if !slices.Contains(known, c.Measure) {
			return condition{}, c.unknownMeasure(known)
		}
	}
	if c.Percentile && m[5] != c.Measure {
		return condition{}, fmt.Errorf("%s is compared with %s: write stable.p90.%s", c.Measure, m[5], c.Measure)
	}
	if c.Percentile && c.Measure == "score" {
		return condition{}, fmt.Errorf("score has no percentile: compare it with a number from -1 to 1, such as score < 0")
	}
	if c.Limit >= 1 || c.Test == testAbove && c.Limit <= 0 {
		return condition{}, fmt.Errorf("the limit of %s is a share above 0 and below 1, got %v", c.Test, c.Limit)
	}
	return c, nil
}

// unknownMeasure explains which measures the condition's form allows.
func (c *condition) unknownMeasure(known []string) error {
	if c.Operator == "" && slices.Contains(numbers, c.Measure) {
		return fmt.Errorf("%s is a number: compare it, such as %s > 10", c.Measure, c.Measure)
	}
	if c.Operator != "" && slices.Contains(facts, c.Measure) {
		return fmt.Errorf("%s is true or false: write it without %s", c.Measure, c.Operator)
	}
	return fmt.Errorf("unknown measure %q: known are %s", c.Measure, strings.Join(known, ", "))
}

// A measured is what came out of one session on one revision.
type measured struct {
	failed, toolError, rejected bool
	numbers                     map[string]float64
}

// measureSession measures a session's outcomes on one revision. A number that is not
// known is missing: usd if a model call has no price, and score without feedback.
func measureSession(total *session.Outcome, scores []float64) measured {
	total.CloseTurn()
	m := measured{failed: len(total.Failures) > 0, rejected: total.Rejected > 0, numbers: map[string]float64{}}
	var calls, priced, nanoUSD, tokens int64
	for _, a := range total.Agents {
		m.toolError = m.toolError || a.ToolErrors > 0
		calls, priced, nanoUSD, tokens = calls+a.Calls, priced+a.Priced, nanoUSD+a.NanoUSD, tokens+a.Input+a.Output
	}
	m.numbers["turns"], m.numbers["tokens"] = float64(total.Turns), float64(tokens)
	if total.Turns > 0 {
		m.numbers["seconds"] = float64(total.Millis) / float64(total.Turns) / 1000
	}
	if calls > 0 && priced == calls {
		m.numbers["usd"] = float64(nanoUSD) / 1e9
	}
	sum := 0.0
	for _, score := range scores {
		sum += score
	}
	if len(scores) > 0 {
		m.numbers["score"] = sum / float64(len(scores))
	}
	return m
}

// evaluateMeasure reports whether the condition's measure is true for a session. known is false if the session
// or the stable revision does not have the number.
func (c *condition) evaluateMeasure(m *measured, percentiles map[string]float64) (hit, known bool) {
	switch c.Measure {
	case "failed":
		return m.failed, true
	case "tool_error":
		return m.toolError, true
	case "rejected":
		return m.rejected, true
	}
	value, known := m.numbers[c.Measure]
	than := c.Than
	if c.Percentile {
		var has bool
		than, has = percentiles[c.Measure]
		known = known && has
	}
	switch c.Operator {
	case "<":
		return value < than, known
	case "<=":
		return value <= than, known
	case ">":
		return value > than, known
	}
	return value >= than, known
}
