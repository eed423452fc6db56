package evalrun

import (
	"iter"

	"agenthost/wing/evaluation/eval"
)

// An Outcome is the result of all runs of a case.
type Outcome struct {
	SetID, CaseID string
	Status        eval.Status
	// Runs are the results of the runs, nil in a [Baseline]. RunCount is their number, and
	// PassedRuns how many of them passed.
	Runs                 []*eval.CaseResult
	RunCount, PassedRuns int
	// Metrics are the scores over all turns of all runs, Informational those without a
	// threshold.
	Metrics, Informational []*eval.MetricResult
	// Usage and Seconds are those of all runs together; Seconds is the time of the turns.
	Usage   eval.CaseUsage
	Seconds float64
}

// Outcomes reads the outcomes of a journal, one at a time.
func (j *Journal) Outcomes(allowNotEvaluated bool) iter.Seq2[*Outcome, error] {
	return func(yield func(*Outcome, error) bool) {
		var runs []*eval.CaseResult
		for result, err := range j.Results() {
			if err != nil {
				yield(nil, err)
				return
			}
			if len(runs) > 0 && runs[0].CaseID != result.CaseID {
				if !yield(mergeRuns(runs, allowNotEvaluated), nil) {
					return
				}
				runs = nil
			}
			runs = append(runs, result)
		}
		if len(runs) > 0 {
			yield(mergeRuns(runs, allowNotEvaluated), nil)
		}
	}
}

// mergeRuns merges the results of a case as adk-python _eval_case_result_aggregator.py. A
// run that failed without a failed metric, such as one that crashed, fails the case.
func mergeRuns(runs []*eval.CaseResult, allowNotEvaluated bool) *Outcome {
	o := &Outcome{SetID: runs[0].SetID, CaseID: runs[0].CaseID, Status: runs[0].Status, Runs: runs, RunCount: len(runs)}
	failed := false
	for _, run := range runs {
		if run.Status == eval.Passed {
			o.PassedRuns++
		}
		if run.Status == eval.Failed && eval.FinalStatus(statusesOf(run.Overall)) != eval.Failed {
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
	o.Status = eval.FinalStatus(statuses)
	for _, s := range statuses {
		if s == eval.NotEvaluated && o.Status == eval.Passed && !allowNotEvaluated {
			o.Status = eval.NotEvaluated
		}
	}
	if failed {
		o.Status = eval.Failed
	}
	return o
}

func (o *Outcome) addUsage(run *eval.CaseResult) {
	o.Usage.Add(run.Usage)
	for _, t := range run.Turns {
		if t.Actual != nil && t.Actual.Duration != nil {
			o.Seconds += *t.Actual.Duration
		}
	}
}

func statusesOf(metrics []*eval.MetricResult) []eval.Status {
	var all []eval.Status
	for _, m := range metrics {
		if metric, ok := eval.FindMetric(m.Metric); !ok || !metric.Informational() {
			all = append(all, m.Status)
		}
	}
	return all
}

// addMetric adds the merged score of a metric, unless it is there from an earlier run.
func (o *Outcome) addMetric(first *eval.MetricResult) {
	list := &o.Metrics
	if metric, ok := eval.FindMetric(first.Metric); ok && metric.Informational() {
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
		if t := Threshold(first); t != nil {
			threshold = *t
		}
		merged.Score, merged.Status = eval.MergeRuns(scores, threshold)
		if list == &o.Informational && merged.Status != eval.NotEvaluated {
			merged.Status = eval.Informational
		}
	}
	*list = append(*list, &merged)
}

// Threshold returns the threshold that a score was compared with.
func Threshold(m *eval.MetricResult) *float64 {
	if m.Criterion != nil && m.Criterion.Threshold != nil {
		return m.Criterion.Threshold
	}
	return m.Threshold
}

func turnScores(run *eval.CaseResult, metric string) []*float64 {
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
