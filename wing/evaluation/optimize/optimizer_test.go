package optimize_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalrun"
	"agenthost/wing/evaluation/optimize"
)

// echoModel answers a user's word if the instruction has it, else "no".
type echoModel struct{}

func (echoModel) Name() string { return "echo" }

func (echoModel) Generate(_ context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	text := "no"
	if strings.Contains(req.Instruction(), req.Origin.UserText) {
		text = req.Origin.UserText
	}
	return func(yield func(*model.Response, error) bool) {
		yield(&model.Response{Content: model.ModelText(text), FinishReason: genai.FinishReasonStop}, nil)
	}
}

// newJob returns a job whose cases expect a word back, which the instruction must have.
func newJob(t *testing.T, id string, words ...string) *evalrun.Job {
	t.Helper()
	set := &eval.Set{ID: id}
	for _, word := range words {
		set.Cases = append(set.Cases, &eval.Case{ID: word, Conversation: []*eval.Invocation{{
			UserContent: model.UserText(word), FinalResponse: model.ModelText(word),
		}}})
	}
	jobs, err := evalrun.PlanSets([]*evalrun.SetFile{{Set: set, Path: id}}, nil, &evalrun.PlanOptions{Metrics: []string{"response_match=1"}})
	if err != nil {
		t.Fatal(err)
	}
	return jobs[0]
}

// newOptimizer returns an optimizer whose model proposes instructions in order.
func newOptimizer(t *testing.T, instruction string, train, validation *evalrun.Job, proposals ...string) (o *optimize.Optimizer, prompts *[]string) {
	t.Helper()
	prompts = &[]string{}
	return &optimize.Optimizer{
		Instruction: instruction, Train: []*evalrun.Job{train}, Validation: []*evalrun.Job{validation},
		Open: func(_ context.Context, text string) (*runtime.App, error) {
			if strings.Contains(text, "broken") {
				return nil, &optimize.RejectedError{Reason: "it is broken"}
			}
			root := runtime.NewLLM("a", &runtime.LLMOptions{Model: echoModel{}, Instruction: runtime.NewInstruction(text, nil)})
			return runtime.NewApp("app", root, nil)
		},
		Ask: func(_ context.Context, prompt string) (string, error) {
			*prompts = append(*prompts, prompt)
			if len(proposals) == 0 {
				return "", errors.New("no more proposals")
			}
			next := proposals[0]
			proposals = proposals[1:]
			return next, nil
		},
		Runner:     evalrun.Runner{Runs: 1, Parallel: 1, Timeout: time.Minute},
		Iterations: 10, BatchSize: 5, MaxCaseRuns: 100,
	}, prompts
}

// TestSearchKeepsConfirmedProposal: a proposal that is better for its batch is kept if the validation cases confirm
// it; the best one wins, and a perfect one ends the search.
func TestSearchKeepsConfirmedProposal(t *testing.T) {
	train, validation := newJob(t, "train", "red", "green", "blue"), newJob(t, "validation", "red", "yellow", "blue")
	o, prompts := newOptimizer(t, "red", train, validation,
		"red broken", "green", "red green", "red green blue", "red blue yellow green")
	result, err := o.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range result.Steps {
		got = append(got, fmt.Sprint(s.Iteration, " ", s.Validation, " ", s.Rejected))
	}
	want := []string{
		"0 0.333 (1 of 3 cases) ",
		"1 <nil> it is broken",
		"2 <nil> it is not better for the training cases of this step",
		"3 0.333 (1 of 3 cases) ",
		"4 0.667 (2 of 3 cases) ",
		"5 1 (3 of 3 cases) ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if !result.Improved || result.After.Passed != 3 || result.Before.Passed != 1 {
		t.Errorf("result = %+v, want a better instruction", result)
	}
	for _, part := range []string{"Current instruction:\n```\nred\n```", "(train:green):\nresult: FAILED\nturn 1\n  user: green\n  agent: no\n  expected: green\nscore of response_match_score: 0, required 1"} {
		if !strings.Contains((*prompts)[0], part) {
			t.Errorf("the prompt has no %q:\n%s", part, (*prompts)[0])
		}
	}
}

// TestSearchLimits: a limit ends the search with the best instruction so far. Case runs with a
// limit that was reached do not count.
func TestSearchLimits(t *testing.T) {
	job := newJob(t, "s", "red", "green", "blue")
	o, _ := newOptimizer(t, "red", job, job, "red green", "red green blue")
	o.MaxCaseRuns = 7
	result, err := o.Run(t.Context())
	if err != nil || result.Stopped != "the limit of 7 case runs was reached" || result.Instruction != "red green" || result.CaseRuns != 6 {
		t.Errorf("result = %+v, %v", result, err)
	}

	o, _ = newOptimizer(t, "red", job, job, "red green blue")
	asked := false
	ask := o.Ask
	o.Ask = func(ctx context.Context, prompt string) (string, error) { asked = true; return ask(ctx, prompt) }
	o.Stopped = func() error {
		if asked {
			return errors.New("the budget is spent")
		}
		return nil
	}
	if result, err = o.Run(t.Context()); err != nil || result.Improved || result.Stopped != "the budget is spent" {
		t.Errorf("result = %+v, %v, want none", result, err)
	}

	o, _ = newOptimizer(t, "red", job, job)
	if _, err := o.Run(t.Context()); err == nil || err.Error() != "proposing an instruction: no more proposals" {
		t.Errorf("a failed model: %v", err)
	}
	o, _ = newOptimizer(t, "red green blue", job, job)
	if result, err := o.Run(t.Context()); err != nil || result.Improved || len(result.Steps) != 1 {
		t.Errorf("a perfect instruction: %+v, %v", result, err)
	}
	o.MaxCaseRuns = 2
	if _, err := o.Run(t.Context()); err == nil || err.Error() != "the app's instruction was not scored: the limit of 2 case runs was reached" {
		t.Errorf("too few case runs: %v", err)
	}
}

// TestSearchCanceled: a canceled search returns the cause.
func TestSearchCanceled(t *testing.T) {
	job := newJob(t, "s", "red", "green")
	o, _ := newOptimizer(t, "red", job, job, "red green")
	ctx, cancel := context.WithCancelCause(t.Context())
	ask := o.Ask
	o.Ask = func(ctx context.Context, prompt string) (string, error) {
		cancel(errors.New("the user stopped"))
		return ask(ctx, prompt)
	}
	if result, err := o.Run(ctx); result != nil || err == nil || err.Error() != "the user stopped" {
		t.Errorf("Run = %+v, %v", result, err)
	}
}
