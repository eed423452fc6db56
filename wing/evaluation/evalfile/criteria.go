package evalfile

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strings"

	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	"agenthost/wing/evaluation/eval"
)

// decodeConfig returns a file's config; nil if it has neither metrics nor a simulator, and is
// not live.
func (d *decoder) decodeConfig(n *spec.Node, c *fileConfig) *eval.Config {
	if c.Metrics.node.IsNull() && c.Simulator == nil && !c.Live {
		return nil
	}
	config := &eval.Config{}
	if c.Live {
		config.Live = &eval.LiveConfig{}
	}
	if c.Simulator != nil {
		config.Simulator = d.decodeSimulator(n.Get("user_simulator_config"), c)
	}
	if !c.Metrics.node.IsNull() {
		config.Criteria = d.decodeCriteria(c.Metrics.node)
	}
	return config
}

func (d *decoder) decodeSimulator(n *spec.Node, c *fileConfig) *eval.SimulatorConfig {
	s := &eval.SimulatorConfig{
		Model: c.Simulator.Model, MaxMessages: c.Simulator.MaxMessages,
		Instructions: c.Simulator.Instructions, IncludeCalls: c.Simulator.IncludeCalls,
	}
	d.addModel(n.Get("model"))
	hasPersona := slices.ContainsFunc(c.Cases, func(c caseConfig) bool { return c.Persona.persona != nil })
	if err := s.CheckFields(hasPersona); err != nil {
		at := n
		if text := n.Get("custom_instructions"); text != nil {
			at = text
		}
		d.addDiagnostics(at.Errorf("eval", "%v", err))
	}
	return s
}

func (d *decoder) decodeCriteria(n *spec.Node) *eval.Criteria {
	all := &eval.Criteria{ByName: map[string]*eval.Criterion{}}
	if n.Kind != spec.Mapping {
		d.addDiagnostics(n.Errorf("type", "metrics must be a mapping of metrics to thresholds or criteria").WithHint("metrics: {response_match: 0.8}"))
		return all
	}
	if len(n.Entries) == 0 {
		d.addDiagnostics(n.Errorf("eval", "metrics has no metric").WithHint("metrics: {response_match: 0.8}"))
	}
	for _, e := range n.Entries {
		metric, found := d.findMetric(e)
		switch {
		case !found:
			d.addUnknownMetric(e.Key)
		case metric.Informational():
			d.addDiagnostics(e.Key.Errorf("eval", "metric %s has no threshold, it is always measured", metric.Name).WithHint("remove it"))
		case all.ByName[metric.Name] != nil:
			d.addDiagnostics(e.Key.Errorf("duplicate-name", "metric %s has more than one criterion", metric.Name))
		default:
			all.Names = append(all.Names, metric.Name)
			all.ByName[metric.Name] = d.decodeCriterion(metric, e.Value)
		}
	}
	return all
}

// findMetric returns a criterion's metric. One that the Go program registered or that has an
// expression is not ADK's.
func (d *decoder) findMetric(e spec.Entry) (*eval.Metric, bool) {
	name := e.Key.Value
	metric, found := eval.FindMetric(name)
	switch {
	case slices.Contains(d.names.Metrics, name):
		return &eval.Metric{Name: name, Min: math.Inf(-1), Max: math.Inf(1)}, true
	case !found && e.Value.Get("expr") != nil:
		return &eval.Metric{Name: name, Max: 1}, true
	}
	return metric, found
}

func (d *decoder) addUnknownMetric(at *spec.Node) {
	names := append(eval.MetricNames(), d.names.Metrics...)
	problem := at.Errorf("unknown-name", "unknown metric %q", at.Value)
	if near := spec.Suggest(at.Value, names); near != "" {
		problem = problem.WithNearName(at.Value, near)
	} else {
		problem = problem.WithHint("a custom metric requires expr; the others are %s", strings.Join(names, ", "))
	}
	d.addDiagnostics(problem)
}

func (d *decoder) addUnknownName(at *spec.Node, what string, names []string) {
	problem := at.Errorf("unknown-name", "unknown %s %q", what, at.Value)
	if near := spec.Suggest(at.Value, names); near != "" {
		problem = problem.WithNearName(at.Value, near)
	} else if len(names) > 0 && len(names) <= 30 {
		problem = problem.WithHint("the names are %s", strings.Join(names, ", "))
	}
	d.addDiagnostics(problem)
}

