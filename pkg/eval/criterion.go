package eval

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"agenthost/internal/adkjson"
)

// A Criterion is how a metric measures, and from which score on it passes. It has the
// fields of all metrics; each metric uses its own.
type Criterion struct {
	// Threshold is the lowest score that passes; nil if the criterion has none.
	Threshold *float64 `json:"threshold,omitempty"`
	// WithIntermediate counts intermediate texts as part of the final response.
	WithIntermediate bool `json:"includeIntermediateResponsesInFinal,omitempty"`

	// Judge selects the judge of metrics that have one; nil for the defaults.
	Judge   *JudgeOptions `json:"judgeModelOptions,omitempty"`
	Rubrics []*Rubric     `json:"rubrics,omitempty"`
	// CheckIntermediate makes hallucinations_v1 check intermediate texts too.
	CheckIntermediate bool `json:"evaluateIntermediateNlResponses,omitempty"`
	// StopSignal is how a simulated user ends a conversation; empty for "</finished>".
	StopSignal string `json:"stopSignal,omitempty"`

	// MatchType and IgnoreArgs are how tool_trajectory_avg_score matches calls.
	MatchType  MatchType `json:"matchType,omitempty"`
	IgnoreArgs bool      `json:"ignoreArgs,omitempty"`
	// Tools refines how the arguments of a tool match, by the name of the tool, "*" for
	// all others. ADK has no such field.
	Tools map[string]*ArgsRule `json:"tools,omitempty"`
	// PartialScore scores the share of calls that match instead of 0 or 1. ADK has no
	// such field.
	PartialScore bool `json:"partialScore,omitempty"`

	// Extra holds the keys of other metrics.
	Extra Extra `json:"-"`
}

// An ArgsRule is how the arguments of a tool match.
type ArgsRule struct {
	// Only lists the arguments to compare; empty for all.
	Only []string `json:"only,omitempty"`
	// Ignore lists arguments that are not compared.
	Ignore []string `json:"ignore,omitempty"`
	// Patterns are regular expressions for the whole text of an argument of the actual
	// call; they replace the expected value.
	Patterns map[string]string `json:"patterns,omitempty"`
	// Tolerance is how far apart numbers may be, also in lists and objects.
	Tolerance float64 `json:"tolerance,omitempty"`
}

// JudgeOptions select and configure the model of a judge.
type JudgeOptions struct {
	// Model is the name of the model; empty for "gemini-2.5-flash".
	Model string `json:"judgeModel,omitempty"`
	// Config is a GenerateContentConfig as it is written.
	Config json.RawMessage `json:"judgeModelConfig,omitempty"`
	// Samples is how often each turn is judged, Parallel how many samples of a case are
	// requested at once; nil for 5 and 1.
	Samples  *int `json:"numSamples,omitempty"`
	Parallel *int `json:"parallelismLimit,omitempty"`
}

// DefaultJudgeModel is the judge of a criterion that names none.
const DefaultJudgeModel = "gemini-2.5-flash"

const defaultSamples = 5

// The limits of a judge: each sample is a call that costs money.
const (
	maxSamples  = 100
	maxParallel = 100
)

// A MatchType is how the calls of a turn match the expected ones.
type MatchType int

const (
	// MatchExact requires the same calls in the same order, and no others.
	MatchExact MatchType = iota
	// MatchInOrder requires the expected calls in their order; others may come between.
	MatchInOrder
	// MatchAnyOrder requires the expected calls in any order; there may be others.
	MatchAnyOrder
)

func matchTypes() []string { return []string{"EXACT", "IN_ORDER", "ANY_ORDER"} }

// String returns the name of ADK.
func (m MatchType) String() string {
	if names := matchTypes(); 0 <= m && int(m) < len(names) {
		return names[m]
	}
	return fmt.Sprintf("MatchType(%d)", int(m))
}

// ParseMatchType reads a name in any case, with blanks or hyphens for underscores.
func ParseMatchType(name string) (MatchType, error) {
	key := strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToUpper(strings.TrimSpace(name)))
	if i := slices.Index(matchTypes(), key); i >= 0 {
		return MatchType(i), nil
	}
	return 0, fmt.Errorf("match_type must be EXACT, IN_ORDER or ANY_ORDER, got %q", name)
}

func readMatchType(r *adkjson.Decoder, m *MatchType) {
	switch v := r.ReadValue().(type) {
	case string:
		t, err := ParseMatchType(v)
		if err != nil {
			r.SetError("%v", err)
		}
		*m = t
	case int64:
		if v < 0 || int(v) >= len(matchTypes()) {
			r.SetError("match_type must be 0, 1 or 2, got %d", v)
		}
		*m = MatchType(v)
	default:
		r.SetError("match_type must be EXACT, IN_ORDER or ANY_ORDER")
	}
}

// A Config is what a test_config.json declares.
type Config struct {
	// Criteria select the metrics, in order.
	Criteria *Criteria `json:"criteria,omitempty"`
	// CustomMetrics declares functions by the name of their metric.
	CustomMetrics map[string]*CustomMetric `json:"customMetrics,omitempty"`
	Simulator     *SimulatorConfig         `json:"userSimulatorConfig,omitempty"`
	Live          *LiveConfig              `json:"liveModelConfig,omitempty"`
	Extra         Extra                    `json:"-"`
}

// A CustomMetric is a metric of the user.
type CustomMetric struct {
	Code        *CodeConfig `json:"codeConfig"`
	Info        *MetricInfo `json:"metricInfo,omitempty"`
	Description string      `json:"description,omitempty"`
	Extra       Extra       `json:"-"`
}

// A CodeConfig names the function of a custom metric.
type CodeConfig struct {
	Name string `json:"name"`
}

