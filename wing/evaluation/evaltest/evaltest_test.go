package evaltest_test

import (
	"context"
	"iter"
	"os"
	"os/exec"
	"strings"
	"testing"

	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evaltest"
)

// failing is the variable that selects one failing call in TestFailing.
const failing = "EVALTEST_FAILING"

// failingCalls are calls to Run that fail, with what the test's output has.
var failingCalls = map[string]struct {
	dir  string
	opts *evaltest.Options
	want []string
}{
	"judge": {"testdata/desk", &evaltest.Options{Kinds: kinds, Sets: []string{"orders:status"}, Metrics: []string{"safety=1"}, Judge: "demo"}, []string{
		"--- FAIL: TestFailing/orders/status", "FAILED orders:status", "safety_v1: 0, required 1", `"reasoning": "It is rude."`,
	}},
	"response": {"testdata/desk", &evaltest.Options{Kinds: kinds, Loader: &loader.Options{Model: vagueModel{}}}, []string{
		"--- FAIL: TestFailing/orders/asks_back", "response_match_score: 0", "user: Where is my parcel?", "expected response: Which order is it?",
	}},
	"no app":         {"testdata/none", nil, []string{"cannot evaluate testdata/none: "}},
	"unknown set":    {"testdata/desk", &evaltest.Options{Kinds: kinds, Sets: []string{"order"}}, []string{`unknown eval set "order": did you mean "orders"?`}},
	"unknown case":   {"testdata/desk", &evaltest.Options{Kinds: kinds, Sets: []string{"orders:statu"}}, []string{`unknown case "statu": did you mean "status"?`}},
	"unknown metric": {"testdata/desk", &evaltest.Options{Kinds: kinds, Metrics: []string{"safty"}}, []string{`unknown metric "safty": did you mean "safety"?`}},
	"no judge":       {"testdata/desk", &evaltest.Options{Kinds: kinds, Metrics: []string{"safety"}, Judge: "none/x"}, []string{"cannot open the judge models", `unknown provider "none"`}},
}

// A vagueModel is a Go program's model.
type vagueModel struct{}

func (vagueModel) Name() string { return "vague" }

func (vagueModel) Generate(context.Context, *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		yield(&model.Response{Content: model.ModelText("Perhaps.")}, nil)
	}
}

// TestFailing runs in a process that TestFailures starts, since it fails.
func TestFailing(t *testing.T) {
	if call, ok := failingCalls[os.Getenv(failing)]; ok {
		evaltest.Run(t, call.dir, call.opts)
	}
}

// TestFailures: a case that does not pass, and a call that names something unknown, fail the
// test with a report.
func TestFailures(t *testing.T) {
	for name, call := range failingCalls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestFailing$")
			cmd.Env = append(os.Environ(), failing+"="+name)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Error("the test passed")
			}
			for _, want := range call.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("the output lacks %s:\n%s", want, out)
				}
			}
		})
	}
}

// TestMetricsOfProgram: a Go function is a metric.
func TestMetricsOfProgram(t *testing.T) {
	called := make(chan int, 10)
	evaltest.Run(t, "testdata/desk", &evaltest.Options{
		Kinds: kinds,
		Sets:  []string{"orders:status"}, Metrics: []string{"length=0.5"},
		Custom: map[string]eval.MeasureFunc{"length": func(_ context.Context, in *eval.Input) (*eval.Scores, error) {
			called <- len(in.Actual)
			return eval.ScoreTurns(in, func(int) *float64 { one := 1.0; return &one }), nil
		}},
	})
	t.Cleanup(func() { // after the parallel subtests
		if len(called) != 1 {
			t.Errorf("the metric was called %d times, want once", len(called))
		}
	})
}
