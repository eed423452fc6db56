package optimize

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"agenthost/pkg/runtime"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalrun"
)

// An Optimizer searches for a better instruction. It is not safe for concurrent use.
type Optimizer struct {
	// Instruction is the instruction as its file has it.
	Instruction string
	// Train are the cases to learn from, Validation those whose score decides.
	Train, Validation []*evalrun.Job
	// Open opens the app with another instruction. A [*RejectedError] rejects the
	// instruction; another error ends the search. The caller closes the app.
	Open func(ctx context.Context, instruction string) (*runtime.App, error)
	// Ask returns the answer from the model that proposes instructions.
	Ask func(ctx context.Context, prompt string) (string, error)
	// Runner runs cases on the apps that Open returns.
	Runner evalrun.Runner
	// Iterations is the maximum number of proposals, BatchSize the number of training cases
	// for each, MaxCaseRuns the maximum number of case runs.
	Iterations, BatchSize, MaxCaseRuns int
	// Seed selects batches and parents.
	Seed uint64
	// Report receives each step when it ends; nil is allowed.
	Report func(*Step)
	// Stopped returns why the search must stop, such as a cost limit, or nil.
	Stopped func() error

	random     *rand.Rand
	candidates []*candidate
	// queue has the training cases that the current epoch has not used.
	queue []example
	runs  int
}

// A Step is one search iteration. Step 0 scores the app's instruction.
type Step struct {
	Iteration int `json:"iteration"`
	// Parent is the iteration with the instruction that the model improved.
	Parent int `json:"parent"`
	// Instruction is the proposal; empty if there is none.
	Instruction string `json:"instruction,omitempty"`
	// Batch and ParentBatch score the proposal and its parent on the step's training cases,
	// Validation scores the proposal on the validation cases; nil if there is none.
	Batch       *Score `json:"batch,omitempty"`
	ParentBatch *Score `json:"parentBatch,omitempty"`
	Validation  *Score `json:"validation,omitempty"`
	// Rejected is why the proposal was not scored or kept; empty if it was kept.
	Rejected string `json:"rejected,omitempty"`
}

// A Result is a search's result.
type Result struct {
	// Before and After are the validation scores for the app's instruction and the best one.
	Before Score `json:"before"`
	After  Score `json:"after"`
	// Instruction is the best one; Improved reports whether it is better.
	Instruction string  `json:"instruction"`
	Improved    bool    `json:"improved"`
	Steps       []*Step `json:"steps"`
	CaseRuns    int     `json:"caseRuns"`
	// Stopped is why the search ended before its last iteration.
	Stopped string `json:"stopped,omitempty"`
}

// candidate is an instruction with its results.
type candidate struct {
	iteration   int
	instruction string
	results     map[example]*eval.Outcome
}

// A RejectedError is why an instruction cannot be used.
type RejectedError struct{ Reason string }

// Error returns the reason.
func (e *RejectedError) Error() string { return e.Reason }

// stopError ends the search, which has a result nevertheless.
type stopError struct{ reason string }

func (e *stopError) Error() string { return e.reason }

// Run searches until it has a perfect score, or until a limit is reached. When ctx ends, it
// returns its cause.
func (o *Optimizer) Run(ctx context.Context) (*Result, error) {
	o.random = rand.New(rand.NewPCG(o.Seed, 0))
	train, validation := listExamples(o.Train), listExamples(o.Validation)
	base := o.addCandidate(0, o.Instruction)
	result := &Result{Instruction: o.Instruction}
	err := o.runCases(ctx, base, validation)
	if err == nil {
		result.Before = base.scoreOf(validation)
		o.addStep(result, &Step{Validation: &result.Before})
		err = o.searchCandidates(ctx, result, train, validation)
	}
	var stopped *stopError
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.As(err, &stopped):
		result.Stopped = stopped.reason
	case err != nil:
		return nil, err
	}
	if len(result.Steps) == 0 {
		return nil, fmt.Errorf("the app's instruction was not scored: %w", err)
	}
	best := o.findBest(validation)
	result.After, result.Instruction, result.Improved = best.scoreOf(validation), best.instruction, best != base
	result.CaseRuns = o.runs
	return result, nil
}

func (o *Optimizer) addStep(result *Result, s *Step) {
	result.Steps = append(result.Steps, s)
	if o.Report != nil {
		o.Report(s)
	}
}