// A LiveConfig makes cases run live.
type LiveConfig struct {
	// Timeout of a turn in seconds; nil for 300.
	Timeout *float64 `json:"timeoutSeconds,omitempty"`
}

// Criteria are the criteria of metrics in order.
type Criteria struct {
	Names  []string
	ByName map[string]*Criterion
}

// readCriteria reads a map from the name of a metric to a number or a criterion.
func readCriteria(r *adkjson.Decoder, c *Criteria) {
	*c = Criteria{ByName: map[string]*Criterion{}}
	r.ReadFields(func([]byte) any { return nil }, func(key, _ []byte) {
		name := string(key)
		crit := readCriterion(r)
		if crit == nil {
			return
		}
		if _, ok := c.ByName[name]; !ok {
			c.Names = append(c.Names, name)
		}
		c.ByName[name] = crit
	})
}

// readCriterion reads a threshold, or an object with one.
func readCriterion(r *adkjson.Decoder) *Criterion {
	raw := r.ReadRawValue()
	if r.Err != nil {
		return nil
	}
	c := &Criterion{}
	sub := newDecoder(raw, true)
	switch raw[0] {
	case '{':
		sub.ReadInto(c)
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		sub.ReadInto(&c.Threshold)
	default:
		sub.SetError("must be a threshold or a criterion, got %s", raw)
	}
	if sub.Err == nil && c.Threshold == nil {
		sub.SetError("threshold is required")
	}
	if sub.Err == nil {
		c.checkLimits(sub)
	}
	if sub.Err != nil {
		r.SetError("%s", sub.Err.Message)
		r.Err.Path = sub.Err.Path
		return nil
	}
	return c
}

func (c *Criterion) checkLimits(r *adkjson.Decoder) {
	j := c.Judge
	if j == nil {
		return
	}
	if n := j.Samples; n != nil && (*n < 1 || *n > maxSamples) {
		r.SetError("num_samples must be between 1 and %d, got %d", maxSamples, *n)
	}
	if n := j.Parallel; n != nil && (*n < 1 || *n > maxParallel) {
		r.SetError("parallelism_limit must be between 1 and %d, got %d", maxParallel, *n)
	}
}

func writeCriteria(w *adkjson.Encoder, c *Criteria) {
	w.OpenBracket('{')
	for _, name := range c.Names {
		w.StartEscapedField(name)
		crit := c.ByName[name]
		if crit.isNumber() {
			w.WriteValue(*crit.Threshold)
			continue
		}
		writeCustom(w, crit)
	}
	w.CloseBracket('}')
}

// isNumber reports whether only the threshold is set.
func (c *Criterion) isNumber() bool {
	return c.Threshold != nil && !c.WithIntermediate && c.Judge == nil && len(c.Rubrics) == 0 &&
		!c.CheckIntermediate && c.StopSignal == "" && c.MatchType == MatchExact && !c.IgnoreArgs &&
		len(c.Tools) == 0 && !c.PartialScore && len(c.Extra) == 0
}

func (c *Config) validateFields() *adkjson.Error {
	if c.Simulator == nil {
		return nil
	}
	if err := c.Simulator.CheckFields(false); err != nil {
		return &adkjson.Error{Path: []any{"user_simulator_config"}, Message: err.Error()}
	}
	return nil
}

// ReadConfig reads a test_config.json.
func ReadConfig(file string, src []byte) (*Config, error) {
	c := &Config{}
	if err := Decode(file, src, c); err != nil {
		return nil, err
	}
	return c, nil
}

// DefaultConfig is what applies without a config: the trajectory must match, and the
// response with a score of 0.8.
func DefaultConfig() *Config {
	one, most := 1.0, 0.8
	return &Config{Criteria: &Criteria{
		Names: []string{ToolTrajectory, ResponseMatch},
		ByName: map[string]*Criterion{
			ToolTrajectory: {Threshold: &one},
			ResponseMatch:  {Threshold: &most},
		},
	}}
}

// A Measure is a metric that a run measures, with its criterion.
type Measure struct {
	Metric    string     `json:"metricName"`
	Threshold *float64   `json:"threshold"`
	Criterion *Criterion `json:"criterion"`
	// CustomFunction is the function of a custom metric.
	CustomFunction string `json:"customFunctionPath,omitempty"`
}

// Measures returns the metrics that the config selects, by their full names and without
// the informational ones.
func (c *Config) Measures() []*Measure {
	var all []*Measure
	if c.Criteria == nil {
		return all
	}
	for _, name := range c.Criteria.Names {
		crit := c.Criteria.ByName[name]
		m := &Measure{Metric: name, Threshold: crit.Threshold, Criterion: crit}
		if metric, ok := FindMetric(name); ok && c.CustomMetrics[name] == nil {
			m.Metric = metric.Name
		}
		if custom := c.CustomMetrics[name]; custom != nil && custom.Code != nil {
			m.CustomFunction = custom.Code.Name
		}
		all = append(all, m)
	}
	return all
}

// CheckMetrics returns an error for the first criterion whose metric neither exists nor is
// a custom one, or has another criterion.
func (c *Config) CheckMetrics() error {
	known := append(MetricNames(), slices.Sorted(maps.Keys(c.CustomMetrics))...)
	seen := map[string]bool{}
	for _, m := range c.Measures() {
		if seen[m.Metric] {
			return fmt.Errorf("metric %q has more than one criterion", m.Metric)
		}
		seen[m.Metric] = true
		if _, ok := FindMetric(m.Metric); !ok && c.CustomMetrics[m.Metric] == nil {
			return fmt.Errorf("unknown metric %q%s", m.Metric, formatSuggestion(m.Metric, known))
		}
	}
	return nil
}
