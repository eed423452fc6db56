package spec_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/spec"
)

// TestReplaceString: a string is replaced in its form, as far as that can hold the text;
// every other byte stays.
func TestReplaceString(t *testing.T) {
	for _, c := range []struct{ name, src, text, want string }{
		{"plain", "name: a\ninstruction: Help. # soon\ntools: []\n", "Help well.", "name: a\ninstruction: Help well. # soon\ntools: []\n"},
		{"plain needs quotes", "instruction: Help.\n", "Help: always # yes", "instruction: \"Help: always # yes\"\n"},
		{"plain of several lines", "instruction: Help\n  the user\n\n  now.\nname: a\n", "Help.", "instruction: Help.\nname: a\n"},
		{"plain becomes a block", "instruction: Help.\nname: a\n", "Help.\n\nBe kind.", "instruction: |-\n  Help.\n\n  Be kind.\nname: a\n"},
		{"double quotes", "instruction: \"Say \\\"hi\\\".\" # c\n", "Go {a}.", "instruction: \"Go {a}.\" # c\n"},
		{"single quotes", "instruction: 'It''s {a}'\n", "No.", "instruction: \"No.\"\n"},
		{"literal block", "# top\ninstruction: |\n  Help {tier?}\n\n  now.\n\n# end\nname: a\n", "Help {tier?}\nwell.\n", "# top\ninstruction: |\n  Help {tier?}\n  well.\n\n# end\nname: a\n"},
		{"block to one line", "instruction: |-\n  a\n  b\n", "c", "instruction: |-\n  c\n"},
		{"folded block", "instruction: >\n    Help\n    now.\nname: a\n", "x\ny\n", "instruction: |\n  x\n  y\nname: a\n"},
		{"block of a list item", "agents:\n  - instruction: |\n      a\n    name: b\n", "x\ny\n", "agents:\n  - instruction: |\n      x\n      y\n    name: b\n"},
		{"indented first line", "instruction: |\n  a\n", "  x\ny\n", "instruction: |2\n    x\n  y\n"},
		{"comment of a block", "instruction: |-  # keep\n  a\n", "x\ny\n", "instruction: |  # keep\n  x\n  y\n"},
		{"comment after a block", "instruction: 'a' # keep\nname: b\n", "x\ny", "instruction: |- # keep\n  x\n  y\nname: b\n"},
		{"flow mapping", "agents: {b: {instruction: Help., name: b}}\n", "x\ny", "agents: {b: {instruction: \"x\\ny\", name: b}}\n"},
		{"windows", "instruction: |\r\n  a\r\n  b\r\nname: a\r\n", "x\ny\n", "instruction: |\r\n  x\r\n  y\r\nname: a\r\n"},
		{"end of the file", "instruction: |\n  a", "x\ny", "instruction: |-\n  x\n  y"},
		{"blank lines at the end", "instruction: |+\n  a\n\nname: a\n", "x\n\n", "instruction: |+\n  x\n\nname: a\n"},
		{"unicode", "größe: 1\ninstruction: Grüße.\n", "Größe ☃.", "größe: 1\ninstruction: Größe ☃.\n"},
		{"looks like a number", "instruction: Help.\n", "12", "instruction: \"12\"\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, ds := spec.Parse("a.yaml", []byte(c.src))
			if ds.HasErrors() {
				t.Fatal(ds)
			}
			at := findInstruction(n)
			if old, ok := spec.StringAt([]byte(c.src), at.Pos); !ok || old != at.Value {
				t.Errorf("StringAt = %q, %v, want %q", old, ok, at.Value)
			}
			got, err := spec.ReplaceString([]byte(c.src), at.Pos, c.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Errorf("ReplaceString (-want +got):\n%s", diff)
			}
		})
	}
}

func findInstruction(n *spec.Node) *spec.Node {
	if found := n.Get("instruction"); found != nil {
		return found
	}
	for _, e := range n.Entries {
		if found := findInstruction(e.Value); found != nil {
			return found
		}
	}
	for _, item := range n.Items {
		if found := findInstruction(item); found != nil {
			return found
		}
	}
	return nil
}

// TestReplaceStringErrors: a string that cannot be replaced alone is left as it is.
func TestReplaceStringErrors(t *testing.T) {
	for _, c := range []struct{ name, src, want string }{
		{"anchor used elsewhere", "instruction: &a Help.\nother: *a\n", "a.yaml:1:14: the string cannot be replaced: write it without an anchor or a tag"},
		{"number", "instruction: 12\n", "a.yaml:1:14: no string found"},
		{"broken", "instruction: [\n", "a.yaml"},
	} {
		_, err := spec.ReplaceString([]byte(c.src), spec.Pos{File: "a.yaml", Line: 1, Col: 14}, "x")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.name, err, c.want)
		}
	}
}

// FuzzReplaceString: whatever the document and the text, a replaced string has the text, and
// replacing it again restores its value.
func FuzzReplaceString(f *testing.F) {
	for _, src := range []string{"instruction: Help.\n", "a: {instruction: 'x'}", "- instruction: |\n    a\n    b\n  c: 1\n", "instruction: >-\n  a\n\n  b\n# c\n"} {
		for _, text := range []string{"x", "a\nb\n", "  a\n\n", "{k}: # no", "\t", "é\u2028"} {
			f.Add(src, text)
		}
	}
	f.Fuzz(func(t *testing.T, src, text string) {
		n, ds := spec.Parse("a.yaml", []byte(src))
		if ds.HasErrors() {
			return
		}
		at := findInstruction(n)
		if at == nil || at.Kind != spec.Scalar || at.Tag != "!!str" {
			return
		}
		edited, err := spec.ReplaceString([]byte(src), at.Pos, text)
		if err != nil {
			return
		}
		if got, ok := spec.StringAt(edited, at.Pos); !ok || got != text {
			t.Fatalf("%q has %q, want %q", edited, got, text)
		}
		back, err := spec.ReplaceString(edited, at.Pos, at.Value)
		if got, _ := spec.StringAt(back, at.Pos); err == nil && got != at.Value {
			t.Fatalf("%q has %q, want %q", back, got, at.Value)
		}
	})
}
