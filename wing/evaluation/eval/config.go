package eval

import (
	"fmt"
	"slices"
	"time"

	"agenthost/internal/adkjson"
)

// A Config is what a test_config.json declares.
type Config struct {
	// Criteria select the metrics, in order.
	Criteria *Criteria `json:"criteria,omitempty"`
	// CustomMetrics declares functions by metric name.
	CustomMetrics map[string]*CustomMetric `json:"customMetrics,omitempty"`
	Simulator     *SimulatorConfig         `json:"userSimulatorConfig,omitempty"`
	Live          *LiveConfig              `json:"liveModelConfig,omitempty"`
	// AllowNotEvaluated lets a case pass by its other metrics if one was not evaluated. ADK
	// has no such field.
	AllowNotEvaluated bool  `json:"allowNotEvaluated,omitempty"`
	Extra             Extra `json:"-"`
}

// A CustomMetric is a user's metric.
type CustomMetric struct {
	Code        *CodeConfig `json:"codeConfig"`
	Info        *MetricInfo `json:"metricInfo,omitempty"`
	Description string      `json:"description,omitempty"`
	Extra       Extra       `json:"-"`
}

// A CodeConfig names a custom metric's function.
type CodeConfig struct {
	Name string `json:"name"`
}

// A LiveConfig makes cases run live.
type LiveConfig struct {
	// Timeout limits a turn, in seconds; nil for 300.
	Timeout *float64 `json:"timeoutSeconds,omitempty"`
}

// CheckFields returns an error if the timeout is not positive. Nil is valid.
func (c *LiveConfig) CheckFields() error {
	if c == nil || c.Timeout == nil || *c.Timeout > 0 && *c.Timeout <= maxLiveSeconds {
		return nil
	}
	return fmt.Errorf("timeout_seconds must be above 0 and at most %d, got %v", maxLiveSeconds, *c.Timeout)
}

// TurnTimeout returns the limit for a turn.
func (c *LiveConfig) TurnTimeout() time.Duration {
	if c.Timeout == nil {
		return defaultLiveTimeout
	}
	return time.Duration(*c.Timeout * float64(time.Second))
}

// The timeouts for a live turn: ADK's, and the longest one, in seconds.
const (
	defaultLiveTimeout = 300 * time.Second
	maxLiveSeconds     = 86400
)

// Criteria are metric criteria in order.
type Criteria struct {
	Names  []string
	ByName map[string]*Criterion
}

// readCriteria reads a map from metric names to numbers or criteria.
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

func (c *Config) validateFields() *adkjson.Error {
	if err := c.Live.CheckFields(); err != nil {
		return &adkjson.Error{Path: []any{"live_model_config"}, Message: err.Error()}
	}
	if c.Simulator == nil {
		return nil
	}
	if err := c.Simulator.CheckFields(false); err != nil {
		return &adkjson.Error{Path: []any{"user_simulator_config"}, Message: err.Error()}
	}
	return nil
}

// DefaultConfig applies without a config: the trajectory must match, and the response must
// score 0.8.
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
	// CustomFunction names a custom metric's function.
	CustomFunction string `json:"customFunctionPath,omitempty"`
}

// Measures returns the metrics that the config selects, by their full names and without
// the informational ones.
func (c *Config) Measures() []*Measure {
	all := c.Criteria.Measures()
	for i, m := range all {
		name := c.Criteria.Names[i]
		if custom := c.CustomMetrics[name]; custom != nil {
			m.Metric = name // even if a metric of ADK has it
			if custom.Code != nil {
				m.CustomFunction = custom.Code.Name
			}
		}
	}
	return all
}

// Measures returns a metric for each criterion, by their full names. It returns none for
// nil.
func (c *Criteria) Measures() []*Measure {
	var all []*Measure
	if c == nil {
		return all
	}
	for _, name := range c.Names {
		crit := c.ByName[name]
		m := &Measure{Metric: name, Threshold: crit.Threshold, Criterion: crit}
		if metric, ok := FindMetric(name); ok {
			m.Metric = metric.Name
		}
		all = append(all, m)
	}
	return all
}

// MergeMeasures returns a case's metrics: those in its set, then those that only the case
// has. A criterion in the case replaces the set's criterion; one that is only a threshold
// keeps the other fields.
func MergeMeasures(set []*Measure, own *Criteria) []*Measure {
	all := slices.Clone(set)
	for _, m := range own.Measures() {
		i := slices.IndexFunc(all, func(s *Measure) bool { return s.Metric == m.Metric })
		if i < 0 {
			all = append(all, m)
			continue
		}
		m.CustomFunction = all[i].CustomFunction
		if m.Criterion.isNumber() && all[i].Criterion != nil {
			criterion := *all[i].Criterion
			criterion.Threshold = m.Threshold
			m.Criterion = &criterion
		}
		all[i] = m
	}
	return all
}

// InformationalMeasures returns the metrics that ADK adds to each run.
func InformationalMeasures() []*Measure {
	var all []*Measure
	for _, m := range Metrics() {
		if m.Informational() {
			all = append(all, &Measure{Metric: m.Name})
		}
	}
	return all
}

// DefaultRubrics are the rubrics for a criterion that has none, if the cases have none
// either; nil for a metric without rubrics.
func (m *Metric) DefaultRubrics() []*Rubric {
	texts := map[string][][2]string{
		RubricFinalResponse: {
			{"answers_request", "The response answers what the user asked for, or explains why it cannot."},
			{"follows_instructions", "The response follows the instructions of the agent."},
			{"is_clear", "The response is clear and contains nothing irrelevant."},
		},
		RubricToolUse: {
			{"calls_needed_tools", "The agent calls the tools that the request requires, and no others."},
			{"passes_right_arguments", "The arguments of each tool call agree with the conversation."},
		},
		RubricTrajectory: {
			{"reaches_goal", "The agent achieves what the user wants by the end of the conversation."},
			{"stays_consistent", "The agent neither contradicts itself nor repeats questions that have been answered."},
		},
	}
	var all []*Rubric
	for _, t := range texts[m.Name] {
		all = append(all, &Rubric{ID: t[0], Content: &RubricContent{t[1]}})
	}
	return all
}

// A RunRequest selects the cases to run on an app, and the metrics that score them.
type RunRequest struct {
	App string
	Set *Set
	// Config has the set's criteria and simulated user; nil for the defaults.
	Config *Config
	// CaseIDs select cases; empty for all.
	CaseIDs []string
	// Measures are the metrics; if empty, the config selects them. A measure without a
	// criterion uses the config's, or else a default one.
	Measures []*Measure
	// Simulator replaces the config's; nil keeps it.
	Simulator *SimulatorConfig
	// Live replaces the config's; nil keeps it.
	Live *LiveConfig
}

// RunProgress reports that a run started, or that a case ended.
type RunProgress struct {
	// ResultID identifies the result, which is stored when the run ends.
	ResultID string
	// Total counts the run's cases.
	Total int
	// Result is the case's result; nil at the start.
	Result *CaseResult
}
