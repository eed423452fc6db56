package spec_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"agenthost/pkg/spec"
)

func posAt(line, col int) spec.Pos { return spec.Pos{File: "a.yaml", Line: line, Col: col} }

func TestDiagnostics_WriteText(t *testing.T) {
	tests := []struct {
		name string
		in   spec.Diagnostic
		want string
	}{
		{
			"all of it",
			spec.Diagnostic{Pos: posAt(3, 2), Rule: "type", Message: "no", Hint: "yes", Source: " x: y"},
			"a.yaml:3:2: no [type]\n  |  x: y\n  |  ^\nhint: yes\n",
		},
		{
			"a warning",
			spec.Diagnostic{Pos: posAt(1, 1), Severity: spec.Warning, Rule: "deprecated", Message: "old", Source: "x"},
			"a.yaml:1:1: warning: old [deprecated]\n  | x\n  | ^\n",
		},
		{"a file as a whole", spec.Diagnostic{Pos: spec.Pos{File: "a.yaml"}, Rule: "limit", Message: "large"}, "a.yaml: large [limit]\n"},
		{"no place, no rule", spec.Diagnostic{Message: "bad"}, "bad\n"},
		{"no source", spec.Diagnostic{Pos: posAt(1, 1), Message: "bad"}, "a.yaml:1:1: bad\n"},
		{"after the end", spec.Diagnostic{Pos: posAt(1, 9), Message: "bad", Source: "ab"}, "a.yaml:1:9: bad\n  | ab\n  |   ^\n"},
		{"tabs", spec.Diagnostic{Pos: posAt(1, 3), Message: "bad", Source: "\ta\tb"}, "a.yaml:1:3: bad\n  |     a   b\n  |      ^\n"},
		{"combining marks", spec.Diagnostic{Pos: posAt(1, 3), Message: "bad", Source: "e\u0301x"}, "a.yaml:1:3: bad\n  | e\u0301x\n  |  ^\n"},
		{"wide characters", spec.Diagnostic{Pos: posAt(1, 3), Message: "bad", Source: "日本x"}, "a.yaml:1:3: bad\n  | 日本x\n  |     ^\n"},
		{"control characters", spec.Diagnostic{Pos: posAt(1, 2), Message: "bad", Source: "\x1bx"}, "a.yaml:1:2: bad\n  | \uFFFDx\n  |  ^\n"},
		{
			"a long line",
			spec.Diagnostic{Pos: posAt(1, 501), Message: "bad", Source: strings.Repeat("a", 500) + "B" + strings.Repeat("c", 500)},
			"a.yaml:1:501: bad\n  | " + strings.Repeat("a", 60) + "B" + strings.Repeat("c", 59) + "\n  | " + strings.Repeat(" ", 60) + "^\n",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, formatText(t, spec.Diagnostics{test.in})); diff != "" {
				t.Errorf("WriteText (-want +got):\n%s", diff)
			}
		})
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestDiagnostics_WriteTextFails(t *testing.T) {
	if err := (spec.Diagnostics{{Message: "x"}}).WriteText(failingWriter{}); err == nil {
		t.Error("WriteText to a broken pipe = nil, want its error")
	}
}

func TestDiagnostics_Sort(t *testing.T) {
	b := spec.Diagnostic{Pos: spec.Pos{File: "b.yaml"}, Message: "whole"}
	first := spec.Diagnostic{Pos: posAt(1, 9), Message: "first"}
	late := spec.Diagnostic{Pos: posAt(10, 1), Message: "late"}
	rule := spec.Diagnostic{Pos: posAt(2, 1), Rule: "a", Message: "z"}
	other := spec.Diagnostic{Pos: posAt(2, 1), Rule: "b", Message: "a"}
	ds := spec.Diagnostics{b, late, other, first, late, rule}
	ds.Sort()
	if diff := cmp.Diff(spec.Diagnostics{first, rule, other, late, b}, ds); diff != "" {
		t.Errorf("Sort() (-want +got):\n%s", diff)
	}
}

func TestDiagnostics_Err(t *testing.T) {
	warning := spec.Diagnostic{Severity: spec.Warning, Message: "w"}
	if err := (spec.Diagnostics{warning}).Err(); err != nil {
		t.Errorf("Err() of a warning = %v, want nil", err)
	}
	ds := spec.Diagnostics{warning, {Pos: posAt(1, 2), Rule: "type", Message: "bad", Hint: "write good"}}
	err := fmt.Errorf("loading: %w", ds.Err())
	var found spec.Diagnostics
	if !errors.As(err, &found) || len(found) != 2 {
		t.Errorf("errors.As(%v) found %v", err, found)
	}
	if got, want := err.Error(), "loading: warning: w\na.yaml:1:2: bad [type] (write good)"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
}

func TestDiagnostics_JSON(t *testing.T) {
	ds := spec.Diagnostics{
		{Pos: posAt(1, 2), Rule: "type", Message: "bad", Hint: "good", Source: "x"},
		{Pos: spec.Pos{File: "a.yaml"}, Severity: spec.Warning, Rule: "limit", Message: "large"},
	}
	got, err := json.Marshal(ds)
	want := `[{"file":"a.yaml","line":1,"column":2,"severity":"error","rule":"type","message":"bad","hint":"good","source":"x"},` +
		`{"file":"a.yaml","line":0,"column":0,"severity":"warning","rule":"limit","message":"large"}]`
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Errorf("Marshal, %v (-want +got):\n%s", err, diff)
	}
	if got, err := json.Marshal(spec.Diagnostics(nil)); string(got) != "[]" || err != nil {
		t.Errorf("Marshal(nil) = %s, %v, want []", got, err)
	}
}

