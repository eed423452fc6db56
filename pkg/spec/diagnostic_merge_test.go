package spec_test

import (
	"encoding/json"
	"strings"
	"testing"

	"agenthost/pkg/spec"
)

// Merge combines problems of the given rules, every output format names the other place,
// and Split undoes Merge.
func TestMerge(t *testing.T) {
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
