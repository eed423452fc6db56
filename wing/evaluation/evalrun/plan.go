package evalrun

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"agenthost/pkg/spec"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalfile"
)

// PlanOptions select a run's metrics.
type PlanOptions struct {
	// Config is a file with criteria; empty for the test_config.json next to each set.
	Config string
	// Metrics are metric names or short names, which may have a threshold: "safety",
	// "response_match=0.7". Without them, the config selects the metrics.
	Metrics []string
	// Custom names the metrics that the Go program has registered.
	Custom []string
	// Judge is the model for judges and simulated users whose config names none; empty for
	// ADK's default.
	Judge string
	// AllowNotEvaluated lets a case pass by its other metrics if one was not evaluated, as
	// allow_not_evaluated: true in a config.
	AllowNotEvaluated bool
	// Live makes all cases run live, as live_model_config in a config.
	Live bool
	// Vertex makes Vertex AI's evaluation service the judge for the metrics that it can
	// score, unless the config or Judge names another.
	Vertex bool
	// Read reads a config; nil reads the file system.
	Read func(path string) ([]byte, error)
}

func (o *PlanOptions) evalNames() *evalfile.Names { return &evalfile.Names{Metrics: o.Custom} }

// Plan reads an app's selected sets and their configs. It reports unknown sets, cases and
// metrics before anything runs. A problem in a file is a [spec.Diagnostics]; without sets the
// error is [ErrNoSets], and [ErrNoCases] if a set has no case.
func Plan(dir string, selections []*eval.Selection, o *PlanOptions) ([]*Job, error) {
	jobs, err := selectSets(dir, selections, o.evalNames())
	if err != nil {
		return nil, err
	}
	return planJobs(jobs, o)
}

// PlanSets is [Plan] for sets that have been read. Selections are IDs and file names without
// their suffix; without any, all sets are selected.
func PlanSets(sets []*SetFile, selections []*eval.Selection, o *PlanOptions) ([]*Job, error) {
	if len(sets) == 0 {
		return nil, ErrNoSets
	}
	if len(selections) == 0 {
		for _, s := range sets {
			selections = append(selections, &eval.Selection{Set: s.ID})
		}
	}
	jobs, err := selectJobs(selections, func(name string) (*SetFile, error) { return findByName(sets, name) })
	if err != nil {
		return nil, err
	}
	return planJobs(jobs, o)
}