func TestSuggestSimilarName(t *testing.T) {
	names := []string{"model", "mode", "instruction", "sub_agents", "url"}
	tests := []struct{ in, want string }{
		{"modle", "model"},
		{"mod", "mode"},
		{"Model", "model"},
		{"instrction", "instruction"},
		{"subagents", "sub_agents"},
		{"sub_agnet", "sub_agents"},
		{"uri", "url"},
		{"rul", "url"},
		{"banana", ""},
		{"", ""},
		{strings.Repeat("x", 1000), ""},
	}
	for _, test := range tests {
		if got := spec.Suggest(test.in, names); got != test.want {
			t.Errorf("Suggest(%q) = %q, want %q", test.in, got, test.want)
		}
	}
	for _, order := range [][]string{{"ab", "ac"}, {"ac", "ab"}} {
		if got := spec.Suggest("aa", order); got != "ab" {
			t.Errorf("Suggest(aa, %v) = %q, want the first in alphabetical order", order, got)
		}
	}
}

// Merge combines problems under the given rules, every output format names the other place, and
// Split undoes Merge.
func TestMergeSameProblemAtOtherPlaces(t *testing.T) {
	at := func(line int, rule string) spec.Diagnostic {
		return spec.Diagnostic{Pos: spec.Pos{File: "a.yaml", Line: line, Col: 3}, Rule: rule, Message: "no x", Source: "- x"}
	}
	all := spec.Diagnostics{at(1, "code"), at(2, "code"), at(3, "type"), at(4, "type")}
	got := all.Merge("code")
	if want := "a.yaml:1:3: no x; also at 1 other place [code]"; len(got) != 3 || got[0].String() != want {
		t.Fatalf("Merge = %q, want 3, the first %q", got.Strings(), want)
	}
	b, err := json.Marshal(got[0])
	if want := `"also":[{"column":3,"file":"a.yaml","line":2}]`; err != nil || !strings.Contains(string(b), want) {
		t.Errorf("JSON = %s, %v, want %s", b, err, want)
	}
	for name, write := range map[string]func(*strings.Builder) error{
		"text":   func(b *strings.Builder) error { return got.WriteText(b) },
		"sarif":  func(b *strings.Builder) error { return got.WriteSARIF(b, "1") },
		"github": func(b *strings.Builder) error { return got.WriteGitHub(b) },
	} {
		var text strings.Builder
		if err := write(&text); err != nil || !strings.Contains(text.String(), "also: a.yaml:2:3") {
			t.Errorf("%s = %s, %v, want the other place", name, &text, err)
		}
	}
	split := got.Split()
	if len(split) != 4 || split[1].Pos.Line != 2 || split[1].Also != nil || split[1].Source != "- x" {
		t.Errorf("Split = %v, want 4 problems", split)
	}
}

var update = flag.Bool("update", false, "update the golden files")

// TestBrokenDocuments runs testdata/err: each file has a comment, a document and its
// problems as printed.
func TestBrokenDocuments(t *testing.T) {
	files, err := filepath.Glob("testdata/err/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata/err: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			in, want := &archive.Files[0], &archive.Files[1]
			_, problems := spec.Parse(in.Name, in.Data)
			got := formatText(t, problems)
			if *update {
				want.Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(want.Data), got); diff != "" {
				t.Errorf("Parse(%s) (-want +got):\n%s", file, diff)
			}
			if len(problems) == 0 {
				t.Errorf("Parse(%s) reported no problem", file)
			}
		})
	}
}

func formatText(t testing.TB, ds spec.Diagnostics) string {
	t.Helper()
	var b strings.Builder
	if err := ds.WriteText(&b); err != nil {
		t.Fatalf("WriteText: %v", err)
	}
	return b.String()
}

// Problems in a document with secrets keep position, rule and reason. No line text is left, and
// long words are not quoted, except for plain names.
func TestDiagnostics_Redact(t *testing.T) {
	in := spec.Diagnostics{{
		Pos: posAt(1, 2), Rule: "type", Message: `unknown field "token sk-0123456789abcdef" in authorization_endpoint`,
		Hint: "quote sk-0123456789abcdef:", Source: `{token sk-0123456789abcdef: authorization_endpoint}`,
		Fix:  spec.Fix{Line: 1, Col: 2, Old: "sk-0123456789abcdef", New: "x"},
		Also: []spec.Place{{Pos: posAt(2, 1), Source: "sk-0123456789abcdef"}},
	}}
	want := spec.Diagnostics{{
		Pos: posAt(1, 2), Rule: "type", Message: `unknown field "token ***" in authorization_endpoint`,
		Hint: "quote ***:", Also: []spec.Place{{Pos: posAt(2, 1)}},
	}}
	if diff := cmp.Diff(want, in.Redact()); diff != "" {
		t.Errorf("Redact() (-want +got):\n%s", diff)
	}
	if in[0].Source == "" || in[0].Also[0].Source == "" {
		t.Error("Redact() changed its argument")
	}
}
