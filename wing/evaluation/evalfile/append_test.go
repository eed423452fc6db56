package evalfile_test

import (
	"strings"
	"testing"

	"agenthost/wing/evaluation/evalfile"
)

const newItem = "- name: \"new\"\n  user: \"hi\"\n  expect:\n    calls: []\n"

// TestAppendCase expects a case after the last one, wherever that ends, and all else unchanged.
func TestAppendCase(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{"no file", "", "cases:\n  - name: \"new\""},
		{"only comments", "# Orders.", "# Orders.\ncases:\n  - name: \"new\""},
		{"no line break", "cases:\n- {name: a, user: hi, expect: {text: hi}}", "{text: hi}}\n- name: \"new\""},
		{"keys after the cases", "cases:\n  - name: a\n    user: hi\n\n# Greets.\ndescription: d\n", "    user: hi\n  - name: \"new\"\n    user: \"hi\"\n    expect:\n      calls: []\n\n# Greets.\ndescription: d\n"},
		{"text of several lines", "cases:\n- name: a\n  user: |\n    hi\n\n    # no comment\n", "    # no comment\n- name: \"new\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := evalfile.AppendCase("a.eval.yaml", []byte(c.file), newItem)
			if err != nil || !strings.Contains(string(got), c.want) {
				t.Errorf("AppendCase = %s, %v, want %s", got, err, c.want)
			}
		})
	}
	for _, c := range []struct{ name, file, want string }{
		{"flow list", "cases: [{name: a, user: hi}]\n", "a.eval.yaml:1:8: cannot append to cases: not a block list [eval]"},
		{"dash on its own line", "cases:\n-\n  name: a\n  user: hi\n", "cannot append to cases: not a block list [eval]"},
		{"same name", "cases:\n- name: new\n  user: hi\n", `duplicate case name, first used in line 2`},
		{"problem", "cases:\n- name: a\n", "a turn requires user, confirm or respond [eval]"},
		{"not YAML", "cases: [", "a.eval.yaml:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := evalfile.AppendCase("a.eval.yaml", []byte(c.file), newItem)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("AppendCase = %s, %v, want %s", got, err, c.want)
			}
		})
	}
}

// FuzzAppendCase: a file gets exactly one more case and keeps its text, or an error.
func FuzzAppendCase(f *testing.F) {
	for _, seed := range []string{"", wholeFile, "cases:\n- name: a\n  user: |\n    hi\n# end\n", "cases: [{name: a, user: hi}]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if len(src) > 1<<16 {
			return
		}
		got, err := evalfile.AppendCase("a.eval.yaml", src, newItem)
		if err != nil {
			return
		}
		file, ds := evalfile.Read("a.eval.yaml", got, &evalfile.Names{})
		if ds.HasErrors() || file.Case("new") == nil {
			t.Fatalf("AppendCase(%q) = %q, whose problems are %v", src, got, ds)
		}
		for line := range strings.Lines(string(src)) {
			if !strings.Contains(string(got), strings.TrimRight(line, "\n")) {
				t.Errorf("AppendCase(%q) = %q, which lacks %q", src, got, line)
			}
		}
	})
}
