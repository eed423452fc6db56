package eval

import "slices"

// An Outcome is a case's result: its runs, and the scores over all of them.
type Outcome struct {
	SetID, CaseID string
	// Model names the model that replaced every model in the app's agents, or is empty.
	Model  string
	Status Status
	// Runs are the results of the runs; PassedRuns is how many passed.
	Runs       []*CaseResult
	PassedRuns int
	// Metrics are the scores over all turns in all runs, Informational those without a
	// threshold.
	Metrics, Informational []*MetricResult
	// Usage and Seconds add up all runs; Seconds is the time that the turns took.
	Usage   CaseUsage
	Seconds float64
}

// Outcomes merges each case's runs, in the order of their first runs.
func (r *SetResult) Outcomes(allowNotEvaluated bool) []*Outcome {
	var ids []string
	runs := map[string][]*CaseResult{}
	for _, c := range r.Cases {
		if runs[c.CaseID] == nil {
			ids = append(ids, c.CaseID)
		}
		runs[c.CaseID] = append(runs[c.CaseID], c)
	}
	var all []*Outcome
	for _, id := range ids {
		all = append(all, NewOutcome(runs[id], allowNotEvaluated))
	}
	return all
}

// NewOutcome merges a case's runs, at least one, as adk-python
// _eval_case_result_aggregator.py. A run that failed without a failed metric, such as one that
// crashed, fails the case.
func NewOutcome(runs []*CaseResult, allowNotEvaluated bool) *Outcome {
	o := &Outcome{SetID: runs[0].SetID, CaseID: runs[0].CaseID, Status: runs[0].Status, Runs: runs}
	failed := false
	for _, run := range runs {
		if run.Status == Passed {
			o.PassedRuns++
		}
		if run.Status == Failed && FinalStatus(statusesOf(run.Overall)) != Failed {
			failed = true
		}
		for _, m := range run.Overall {
			o.addMetric(m)
		}
		o.addUsage(run)
	}
	if len(runs) == 1 {
		return o
	}
	statuses := statusesOf(o.Metrics)
	o.Status = FinalStatus(statuses)
	for _, s := range statuses {
		if s == NotEvaluated && o.Status == Passed && !allowNotEvaluated {
			o.Status = NotEvaluated
		}
	}
	if failed {
		o.Status = Failed
	}
	return o
}

func (o *Outcome) addUsage(run *CaseResult) {
	o.Usage.Add(run.Usage)
	for _, t := range run.Turns {
		if t.Actual != nil && t.Actual.Duration != nil {
			o.Seconds += *t.Actual.Duration
		}
	}
}

func statusesOf(metrics []*MetricResult) []Status {
	var all []Status
	for _, m := range metrics {
		if metric, ok := FindMetric(m.Metric); !ok || !metric.Informational() {
			all = append(all, m.Status)
		}
	}
	return all
}

// addMetric adds a metric's merged score, unless it is there from an earlier run.
func (o *Outcome) addMetric(first *MetricResult) {
	list := &o.Metrics
	if metric, ok := FindMetric(first.Metric); ok && metric.Informational() {
		list = &o.Informational
	}
	for _, m := range *list {
		if m.Metric == first.Metric {
			return
		}
	}
	merged := *first
	if len(o.Runs) > 1 {
		var scores [][]*float64
		for _, run := range o.Runs {
			scores = append(scores, turnScores(run, first.Metric))
		}
		threshold := 0.0
		if t := first.RequiredScore(); t != nil {
			threshold = *t
		}
		merged.Score, merged.Status = mergeScores(scores, threshold)
		if list == &o.Informational && merged.Status != NotEvaluated {
			merged.Status = Informational
		}
	}
	*list = append(*list, &merged)
}

func turnScores(run *CaseResult, metric string) []*float64 {
	var scores []*float64
	for _, t := range run.Turns {
		for _, m := range t.Metrics {
			if m.Metric == metric {
				scores = append(scores, m.Score)
			}
		}
	}
	return scores
}

// mergeScores returns a metric's score over several runs: the mean over all turns that have
// one.
func mergeScores(runs [][]*float64, threshold float64) (*float64, Status) {
	mean := meanOf(slices.Concat(runs...))
	return mean, StatusOf(mean, threshold)
}