// decodeCriterion reads a threshold or a criterion.
func (d *decoder) decodeCriterion(metric *eval.Metric, n *spec.Node) *eval.Criterion {
	if n.Get("expr") != nil {
		return d.decodeExpression(metric, n)
	}
	var c criterionConfig
	at := n
	if n.Kind == spec.Mapping {
		d.addDiagnostics(spec.Decode(n, &c)...)
		at = n.Get("threshold")
	} else if ds := spec.Decode(n, &c.Threshold); n.IsNull() || ds.HasErrors() {
		d.addDiagnostics(n.Errorf("type", "%s must be a threshold or a criterion", metric.Name).WithHint("such as %s: %g", metric.Name, min(metric.Max, 1)))
	}
	if t := c.Threshold; t != nil && !(*t >= metric.Min && *t <= metric.Max) {
		d.addDiagnostics(at.Errorf("value", "the threshold of %s must be between %g and %g, got %g", metric.Name, metric.Min, metric.Max, *t))
	}
	d.checkCriterionKeys(metric, n)
	got := &eval.Criterion{
		Threshold: c.Threshold, IgnoreArgs: c.IgnoreArgs, PartialScore: c.PartialScore, OnlyExpected: c.OnlyExpected, Rubrics: d.decodeRubrics(c.Rubrics.node),
		WithIntermediate: c.WithIntermediate, CheckIntermediate: c.CheckTexts, StopSignal: c.StopSignal,
	}
	if match, err := eval.ParseMatchType(c.MatchType); err == nil {
		got.MatchType = match
	}
	for _, e := range entriesOf(n.Get("tools")) {
		rule, found := c.Tools[e.Key.Value]
		if !found {
			continue
		}
		if got.Tools == nil {
			got.Tools = map[string]*eval.ArgsRule{}
		}
		if e.Key.Value != "*" {
			d.checkTool(e.Key.Text())
		}
		got.Tools[e.Key.Value] = d.decodeArgsRule(e.Value, &rule)
	}
	if c.Judge != nil {
		got.Judge = &eval.JudgeOptions{Model: c.Judge.Model, Samples: c.Judge.Samples, Parallel: c.Judge.Parallel}
		d.addModel(n.Get("judge_model_options").Get("judge_model"))
		d.checkCount(n.Get("judge_model_options").Get("num_samples"), c.Judge.Samples)
		d.checkCount(n.Get("judge_model_options").Get("parallelism_limit"), c.Judge.Parallel)
	}
	return got
}

// decodeExpression reads a custom metric.
func (d *decoder) decodeExpression(metric *eval.Metric, n *spec.Node) *eval.Criterion {
	var c exprConfig
	d.addDiagnostics(spec.Decode(n, &c)...)
	one := 1.0
	got := &eval.Criterion{Threshold: cmp.Or(c.Threshold, &one), Expr: c.Expr.Value}
	if _, builtIn := eval.FindMetric(metric.Name); builtIn || slices.Contains(d.names.Metrics, metric.Name) {
		d.addDiagnostics(n.Get("expr").Errorf("eval", "metric %s exists and has no expr", metric.Name).WithHint("give the custom metric another name"))
		return got
	}
	if t := *got.Threshold; !(t >= 0 && t <= 1) {
		d.addDiagnostics(n.Get("threshold").Errorf("value", "the threshold of %s must be between 0 and 1, got %g", metric.Name, t))
	}
	if c.Expr.Pos == (spec.Pos{}) {
		return got // reported by spec.Decode
	}
	if _, err := CompileExpression(c.Expr.Value, d.names.State); err != nil {
		d.addDiagnostics(tool.NewTemplateDiagnostic(c.Expr.Text, "expression", err))
	}
	return got
}

// addModel adds a model name, to be found in the app.
func (d *decoder) addModel(n *spec.Node) {
	if n != nil && n.Kind == spec.Scalar && n.Value != "" {
		d.models = append(d.models, n.Text())
	}
}

// checkCount reports a sample count beyond the limits: each sample is a call that costs
// money.
func (d *decoder) checkCount(at *spec.Node, count *int) {
	if count != nil && (*count < 1 || *count > 100) {
		d.addDiagnostics(at.Errorf("value", "must be between 1 and 100"))
	}
}

