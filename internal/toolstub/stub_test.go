package toolstub_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/toolstub"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// document is a document with stubs.
type document struct {
	Tools      map[string]toolstub.Config `yaml:"tools"`
	Simulation *toolstub.SimulationConfig `yaml:"simulation"`
}

func buildSet(t *testing.T, text string) *toolstub.Set {
	t.Helper()
	n, ds := spec.Parse("stubs.yaml", []byte(text))
	var doc document
	ds = append(ds, spec.Decode(n, &doc)...)
	set, more := toolstub.Build(n.Get("tools"), doc.Tools, nil)
	if ds = append(ds, more...); ds.HasErrors() {
		t.Fatal(ds)
	}
	return set.WithSimulation(doc.Simulation)
}

// realTool answers {"real": true}.
type realTool struct{ timeout time.Duration }

func (realTool) Declaration() *genai.FunctionDeclaration {
	return &genai.FunctionDeclaration{Name: "find", Description: "Finds an order."}
}

func (t realTool) Capabilities() tool.Capabilities { return tool.Capabilities{Timeout: t.timeout} }

func (realTool) Run(context.Context, *tool.Call) (*tool.Result, error) {
	return &tool.Result{Response: map[string]any{"real": true}}, nil
}

type stateMap map[string]any

func (s stateMap) Get(key string) (any, bool)          { v, ok := s[key]; return v, ok }
func (s stateMap) Set(key string, v any)               { s[key] = v }
func (s stateMap) Update(...session.StateUpdate) error { return nil }
func (s stateMap) All() map[string]any                 { return s }

// runCall calls a tool, and returns its response as JSON or its error.
func runCall(ctx context.Context, r *toolstub.Run, t tool.Tool, name string, args map[string]any) string {
	call := &tool.Call{Name: name, Args: args, State: stateMap{}}
	x := &tool.Execution{Tool: t, Call: call, Tools: []tool.Tool{t}}
	x.Run = func(ctx context.Context) (*tool.Result, error) { return t.Run(ctx, call) }
	result, err := r.RunTool(ctx, x)
	switch {
	case err != nil:
		return err.Error()
	case result == nil:
		return "nothing"
	}
	b, err := json.Marshal(result.Response)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// TestInjectionsAnswerLikeADK: ADK's injections, under the names that docs/eval-sets.md maps them to,
// answer as in ADK.
func TestInjectionsAnswerLikeADK(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "adk_injections.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	names := strings.NewReplacer("injected_error", "error", "injected_http_error_code", "code", "error_message", "message",
		"injected_response", "return", "injection_probability", "probability", "injected_latency_seconds", "latency", "random_seed", "seed")
	for line := range bytes.Lines(text) {
		var v struct {
			ID    string
			Input struct {
				Injections json.RawMessage
				Args       map[string]any
			}
			Expected struct{ Response any }
		}
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatal(err)
		}
		t.Run(v.ID, func(t *testing.T) {
			set := buildSet(t, `{"tools": {"find": `+names.Replace(string(v.Input.Injections))+`}}`)
			want := `{"real":true}`
			if v.Expected.Response != nil {
				b, _ := json.Marshal(v.Expected.Response)
				want = string(b)
			}
			if got := runCall(t.Context(), set.Begin(&toolstub.RunOptions{}), realTool{}, "find", v.Input.Args); got != want {
				t.Errorf("response = %s, want %s", got, want)
			}
		})
	}
}

// TestFirstStub: the first stub that matches the arguments and is not used up answers a
// call; without one, the tool runs.
func TestFirstStub(t *testing.T) {
	r := buildSet(t, `
tools:
  find:
    - {args: {id: 7}, return: {status: shipped}, times: 1}
    - {match_args: {id: 8}, error: {code: 503, message: down}}
    - {patterns: {id: "R[0-9]+"}, return: found}
    - {args: {id: 9}, fail: timeout}
    - {args: {id: 10}, fail: no database}
    - {args: {id: 11}, return: null}
`).Begin(&toolstub.RunOptions{})
	for _, c := range []struct{ args, want string }{
		{`{"id": 7}`, `{"status":"shipped"}`},
		{`{"id": 7}`, `{"real":true}`},
		{`{"id": 7, "more": 1}`, `{"real":true}`},
		{`{"id": 8, "more": 1}`, `{"error_code":503,"error_message":"down"}`},
		{`{"id": "R12"}`, `{"result":"found"}`},
		{`{"id": "xR12"}`, `{"real":true}`},
		{`{"id": 9}`, `find: timed out after 30s`},
		{`{"id": 10}`, `no database`},
		{`{"id": 11}`, `nothing`},
		{`{}`, `{"real":true}`},
	} {
		var args map[string]any
		if err := json.Unmarshal([]byte(c.args), &args); err != nil {
			t.Fatal(err)
		}
		if got := runCall(t.Context(), r, realTool{}, "find", args); got != c.want {
			t.Errorf("find(%s) = %s, want %s", c.args, got, c.want)
		}
	}
	if got := runCall(t.Context(), r, realTool{}, "other", nil); got != `{"real":true}` {
		t.Errorf("a tool without stubs returned %s", got)
	}
}

