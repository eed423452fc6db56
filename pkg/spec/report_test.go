package spec_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/spec"
)

// sampleDiagnostics uses every feature in the output formats.
func sampleDiagnostics() spec.Diagnostics {
	n, _ := spec.Parse("my app/a,b.yaml", []byte("é: 1\n"))
	key := n.Entries[0].Key
	return spec.Diagnostics{
		key.Errorf("unknown-field", "unknown field %q", "é").WithHint("did you mean %q?", "e").WithFix("é", "e"),
		key.Warnf("unused", "100%% of it\nis unused"),
		{Pos: spec.Pos{File: "/apps/b"}, Rule: "app-name", Message: "no name"},
	}
}

func TestWriteGitHub(t *testing.T) {
	var b strings.Builder
	if err := sampleDiagnostics().WriteGitHub(&b); err != nil {
		t.Fatal(err)
	}
	want := `::error file=my app/a%2Cb.yaml,line=1,col=1,title=unknown-field::unknown field "é"%0Adid you mean "e"?
::warning file=my app/a%2Cb.yaml,line=1,col=1,title=unused::100%25 of it%0Ais unused
::error file=/apps/b,title=app-name::no name
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("WriteGitHub (-want +got):\n%s", diff)
	}
}

func TestWriteSARIF(t *testing.T) {
	var b strings.Builder
	if err := sampleDiagnostics().WriteSARIF(&b, "1.0"); err != nil {
		t.Fatal(err)
	}
	compareGolden(t, "log.sarif", b.String())
}

// ApplyFixes finds fixes by line and column for any line ending, and skips fixes whose
// old text is not there.
func TestApplyFixes(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		fixes    []spec.Fix
		want     string
		done     int
	}{
		{"one", "a: 1\nbb: 2\n", []spec.Fix{{2, 1, "bb", "c"}}, "a: 1\nc: 2\n", 1},
		{"two in reverse order", "a b c", []spec.Fix{{1, 5, "c", "CC"}, {1, 1, "a", "AA"}}, "AA b CC", 2},
		{"line endings", "x\r\ny\rz\u2028w\n", []spec.Fix{{2, 1, "y", "Y"}, {3, 1, "z", "Z"}, {4, 1, "w", "W"}}, "x\r\nY\rZ\u2028W\n", 3},
		{"columns are characters", "é日: x", []spec.Fix{{1, 5, "x", "y"}}, "é日: y", 1},
		{"a byte order mark", "\uFEFFa: 1", []spec.Fix{{1, 1, "a", "b"}}, "\uFEFFb: 1", 1},
		{"overlapping", "abc", []spec.Fix{{1, 1, "ab", "x"}, {1, 2, "bc", "y"}}, "xc", 1},
		{"other text", "abc", []spec.Fix{{1, 1, "b", "x"}, {2, 1, "a", "x"}, {1, 9, "a", "x"}, {0, 1, "a", "x"}}, "abc", 0},
		{"none", "abc", nil, "abc", 0},
	} {
		got, done := spec.ApplyFixes([]byte(tt.in), tt.fixes)
		if string(got) != tt.want || len(done) != tt.done {
			t.Errorf("%s: ApplyFixes = %q, %d done, want %q, %d", tt.name, got, len(done), tt.want, tt.done)
		}
	}
}

// Parse offers a fix for unquoted text, except where its extent is ambiguous.
func TestParse_Fixes(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"{a: string?}", `{a: "string?"}`},
		{"{a: [string?]}", `{a: ["string?"]}`},
		{"{a: 1, b: x ?? 0, c: 2}", `{a: 1, b: "x ?? 0", c: 2}`},
		{"{a: max(x, 1) ?? 0}", "{a: max(x, 1) ?? 0}"},
		{"{a: ${env:X}}", `{a: "${env:X}"}`},
		{"{a: Bearer ${env:X}, b: 1}", `{a: "Bearer ${env:X}", b: 1}`},
		{`{a: "x", b: y?}`, `{a: "x", b: "y?"}`},
		{`{a: it's, b: y?}`, `{a: it's, b: y?}`},
		{"{a: x? # y?}", "{a: x? # y?}"},
		{"{a: string?,\n b: c}", "{a: \"string?\",\n b: c}"},
		{"{a: string?", "{a: string?"},
	} {
		_, ds := spec.Parse("f", []byte(tt.in))
		var fixes []spec.Fix
		for _, d := range ds {
			fixes = append(fixes, d.Fix)
		}
		if got, _ := spec.ApplyFixes([]byte(tt.in), fixes); string(got) != tt.want {
			t.Errorf("fixed %s = %s, want %s", tt.in, got, tt.want)
		}
	}
}

// Parsing printed YAML returns the same tree.
func TestPrintParsesToSameTree(t *testing.T) {
	for _, src := range []string{
		"a: 1\nb: [x, {c: d, e: [f, [g, h]]}, []]\nm: {}\nn: null\n",
		"text: |\n  one\n\n  two {x}\nother: |-\n  a\n  b\n",
		"odd: [\"yes\", \"1\", \"null\", \"~\", \"- a\", \"a: b\", \"# c\", \" x \", \"\", \"a\\nb \\nc\", \"\\tx\\ny\", \"{a}\", \"*\", \"it's\"]\n",
		"numbers: [1, 1.5, true, 0x10, -3]\n\"key: odd\": 1\n\"1\": 2\n",
		"just text\n", "[]\n", "- - a\n  - b\n- c: d\n  e: f\n",
	} {
		n := parseValid(t, src)
		for _, origins := range []bool{false, true} {
			var b strings.Builder
			if err := spec.Print(&b, n, origins); err != nil {
				t.Fatal(err)
			}
			again, ds := spec.Parse("f.yaml", []byte(b.String()))
			if len(ds) > 0 {
				t.Errorf("Print(%q) = %s\n%v", src, &b, ds)
			}
			if diff := cmp.Diff(n.Any(), again.Any()); diff != "" {
				t.Errorf("Print(%q) = %s (-want +got):\n%s", src, &b, diff)
			}
		}
	}
}

// Secrets, and fields that may contain one, are redacted.
func TestPrint_Redacts(t *testing.T) {
	n := parseValid(t, "key: plain\nheader: Bearer ${env:NAME} ${secret:PORT}\nname: ${env:NAME}\n")
	spec.Interpolate(n, func(kind, name string) (string, error) { return lookupTestEnv("env", name) })
	var v struct {
		Key    spec.Secret `yaml:"key" secret:"true"`
		Header spec.Secret `yaml:"header"`
		Name   spec.Text   `yaml:"name"`
	}
	if ds := spec.Decode(n, &v); ds != nil {
		t.Fatal(ds)
	}
	var b strings.Builder
	if err := spec.Print(&b, n, true); err != nil {
		t.Fatal(err)
	}
	want := "key: \"***\"  # f.yaml:1\nheader: \"Bearer *** ***\"  # f.yaml:2\nname: ann  # f.yaml:3\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("Print (-want +got):\n%s", diff)
	}
}