func (o *Optimizer) addCandidate(iteration int, instruction string) *candidate {
	c := &candidate{iteration: iteration, instruction: instruction, results: map[example]*eval.Outcome{}}
	o.candidates = append(o.candidates, c)
	return c
}

// searchCandidates improves candidates until a validation score is perfect.
func (o *Optimizer) searchCandidates(ctx context.Context, result *Result, train, validation []example) error {
	proposed := []string{o.Instruction}
	for i := 1; i <= o.Iterations; i++ {
		if o.findBest(validation).scoreOf(validation).isPerfect() {
			return nil
		}
		step := &Step{Iteration: i}
		child, err := o.improveCandidate(ctx, step, train, validation, proposed)
		if err != nil {
			return err
		}
		if step.Instruction != "" {
			proposed = append(proposed, step.Instruction)
		}
		if child != nil {
			score := child.scoreOf(validation)
			step.Validation = &score
			o.candidates = append(o.candidates, child)
		}
		o.addStep(result, step)
	}
	return nil
}

// improveCandidate returns a child that is better than its parent on a batch, with its
// validation results, or nil.
func (o *Optimizer) improveCandidate(ctx context.Context, step *Step, train, validation []example, proposed []string) (*candidate, error) {
	parent, batch := o.chooseParent(validation), o.nextBatch(train)
	step.Parent = parent.iteration
	if err := o.runCases(ctx, parent, batch); err != nil {
		return nil, err
	}
	before := parent.scoreOf(batch)
	if step.ParentBatch = &before; before.isPerfect() {
		step.Rejected = "the training cases of this step pass already"
		return nil, nil
	}
	answer, err := o.Ask(ctx, buildPrompt(parent, batch))
	if err != nil {
		return nil, o.wrapStop(fmt.Errorf("proposing an instruction: %w", err))
	}
	step.Instruction, err = readProposal(answer, parent.instruction)
	if err == nil && slices.Contains(proposed, step.Instruction) {
		err = &RejectedError{"an earlier instruction is the same"}
	}
	child := &candidate{iteration: step.Iteration, instruction: step.Instruction, results: map[example]*eval.Outcome{}}
	if err == nil {
		err = o.runCases(ctx, child, batch)
	}
	if rejected := (*RejectedError)(nil); errors.As(err, &rejected) {
		step.Rejected = rejected.Reason
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	after := child.scoreOf(batch)
	if step.Batch = &after; after.Passed <= before.Passed {
		step.Rejected = "it is not better for the training cases of this step"
		return nil, nil
	}
	return child, o.runCases(ctx, child, validation)
}

// wrapStop returns the limit that was reached instead of the error that follows from it.
func (o *Optimizer) wrapStop(err error) error {
	if o.Stopped != nil {
		if reason := o.Stopped(); reason != nil {
			return &stopError{reason.Error()}
		}
	}
	return err
}

// chooseParent returns a candidate that is best for some validation case. Candidates that are
// best for more cases are more likely.
func (o *Optimizer) chooseParent(validation []example) *candidate {
	var pool []*candidate
	for _, ex := range validation {
		passes := slices.ContainsFunc(o.candidates, func(c *candidate) bool { return c.passesCase(ex) })
		for _, c := range o.candidates {
			if c.passesCase(ex) == passes {
				pool = append(pool, c)
			}
		}
	}
	return pool[o.random.IntN(len(pool))]
}

// findBest returns the candidate with the highest validation score, the first among equal ones.
func (o *Optimizer) findBest(validation []example) *candidate {
	best := o.candidates[0]
	for _, c := range o.candidates[1:] {
		if c.scoreOf(validation).Passed > best.scoreOf(validation).Passed {
			best = c
		}
	}
	return best
}

// nextBatch returns training cases in a random order, each once before one is used again.
func (o *Optimizer) nextBatch(train []example) []example {
	var batch []example
	for len(batch) < min(o.BatchSize, len(train)) {
		if len(o.queue) == 0 {
			o.queue = slices.Clone(train)
			o.random.Shuffle(len(o.queue), func(i, j int) { o.queue[i], o.queue[j] = o.queue[j], o.queue[i] })
		}
		if ex := o.queue[0]; !slices.Contains(batch, ex) {
			batch = append(batch, ex)
		}
		o.queue = o.queue[1:]
	}
	return batch
}
