package spec_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/spec"
)

type textFields struct {
	T spec.Text `yaml:"t"`
	U spec.Text `yaml:"u"`
}

// At returns an offset's position, or where the text starts if it cannot map it.
func TestText_At(t *testing.T) {
	tests := []struct{ name, in, find, want string }{
		{"plain", "t: hello {name}", "{name}", "1:10"},
		{"plain with wide characters", "t: héllo 名 {name}", "{name}", "1:12"},
		{"plain in a flow mapping", "{u: 1, t: a b}", "b", "1:13"},
		{"plain with anchor and tag", "t: &a !!str  hello {name}", "{name}", "1:20"},
		{"plain on its own line", "t:\n  hello {name}", "{name}", "2:9"},
		{"plain over lines: start", "t: hello\n  {name}", "{name}", "1:4"},
		{"plain over lines, first line", "t: hello {x}\n  more", "{x}", "1:4"},
		{"number", "t: 12.50", "5", "1:7"},
		{"single quotes", "t: 'hello {name}'", "{name}", "1:11"},
		{"single quotes, doubled", "t: 'it''s {name}'", "{name}", "1:11"},
		{"single quotes over lines, first line", "t: 'a {x}\n  b'", "{x}", "1:7"},
		{"single quotes over lines: start", "t: 'a\n  {x}'", "{x}", "1:4"},
		{"double quotes", `t: "hello {name}"`, "{name}", "1:11"},
		{"double quotes, escapes", `t: "a\tb\"c\\ {name}"`, "{name}", "1:15"},
		{"double quotes, hexadecimal escapes", `t: "\x41\u00e9\U0001F600\L\N{name}"`, "{name}", "1:29"},
		{"double quotes, escapes of JSON", `t: "\ud83d\ude00\/{name}"`, "{name}", "1:19"},
		{"after escapes of JSON", `{"u": "\ud83d\ude00", "t": "{name}"}`, "{name}", "1:29"},
		{"double quotes over lines: start", "t: \"a\n  {x}\"", "{x}", "1:4"},
		{"literal", "t: |\n  one\n  two {name}\n", "{name}", "3:7"},
		{"literal, first line", "t: |\n  {one}\n", "{one}", "2:3"},
		{"literal, stripped", "t: |-\n    one\n    {name}", "{name}", "3:5"},
		{"literal with a comment", "t: |+ # why\n  one\n\n  {name}\n\n", "{name}", "4:3"},
		{"literal, blank lines first", "t: |\n\n\n  {name}\n", "{name}", "4:3"},
		{"literal, deeper lines", "t: |\n  - a\n      {name}\n", "{name}", "3:7"},
		{"literal, given indentation", "t: |1\n   three\n {name}\n", "{name}", "3:2"},
		{"literal, carriage returns", "t: |\r\n  one\r\n  two {name}\r\n", "{name}", "3:7"},
		{"literal in a list", "u: x\nt: |\n one\n ñ {name}\n", "{name}", "4:4"},
		{"literal with an anchor", "t: &a |\n  one {name}\n", "{name}", "2:7"},
		{"folded: its start", "t: >\n  one\n  two {name}\n", "{name}", "1:4"},
		{"alias: the anchor", "u: &a hello {name}\nt: *a", "{name}", "1:13"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var v textFields
			if ds := spec.Decode(parseValid(t, test.in), &v); ds != nil {
				t.Fatalf("Decode(%q) = %v", test.in, ds)
			}
			offset := strings.Index(v.T.Value, test.find)
			got := strings.TrimPrefix(v.T.At(offset).String(), "f.yaml:")
			if offset < 0 || got != test.want {
				t.Errorf("%q: At(%d) = %s, want %s", test.in, offset, got, test.want)
			}
		})
	}
}

func TestText_At_InsideFile(t *testing.T) {
	for _, in := range []string{"t: abc", "t: 'abc'", `t: "abc"`, "t: |\n  abc\n", "t: >\n  abc\n", "t: ''", "t: |\n"} {
		var v textFields
		if ds := spec.Decode(parseValid(t, in), &v); ds != nil {
			t.Fatalf("Decode(%q) = %v", in, ds)
		}
		rows := strings.Split(in, "\n")
		for _, offset := range []int{-1, 0, 3, 4, 1000} {
			got := v.T.At(offset)
			if got.Line < 1 || got.Line > len(rows) || got.Col < 1 || got.Col > len(rows[got.Line-1])+1 {
				t.Errorf("%q: At(%d) = %v, outside of the file", in, offset, got)
			}
		}
	}
}

func TestText_WithoutFile(t *testing.T) {
	text := spec.Text{Value: "abc", Pos: spec.Pos{File: "f.yaml", Line: 2, Col: 3}}
	if got, want := text.At(2).String(), "f.yaml:2:3"; got != want {
		t.Errorf("At(2) = %s, want %s", got, want)
	}
}

func TestText_Errorf(t *testing.T) {
	var v textFields
	spec.Decode(parseValid(t, "t: |\n  Dear {nme},\n  hello\n"), &v)
	ds := spec.Diagnostics{
		v.T.Errorf(5, "template", "unknown name %q", "nme").WithHint("did you mean %q?", spec.Suggest("nme", []string{"name"})),
		v.T.Warnf(12, "style", "a greeting"),
	}
	want := `f.yaml:2:8: unknown name "nme" [template]
  |   Dear {nme},
  |        ^
hint: did you mean "name"?
f.yaml:3:3: warning: a greeting [style]
  |   hello
  |   ^
`
	if diff := cmp.Diff(want, formatText(t, ds)); diff != "" {
		t.Errorf("WriteText (-want +got):\n%s", diff)
	}
}
