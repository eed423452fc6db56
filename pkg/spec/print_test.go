package spec_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/spec"
)

// Parsing printed YAML returns the same tree.
func TestPrint(t *testing.T) {
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
