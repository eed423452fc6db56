package evalfile

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"agenthost/pkg/spec"
	"agenthost/wing/evaluation/eval"
)

// ReadConfig reads a test_config.json. It reports what a run cannot measure: unknown metrics,
// functions that cannot be called, and run settings that are not supported.
func ReadConfig(file string, src []byte, names *Names) (*eval.Config, spec.Diagnostics) {
	config, err := eval.ReadConfig(file, src)
	if err != nil {
		return nil, diagnosticsOf(file, err)
	}
	a := &adkFile{places: eval.NewLocator(file, src), names: names}
	a.checkCriteria(config.Criteria, config.CustomMetrics, "criteria")
	if config.Simulator != nil && config.Simulator.Type == "llm_audio" {
		a.addProblem("user_simulator_config of type llm_audio is not supported", "use llm_backed", "user_simulator_config", "type")
	}
	a.diagnostics.Sort()
	return config, a.diagnostics
}

// ModelsOf returns the model names for judges and the simulated user in a test_config.json,
// with their places.
func ModelsOf(file string, src []byte, config *eval.Config) []spec.Text {
	places := eval.NewLocator(file, src)
	var all []spec.Text
	for i, m := range config.Measures() {
		if m.Criterion.Judge != nil && m.Criterion.Judge.Model != "" {
			at := places.Locate("criteria", config.Criteria.Names[i], "judge_model_options", "judge_model")
			all = append(all, spec.Text{Value: m.Criterion.Judge.Model, Pos: at})
		}
	}
	if s := config.Simulator; s != nil && s.Model != "" {
		all = append(all, spec.Text{Value: s.Model, Pos: places.Locate("user_simulator_config", "model")})
	}
	return all
}

// ReadSet reads an ADK eval set or test file as [eval.ReadSet], and checks its cases'
// criteria and stubs. A file with [SetSuffix] is in YAML.
func ReadSet(file string, src []byte, o *eval.ReadOptions, names *Names) (*eval.Set, spec.Diagnostics) {
	if !strings.HasSuffix(file, SetSuffix) {
		return readJSONSet(file, src, o, names)
	}
	text, ds := convertYAML(file, src)
	if ds.HasErrors() {
		return nil, ds
	}
	set, more := readJSONSet(file, text.json.Bytes(), o, names)
	for i := range more { // their places are those in the JSON
		if line := more[i].Pos.Line - 2; line >= 0 && line < len(text.places) {
			more[i].Pos = text.places[line]
		}
	}
	return set, append(ds, more...)
}

func readJSONSet(file string, src []byte, o *eval.ReadOptions, names *Names) (*eval.Set, spec.Diagnostics) {
	set, err := eval.ReadSet(file, src, o)
	if err != nil {
		return nil, diagnosticsOf(file, err)
	}
	a := &adkFile{places: eval.NewLocator(file, src), names: names}
	for i, c := range set.Cases {
		a.checkCriteria(c.Criteria, nil, "eval_cases", i, "criteria")
	}
	if !a.diagnostics.HasErrors() {
		a.checkCoverage(set)
	}
	stubs := &stubReader{file: file, places: a.places, names: names}
	stubs.readSet(set)
	a.diagnostics = append(a.diagnostics, stubs.diagnostics...)
	a.diagnostics.Sort()
	return set, a.diagnostics
}

func diagnosticsOf(file string, err error) spec.Diagnostics {
	var ds spec.Diagnostics
	if !errors.As(err, &ds) {
		ds = spec.Diagnostics{{Pos: spec.Pos{File: file}, Rule: "eval-file", Message: err.Error()}}
	}
	return ds
}

// An adkFile is an ADK file that is being checked.
type adkFile struct {
	places      *eval.Locator
	names       *Names
	diagnostics spec.Diagnostics
}

// addProblem adds an error at the value with a path of keys and indexes.
func (a *adkFile) addProblem(message, hint string, path ...any) {
	a.diagnostics = append(a.diagnostics, spec.Diagnostic{Pos: a.places.Locate(path...), Rule: "eval-file", Message: message, Hint: hint})
}

// checkCriteria checks the criterion names at a path, and what their types cannot express.
func (a *adkFile) checkCriteria(criteria *eval.Criteria, custom map[string]*eval.CustomMetric, path ...any) {
	seen := map[string]bool{}
	for i, m := range criteria.Measures() {
		name := criteria.Names[i]
		at := append(slices.Clip(path), name)
		metric, known := eval.FindMetric(name)
		declared := custom[name]
		switch {
		case m.Criterion.Expr != "":
			a.checkExpression(name, m.Criterion.Expr, known || declared != nil, append(slices.Clip(at), "expr"))
		case slices.Contains(a.names.Metrics, name):
		case declared != nil && declared.Code != nil && slices.Contains(a.names.Metrics, declared.Code.Name):
		case declared != nil:
			a.addProblem(fmt.Sprintf("metric %s is %s, which cannot be called", name, describeFunction(declared)), "remove it from criteria, or register a Go function with its name", at...)
		case !known:
			a.addUnknownMetric(name, at)
		case metric.Informational():
			a.addProblem(fmt.Sprintf("metric %s has no threshold, it is always measured", name), "remove it from criteria", at...)
		case seen[m.Metric]:
			a.addProblem(fmt.Sprintf("metric %s has more than one criterion", m.Metric), "remove one of them", at...)
		}
		seen[m.Metric] = true
		a.checkArgsRules(m.Criterion, at)
	}
}

func (a *adkFile) checkExpression(name, source string, exists bool, path []any) {
	if exists || slices.Contains(a.names.Metrics, name) {
		a.addProblem(fmt.Sprintf("metric %s exists and has no expr", name), "give the custom metric another name", path...)
	} else if _, err := CompileExpression(source, a.names.State); err != nil {
		a.addProblem(err.Error(), "", path...)
	}
}

func describeFunction(custom *eval.CustomMetric) string {
	if custom.Code == nil {
		return "a custom metric without a function"
	}
	return "the Python function " + custom.Code.Name
}

func (a *adkFile) addUnknownMetric(name string, path []any) {
	all := append(eval.MetricNames(), a.names.Metrics...)
	hint := "the metrics are " + strings.Join(all, ", ")
	if near := spec.Suggest(name, all); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	a.addProblem(fmt.Sprintf("unknown metric %q", name), hint, path...)
}

// checkArgsRules checks how arguments match, which only this program reads.
func (a *adkFile) checkArgsRules(c *eval.Criterion, path []any) {
	for tool, rule := range c.Tools {
		at := append(slices.Clip(path), "tools", tool)
		if rule.Tolerance < 0 {
			a.addProblem("tolerance must be at least 0", "", append(at, "tolerance")...)
		}
		for arg, pattern := range rule.Patterns {
			if _, err := regexp.Compile(pattern); err != nil {
				a.addProblem("invalid regular expression: "+err.Error(), "", append(slices.Clip(at), "patterns", arg)...)
			}
		}
	}
}