// TestSeedChoosesSameCalls: a seed chooses the same calls in each conversation, whatever
// other stubs draw; the chosen share is about the probability.
func TestSeedChoosesSameCalls(t *testing.T) {
	draw := func(set *toolstub.Set) string {
		r := set.Begin(&toolstub.RunOptions{})
		var b strings.Builder
		for range 1000 {
			if runCall(t.Context(), r, realTool{}, "find", nil) == `{"result":"stub"}` {
				b.WriteByte('x')
			} else {
				b.WriteByte('-')
			}
		}
		return b.String()
	}
	set := buildSet(t, `tools: {find: {probability: 0.3, seed: 42, return: stub}}`)
	first := draw(set)
	// The sequence is documented, so it does not change with a release.
	if want := "x-xx-xx-x----x---x--"; first[:20] != want {
		t.Errorf("seed 42 chose %s, want %s", first[:20], want)
	}
	if again := draw(set); again != first {
		t.Error("the same seed chose other calls")
	}
	if other := draw(buildSet(t, `tools: {find: {probability: 0.3, seed: 43, return: stub}}`)); other == first {
		t.Error("another seed chose the same calls")
	}
	if n := strings.Count(first, "x"); n < 250 || n > 350 {
		t.Errorf("%d of 1000 calls were chosen, want about 300", n)
	}
}

// TestLatencyWaits: a stub takes its latency, bounded by the tool's timeout and by the
// context.
func TestLatencyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := buildSet(t, `tools: {find: {latency: 5s, return: late}}`).Begin(&toolstub.RunOptions{})
		for _, c := range []struct {
			tool tool.Tool
			took time.Duration
			want string
		}{
			{realTool{}, 5 * time.Second, `{"result":"late"}`},
			{realTool{timeout: 6 * time.Second}, 5 * time.Second, `{"result":"late"}`},
			{realTool{timeout: 2 * time.Second}, 2 * time.Second, `find: timed out after 2s`},
		} {
			began := time.Now()
			got := runCall(t.Context(), r, c.tool, "find", nil)
			if took := time.Since(began); got != c.want || took != c.took {
				t.Errorf("find = %s after %s, want %s after %s", got, took, c.want, c.took)
			}
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("the run ended"))
		defer cancel()
		if got := runCall(ctx, r, realTool{}, "find", nil); got != "the run ended" {
			t.Errorf("find = %s, want the cause of the context", got)
		}
		if got := r.Latency(); got != 20*time.Second {
			t.Errorf("latency = %s, want 20s", got)
		}
	})
}

// TestMergeCaseBeforeFile: a case's stubs come before its file's, and its simulation replaces the file's.
func TestMergeCaseBeforeFile(t *testing.T) {
	file := buildSet(t, `tools: {find: {return: file}, list: {return: file}}`)
	own := buildSet(t, `tools: {find: {args: {id: 1}, return: case}}`)
	r := own.Merge(file).Begin(&toolstub.RunOptions{})
	var got []string
	for _, c := range []struct {
		name string
		id   int
	}{{"find", 1}, {"find", 2}, {"list", 1}} {
		got = append(got, runCall(t.Context(), r, realTool{}, c.name, map[string]any{"id": c.id}))
	}
	if diff := cmp.Diff([]string{`{"result":"case"}`, `{"result":"file"}`, `{"result":"file"}`}, got); diff != "" {
		t.Error(diff)
	}
	var none *toolstub.Set
	if got := runCall(t.Context(), none.Merge(nil).Begin(&toolstub.RunOptions{}), realTool{}, "find", nil); got != `{"real":true}` {
		t.Errorf("without stubs, find = %s", got)
	}
}

// TestParallelCalls: times counts calls in parallel steps exactly.
func TestParallelCalls(t *testing.T) {
	r := buildSet(t, `tools: {find: {times: 10, return: stub}}`).Begin(&toolstub.RunOptions{})
	var wg sync.WaitGroup
	answers := make([]string, 50)
	for i := range answers {
		wg.Go(func() { answers[i] = runCall(t.Context(), r, realTool{}, "find", nil) })
	}
	wg.Wait()
	if n := strings.Count(fmt.Sprint(answers), "stub"); n != 10 {
		t.Errorf("the stub answered %d calls, want 10", n)
	}
}
