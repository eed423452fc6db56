package evalfile_test

import (
	"fmt"
	"strings"
	"testing"

	"agenthost/pkg/spec"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalfile"
)

// TestStubsOfSetAndCase: the stubs in a set and its cases survive the set's JSON, and cases have their
// own first. A case's simulation replaces the set's.
func TestStubsOfSetAndCase(t *testing.T) {
	const file = `
tools: {find: {return: set}, list: {simulate: true}}
simulation: {model: a}
cases:
  - {name: one, user: hi, expect: {text: hi}, tools: {find: {return: case}}}
  - {name: two, user: hi, expect: {text: hi}, simulation: {model: b, max_model_calls: 3}}
`
	f, ds := evalfile.Read("orders.eval.yaml", []byte(file), &evalfile.Names{})
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	text, err := eval.EncodeFile(f.Set)
	if err != nil {
		t.Fatal(err)
	}
	set, ds := evalfile.ReadSet("orders.evalset.json", text, nil, &evalfile.Names{Tools: []string{"find", "list"}})
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	for _, s := range []*eval.Set{f.Set, set} {
		stubs, ds := evalfile.StubsOf(s)
		if ds.HasErrors() || len(stubs) != 2 {
			t.Fatalf("stubs = %v, %v, want those of two cases", stubs, ds)
		}
		one, two := stubs[s.Cases[0]], stubs[s.Cases[1]]
		if got := strings.Join(one.Tools(), " "); got != "find list" || !one.Simulates() || one.Model != "a" || two.Model != "b" {
			t.Errorf("case one has stubs of %s with model %s, case two model %s", got, one.Model, two.Model)
		}
	}
}

// FuzzStubs: any JSON under tools: is stubs or has problems with places, in the file that it
// is read from as well.
func FuzzStubs(f *testing.F) {
	for _, tools := range []string{`{"find": {"return": 1}}`, `[]`, `{"find": [{"args": null, "probability": 2}, 1]}`, "{\n\t\"find\": {\"error\": {\"code\": 503, \"message\": \"\\u00fc\"}}}"} {
		f.Add(tools)
	}
	f.Fuzz(func(t *testing.T, tools string) {
		src := `{"eval_set_id": "s", "eval_cases": [{"eval_id": "a", "conversation": [], "tools": ` + tools + `}]}`
		set, ds := evalfile.ReadSet("s.evalset.json", []byte(src), nil, &evalfile.Names{})
		if set == nil {
			return
		}
		lines := strings.Count(src, "\n") + 1
		for _, d := range ds {
			if d.Pos.Line < 1 || d.Pos.Line > lines {
				t.Errorf("%s is outside of the file", d)
			}
		}
		if _, again := evalfile.StubsOf(set); ds.HasErrors() != again.HasErrors() {
			t.Errorf("in the file: %v, alone: %v", ds, again)
		}
	})
}

// TestStubsOfLargeSet: the YAML document limits apply to each stub, not to what comes before
// it in the file, and places are those in the file. A file with many stubs is read in time
// proportional to its size.
func TestStubsOfLargeSet(t *testing.T) {
	const count = 8000
	for _, separator := range []string{" ", "\n\n\n\n\n\n\n"} {
		var src strings.Builder
		src.WriteString(`{"eval_set_id": "s", "eval_cases": [`)
		for i := range count {
			fmt.Fprintf(&src, `{"eval_id": "ü%d", "conversation": [{"user_content": {"parts": [{"text": "Where is order 7, and what does it cost?"}]}}],%s"tools": {"find": {"return": 1}}},`, i, separator)
		}
		src.WriteString("\n" + `{"eval_id": "last", "conversation": [],` + separator + `"tools": {"find": {"return": 1, "latency": -1}}}]}`)
		_, ds := evalfile.ReadSet("s.evalset.json", []byte(src.String()), nil, &evalfile.Names{})
		before, _, _ := strings.Cut(src.String(), "-1}")
		want := spec.Pos{File: "s.evalset.json", Line: strings.Count(before, "\n") + 1, Col: len(before) - strings.LastIndex(before, "\n")}
		if len(ds) != 1 || ds[0].Pos != want {
			t.Errorf("problems = %v, want one at %v", ds, want)
		}
	}
}
