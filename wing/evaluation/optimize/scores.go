package optimize

import (
	"context"
	"fmt"

	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalrun"
)

// An example is a case in a set.
type example struct {
	job *evalrun.Job
	c   *eval.Case
}

// formatName returns the set and the case, as on the command line.
func (e example) formatName() string { return e.job.Set.ID + ":" + e.c.ID }

// listExamples returns the cases from all jobs.
func listExamples(jobs []*evalrun.Job) []example {
	var all []example
	for _, job := range jobs {
		for _, c := range job.Cases {
			all = append(all, example{job, c})
		}
	}
	return all
}

// A Score is how many cases passed, and how many ran. ADK's score for a case is 1 if it
// passed, else 0.
type Score struct {
	Passed int `json:"passed"`
	Cases  int `json:"cases"`
}

func (s Score) isPerfect() bool { return s.Passed == s.Cases }

// String returns the share and the numbers.
func (s Score) String() string {
	if s.Cases == 0 {
		return "no cases"
	}
	return fmt.Sprintf("%.3g (%d of %d cases)", float64(s.Passed)/float64(s.Cases), s.Passed, s.Cases)
}

func (c *candidate) passesCase(ex example) bool {
	o := c.results[ex]
	return o != nil && o.Status == eval.Passed
}

func (c *candidate) scoreOf(examples []example) Score {
	s := Score{Cases: len(examples)}
	for _, ex := range examples {
		if c.passesCase(ex) {
			s.Passed++
		}
	}
	return s
}

// runCases runs a candidate's cases that have no result yet.
func (o *Optimizer) runCases(ctx context.Context, c *candidate, examples []example) error {
	missing := map[*evalrun.Job][]*eval.Case{}
	count := 0
	for _, ex := range examples {
		if c.results[ex] == nil {
			missing[ex.job] = append(missing[ex.job], ex.c)
			count += o.Runner.Runs
		}
	}
	if count == 0 {
		return nil
	}
	if o.runs+count > o.MaxCaseRuns {
		return &stopError{fmt.Sprintf("the limit of %d case runs was reached", o.MaxCaseRuns)}
	}
	app, err := o.Open(ctx, c.instruction)
	if err != nil {
		return err
	}
	defer app.Close()
	runner := o.Runner
	runner.App = app
	for _, job := range listJobs(examples) {
		if len(missing[job]) == 0 {
			continue
		}
		part, log := *job, &evalrun.MemoryLog{}
		part.Cases = missing[job]
		if err := runner.Run(ctx, &part, log); err != nil {
			return o.wrapStop(err)
		}
		if err := o.wrapStop(nil); err != nil {
			return err // the results of cases without a budget do not count
		}
		o.runs += len(part.Cases) * runner.Runs
		c.addOutcomes(job, log.Outcomes(&part), examples)
	}
	return nil
}

// listJobs returns the jobs of the examples, each once.
func listJobs(examples []example) []*evalrun.Job {
	var jobs []*evalrun.Job
	seen := map[*evalrun.Job]bool{}
	for _, ex := range examples {
		if !seen[ex.job] {
			seen[ex.job] = true
			jobs = append(jobs, ex.job)
		}
	}
	return jobs
}

func (c *candidate) addOutcomes(job *evalrun.Job, outcomes []*eval.Outcome, examples []example) {
	for _, outcome := range outcomes {
		for _, ex := range examples {
			if ex.job == job && ex.c.ID == outcome.CaseID {
				c.results[ex] = outcome
			}
		}
	}
}