func (d *decoder) decodeArgsRule(n *spec.Node, c *argsConfig) *eval.ArgsRule {
	rule := &eval.ArgsRule{Only: c.Only, Ignore: c.Ignore, Tolerance: c.Tolerance}
	if c.Tolerance < 0 {
		d.addDiagnostics(n.Get("tolerance").Errorf("value", "must be at least 0"))
	}
	for name, pattern := range c.Patterns {
		if _, err := regexp.Compile(pattern.Value); err != nil {
			d.addDiagnostics(pattern.Errorf(0, "value", "invalid regular expression: %v", err))
		}
		if rule.Patterns == nil {
			rule.Patterns = map[string]string{}
		}
		rule.Patterns[name] = pattern.Value
	}
	return rule
}

// checkCriterionKeys reports keys that a metric does not use.
func (d *decoder) checkCriterionKeys(metric *eval.Metric, n *spec.Node) {
	for _, e := range n.Entries {
		if metrics, limited := metricsOfKey(e.Key.Value); limited && !slices.Contains(metrics, metric.Name) {
			d.addDiagnostics(e.Key.Errorf("eval", "metric %s does not use %s", metric.Name, e.Key.Value).WithHint("remove it, or use it with %s", strings.Join(metrics, ", ")))
		}
	}
}

// metricsOfKey returns the metrics that use a criterion key; false if all do, or if there is
// no such key.
func metricsOfKey(key string) ([]string, bool) {
	switch key {
	case "match_type", "ignore_args", "tools", "partial_score":
		return []string{eval.ToolTrajectory}, true
	case "rubrics":
		return []string{eval.RubricFinalResponse, eval.RubricToolUse, eval.RubricTrajectory}, true
	case "include_intermediate_responses_in_final":
		return []string{eval.FinalResponseMatch, eval.RubricFinalResponse}, true
	case "evaluate_intermediate_nl_responses":
		return []string{eval.Hallucinations}, true
	case "stop_signal":
		return []string{eval.UserSimulatorQuality}, true
	case "judge_model_options":
		return listMetrics(func(m *eval.Metric) bool { return m.Judged }), true
	case "only_expected":
		return listMetrics(func(m *eval.Metric) bool { return m.NeedsExpected }), true
	}
	return nil, false
}

func listMetrics(isListed func(m *eval.Metric) bool) []string {
	var names []string
	for _, m := range eval.Metrics() {
		if isListed(m) {
			names = append(names, m.Name)
		}
	}
	return names
}

// decodeRubrics reads rubrics by their IDs, or a list of rubric IDs in the file.
func (d *decoder) decodeRubrics(n *spec.Node) []*eval.Rubric {
	var all []*eval.Rubric
	switch {
	case n.IsNull():
	case n.Kind == spec.Mapping:
		for _, e := range n.Entries {
			all = append(all, d.decodeRubric(e.Key.Value, e.Value))
		}
	case n.Kind == spec.Sequence:
		for _, item := range n.Items {
			r := findRubric(d.shared, item.Value)
			switch {
			case r == nil:
				var ids []string
				for _, r := range d.shared {
					ids = append(ids, r.ID)
				}
				d.addUnknownName(item, "rubric", ids)
			case findRubric(all, r.ID) != nil:
				d.addDiagnostics(item.Errorf("duplicate-name", "rubric %q appears more than once", r.ID))
			default:
				all = append(all, r)
			}
		}
	default:
		d.addDiagnostics(n.Errorf("type", "rubrics must be a mapping of IDs to properties, or a list of rubric IDs in the file"))
	}
	return all
}

func (d *decoder) decodeRubric(id string, n *spec.Node) *eval.Rubric {
	c := rubricConfig{Type: eval.TypeFinalResponse}
	if n.Kind == spec.Mapping {
		d.addDiagnostics(spec.Decode(n, &c)...)
	} else {
		d.addDiagnostics(c.Text.DecodeSpec(n)...)
	}
	if c.Text.Value == "" && !d.diagnostics.HasErrors() {
		d.addDiagnostics(n.Errorf("eval", "rubric %q has no text", id))
	}
	return &eval.Rubric{ID: id, Content: &eval.RubricContent{Text: c.Text.Value}, Description: c.Description, Type: c.Type}
}

func findRubric(all []*eval.Rubric, id string) *eval.Rubric {
	if i := slices.IndexFunc(all, func(r *eval.Rubric) bool { return r.ID == id }); i >= 0 {
		return all[i]
	}
	return nil
}
