package evalrun

import (
	"slices"
	"sync"

	"agenthost/wing/evaluation/eval"
)

// A MemoryLog keeps results without their sessions. The zero value is empty.
type MemoryLog struct {
	mu      sync.Mutex
	results []*eval.CaseResult
}

var _ ResultLog = (*MemoryLog)(nil)

// Count returns how many runs of a case have a result.
func (m *MemoryLog) Count(caseID string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, r := range m.results {
		if r.CaseID == caseID {
			n++
		}
	}
	return n
}

// Append adds a run's result.
func (m *MemoryLog) Append(result *eval.CaseResult) error {
	result.Session = nil
	m.mu.Lock()
	defer m.mu.Unlock()
	m.results = append(m.results, result)
	return nil
}

// Outcomes returns the outcomes for cases that have a result, in the job's order.
func (m *MemoryLog) Outcomes(j *Job) []*eval.Outcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*eval.Outcome
	for _, c := range j.Cases {
		runs := slices.DeleteFunc(slices.Clone(m.results), func(r *eval.CaseResult) bool { return r.CaseID != c.ID })
		if len(runs) > 0 {
			all = append(all, eval.NewOutcome(runs, j.AllowNotEvaluated))
		}
	}
	return all
}