func planJobs(jobs []*Job, o *PlanOptions) ([]*Job, error) {
	for _, job := range jobs {
		if len(job.Cases) == 0 {
			return nil, fmt.Errorf("%w in %s: add one, or delete the set", ErrNoCases, job.Set.Path)
		}
		if err := job.setMetrics(o); err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

// PlanRun plans the run that a request selects, and reports as [Plan] what is unknown.
func PlanRun(req *eval.RunRequest) (*Job, error) {
	job, err := newJob(&SetFile{Set: req.Set, Path: req.Set.ID}, req.CaseIDs)
	if err != nil {
		return nil, err
	}
	if len(job.Cases) == 0 {
		return nil, fmt.Errorf("%w in %s: add one", ErrNoCases, req.Set.ID)
	}
	config := eval.Config{}
	if req.Config != nil {
		config = *req.Config
	}
	config.Criteria = cmp.Or(config.Criteria, eval.DefaultConfig().Criteria)
	config.Simulator, config.Live = cmp.Or(req.Simulator, config.Simulator), cmp.Or(req.Live, config.Live)
	if config.Simulator != nil && config.Simulator.Type == "llm_audio" {
		return nil, errors.New("a simulated user of type llm_audio is not supported: use llm_backed")
	}
	return job, job.applyConfig(&config, eval.ConfigFile, req.Measures, &PlanOptions{})
}

// setMetrics sets a job's metrics, and the models for its judges.
func (j *Job) setMetrics(o *PlanOptions) error {
	config, file, err := j.findConfig(o)
	if err != nil {
		return err
	}
	var named []*eval.Measure
	for _, name := range o.Metrics {
		m, err := parseMeasure(name)
		if err != nil {
			return err
		}
		named = append(named, m)
	}
	return j.applyConfig(config, file, named, o)
}

// applyConfig sets the named metrics, or else the config's, and its other settings.
func (j *Job) applyConfig(config *eval.Config, file string, named []*eval.Measure, o *PlanOptions) (err error) {
	if j.Measures = config.Measures(); len(named) > 0 {
		if j.Measures, err = j.completeMeasures(named, config, o); err != nil {
			return err
		}
	}
	if len(j.Measures) == 0 {
		return spec.Diagnostics{{
			Pos: spec.Pos{File: filepath.ToSlash(file)}, Rule: "eval-file", Message: "criteria is empty",
			Hint: `name a metric, such as "criteria": {"response_match_score": 0.8}`,
		}}.Err()
	}
	j.setCaseMeasures(named)
	j.Warnings = append(j.Warnings, evalfile.CheckRubrics(j.displayPath(), j.Cases, j.Measures)...)
	j.Simulator, j.AllowNotEvaluated = config.Simulator, config.AllowNotEvaluated || o.AllowNotEvaluated
	if j.Live = config.Live; j.Live == nil && o.Live {
		j.Live = &eval.LiveConfig{}
	}
	j.setJudge(o)
	return nil
}

func (j *Job) displayPath() string { return filepath.ToSlash(j.Set.Path) }

// setCaseMeasures sets the metrics for cases with their own criteria. If some metrics are
// named, only those count, and not those named with a threshold or criterion.
func (j *Job) setCaseMeasures(named []*eval.Measure) {
	j.own = map[*eval.Case][]*eval.Measure{}
	for _, c := range j.Cases {
		if c.Criteria == nil {
			continue
		}
		j.own[c] = eval.MergeMeasures(j.Measures, c.Criteria)
		if len(named) == 0 {
			continue
		}
		merged := j.own[c][:len(j.Measures)]
		for i, m := range named {
			if m.Threshold != nil || m.Criterion != nil {
				merged[i] = j.Measures[i]
			}
		}
		j.own[c] = merged
	}
}

// measuresOf returns a case's metrics.
func (j *Job) measuresOf(c *eval.Case) []*eval.Measure {
	if own, ok := j.own[c]; ok {
		return own
	}
	return j.Measures
}

// allMeasures returns all metrics for all cases.
func (j *Job) allMeasures() []*eval.Measure {
	all := slices.Clone(j.Measures)
	for _, c := range j.Cases {
		all = append(all, j.own[c]...)
	}
	return all
}

// findConfig returns a job's config and its file: the named file, or else the set, or else
// the file next to it.
func (j *Job) findConfig(o *PlanOptions) (*eval.Config, string, error) {
	if o.Config != "" {
		config, err := o.readConfig(o.Config)
		return config, o.Config, err
	}
	own := j.Set.Config
	if own != nil && own.Criteria != nil {
		return own, j.Set.Path, nil
	}
	file := filepath.Join(filepath.Dir(j.Set.Path), eval.ConfigFile)
	config, err := o.readConfig(file)
	if errors.Is(err, fs.ErrNotExist) {
		config, err = nil, nil
	}
	return evalfile.MergeConfigs(own, config), file, err
}

// readConfig reads a config, and rejects what a run would ignore.
func (o *PlanOptions) readConfig(file string) (*eval.Config, error) {
	read := readLimited
	if o.Read != nil {
		read = o.Read
	}
	src, err := read(file)
	if err != nil {
		return nil, err
	}
	config, ds := evalfile.ReadConfig(filepath.ToSlash(file), src, o.evalNames())
	if ds.HasErrors() {
		return nil, ds
	}
	if config.Criteria == nil {
		config.Criteria = eval.DefaultConfig().Criteria
	}
	return config, nil
}

// parseMeasure reads a metric name, which may have a threshold.
func parseMeasure(text string) (*eval.Measure, error) {
	name, threshold, ok := strings.Cut(strings.TrimSpace(text), "=")
	m := &eval.Measure{Metric: name}
	if !ok {
		return m, nil
	}
	value, err := strconv.ParseFloat(threshold, 64)
	if metric, known := eval.FindMetric(name); err != nil && known {
		return nil, thresholdError(metric, strconv.Quote(threshold))
	} else if err != nil {
		return nil, fmt.Errorf("the threshold of %s must be a number, got %q", name, threshold)
	}
	m.Threshold = &value
	return m, nil
}

// completeMeasures returns the metrics by their full names and with a criterion: their own,
// the config's, or else a default one.
func (j *Job) completeMeasures(named []*eval.Measure, config *eval.Config, o *PlanOptions) ([]*eval.Measure, error) {
	var all []*eval.Measure
	for _, given := range named {
		metric, ok := o.findMetric(given.Metric, config)
		switch {
		case !ok && given.CustomFunction != "":
			return nil, fmt.Errorf("metric %s is the Python function %s, which cannot be called", given.Metric, given.CustomFunction)
		case !ok:
			return nil, &eval.UnknownNameError{Kind: "metric", Name: given.Metric, Known: slices.Concat(eval.MetricNames(), o.Custom, config.Criteria.Names)}
		case metric.Informational():
			return nil, fmt.Errorf("metric %s has no threshold, it is always measured", metric.Name)
		case slices.ContainsFunc(all, func(m *eval.Measure) bool { return m.Metric == metric.Name }):
			return nil, fmt.Errorf("metric %s is named more than once", metric.Name)
		}
		m := j.completeMeasure(given, metric, config)
		if t := *m.Threshold; !(t >= metric.Min && t <= metric.Max) {
			return nil, thresholdError(metric, strconv.FormatFloat(t, 'g', -1, 64))
		}
		all = append(all, m)
	}
	return all, nil
}

func thresholdError(metric *eval.Metric, got string) error {
	return fmt.Errorf("the threshold of %s must be a number from %g to %g, got %s", metric.Name, metric.Min, metric.Max, got)
}

// completeMeasure returns a metric with a criterion that has a threshold.
func (j *Job) completeMeasure(given *eval.Measure, metric *eval.Metric, config *eval.Config) *eval.Measure {
	m := &eval.Measure{Metric: metric.Name, Criterion: &eval.Criterion{}}
	own := findMeasure(config, metric)
	if own != nil {
		*m.Criterion, m.CustomFunction = *own.Criterion, own.CustomFunction
	}
	if given.Criterion != nil {
		*m.Criterion = *given.Criterion
	}
	if own == nil && len(m.Criterion.Rubrics) == 0 && !j.hasRubrics() {
		if m.Criterion.Rubrics = metric.DefaultRubrics(); len(m.Criterion.Rubrics) > 0 {
			j.Warnings = append(j.Warnings, evalfile.WarnOfGeneralRubrics(j.displayPath(), metric.Name))
		}
	}
	if given.Threshold != nil {
		m.Criterion.Threshold = given.Threshold
	}
	if m.Criterion.Threshold == nil {
		value := metric.Min + 0.8*(metric.Max-metric.Min) // unless the default config has one
		if c := eval.DefaultConfig().Criteria.ByName[metric.Name]; c != nil {
			value = *c.Threshold
		}
		m.Criterion.Threshold = &value
	}
	m.Threshold = m.Criterion.Threshold
	return m
}

// hasRubrics reports whether a case or turn has its own rubrics.
func (j *Job) hasRubrics() bool {
	return slices.ContainsFunc(j.Cases, func(c *eval.Case) bool {
		return len(c.Rubrics) > 0 || slices.ContainsFunc(c.Conversation, func(t *eval.Invocation) bool { return len(t.Rubrics) > 0 })
	})
}

// findMetric returns a metric from ADK, the Go program or the config. A custom one scores
// from 0 to 1.
func (o *PlanOptions) findMetric(name string, config *eval.Config) (*eval.Metric, bool) {
	metric, ok := eval.FindMetric(name)
	if slices.Contains(o.Custom, name) || !ok && config.Criteria.ByName[name] != nil {
		return &eval.Metric{Name: name, Max: 1}, true
	}
	return metric, ok
}

// findMeasure returns a metric's criterion; the metric may have its short name.
func findMeasure(config *eval.Config, metric *eval.Metric) *eval.Measure {
	for _, m := range config.Measures() {
		if m.Metric == metric.Name {
			return m
		}
	}
	return nil
}

// setJudge sets the model for judges, the simulated user and simulated tools where the files
// name none.
func (j *Job) setJudge(o *PlanOptions) {
	name := cmp.Or(o.Judge, eval.DefaultJudgeModel)
	for _, m := range j.allMeasures() {
		metric, ok := eval.FindMetric(m.Metric)
		if !ok || !metric.Judged {
			continue
		}
		criterion, judge := *m.Criterion, eval.JudgeOptions{}
		if criterion.Judge != nil {
			judge = *criterion.Judge
		}
		if judge.Model == "" && o.Judge == "" && o.Vertex && metric.Hosted() {
			judge.Model = eval.VertexJudge
		}
		judge.Model = cmp.Or(judge.Model, name)
		criterion.Judge = &judge
		m.Criterion = &criterion
	}
	if j.hasScenario() {
		simulator := eval.SimulatorConfig{}
		if j.Simulator != nil {
			simulator = *j.Simulator
		}
		simulator.Model = cmp.Or(simulator.Model, name)
		j.Simulator = &simulator
	}
	for _, stubs := range j.stubs {
		stubs.Model = cmp.Or(stubs.Model, name)
	}
}

func (j *Job) hasScenario() bool {
	return slices.ContainsFunc(j.Cases, func(c *eval.Case) bool { return c.Scenario != nil })
}

// ModelNames lists the models for judges, simulated users and simulated tools, sorted.
func ModelNames(jobs []*Job) []string {
	names := map[string]bool{}
	for _, j := range jobs {
		for _, m := range j.allMeasures() {
			if metric, ok := eval.FindMetric(m.Metric); ok && metric.Judged && m.Criterion.Judge.Model != eval.VertexJudge {
				names[m.Criterion.Judge.Model] = true
			}
		}
		if j.hasScenario() {
			names[j.Simulator.Model] = true
		}
		for _, c := range j.Cases {
			if stubs := j.stubs[c]; stubs != nil && stubs.Simulates() {
				names[stubs.Model] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// CountCases returns the number of cases in all jobs.
func CountCases(jobs []*Job) int {
	n := 0
	for _, j := range jobs {
		n += len(j.Cases)
	}
	return n
}
