package spec_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/spec"
)

// environment answers for kind env.
func environment(kind, name string) (string, bool) {
	if kind != "env" {
		return "", false
	}
	value, ok := map[string]string{
		"NAME": "ann", "PORT": "8080", "ON": "yes", "TRUE": "true", "EMPTY": "", "ZIP": "08540",
		"NESTED": "${env:NAME}", "LIST": "[a]", "MERGE": "<<",
	}[name]
	return value, ok
}

func TestInterpolate(t *testing.T) {
	tests := []struct {
		in   string
		want any
	}{
		{"v: ${env:NAME}", "ann"},
		{"v: hello ${env:NAME}, ${env:NAME}!", "hello ann, ann!"},
		{"v: ${env:NONE:-nobody}", "nobody"},
		{"v: ${env:NAME:-nobody}", "ann"},
		{"v: ${env:NONE:-}", nil},
		{"v: ${env:EMPTY}", nil},
		{"v: x${env:EMPTY}", "x"},
		{"v: ${env:EMPTY:-kept}", nil},
		{"v: ${env:NONE:-sqlite:///data/a.db}", "sqlite:///data/a.db"},
		{"v: ${env:PORT}", int64(8080)},
		{"v: ${env:NONE:-1.5}", 1.5},
		{"v: ${env:TRUE}", true},
		{"v: '${env:PORT}'", "8080"},
		{`v: "${env:PORT}"`, "8080"},
		{"v: |-\n  ${env:PORT}", "8080"},
		{"v: !!str ${env:PORT}", "8080"},
		{"v: 1${env:PORT}", "18080"},
		{"v: ${env:ZIP}", "08540"},
		{"v: ${env:LIST}", "[a]"},
		{"v: ${env:MERGE}", "<<"},
		{"v: ${env:NESTED}", "${env:NAME}"},
		{"v: [a, {b: '${env:NAME}'}]", []any{"a", map[string]any{"b": "ann"}}},
		{"v: {'${env:NAME}': 1}", map[string]any{"${env:NAME}": int64(1)}},
		{"v: $NAME ${NAME} $${x} ${ envy:NAME} $", "$NAME ${NAME} $${x} ${ envy:NAME} $"},
		{"v: ${${env:NAME}", "${ann"},
		{"v: cost $5, ${env:NAME}", "cost $5, ann"},
	}
	for _, test := range tests {
		n := parse(t, test.in)
		for range 2 {
			if ds := spec.Interpolate(n, environment); ds != nil {
				t.Errorf("Interpolate(%q) = %v", test.in, ds)
			}
		}
		if diff := cmp.Diff(test.want, n.Get("v").Any()); diff != "" {
			t.Errorf("Interpolate(%q) (-want +got):\n%s", test.in, diff)
		}
	}
}

func TestInterpolate_Problems(t *testing.T) {
	n := parse(t, `url: http://${env:HOST}:${env:PORT}/
key: ${secret:TOKEN}
text: |
  Hello
  ${env:NAME} and ${env:OTHER}
  ${file:prompts/a.md}
quoted: "\t${env:}"
open: ${env:NAME
bad: ${env:MY-NAME}
nested: ${env:A:-${env:B}}
`)
	ds := spec.Interpolate(n, environment)
	want := `f.yaml:1:13: the environment variable HOST is not set [env]
  | url: http://${env:HOST}:${env:PORT}/
  |             ^
hint: set HOST, or write ${env:HOST:-default}
f.yaml:2:6: ${secret:TOKEN} is not supported in this place yet [value]
  | key: ${secret:TOKEN}
  |      ^
f.yaml:5:19: the environment variable OTHER is not set [env]
  |   ${env:NAME} and ${env:OTHER}
  |                   ^
hint: set OTHER, or write ${env:OTHER:-default}
f.yaml:6:3: ${file:prompts/a.md} is not supported in this place yet [value]
  |   ${file:prompts/a.md}
  |   ^
f.yaml:7:12: a reference without a name [value]
  | quoted: "\t${env:}"
  |            ^
hint: write ${env:NAME} or ${env:NAME:-default}
f.yaml:8:7: the reference that starts here has no } [value]
  | open: ${env:NAME
  |       ^
hint: write ${env:NAME} or ${env:NAME:-default}
f.yaml:9:6: "MY-NAME" cannot be the name of an environment variable [value]
  | bad: ${env:MY-NAME}
  |      ^
hint: write ${env:NAME} or ${env:NAME:-default}
f.yaml:10:9: a default cannot hold another reference [value]
  | nested: ${env:A:-${env:B}}
  |         ^
hint: write ${env:NAME} or ${env:NAME:-default}
`
	if diff := cmp.Diff(want, printed(t, ds)); diff != "" {
		t.Errorf("Interpolate (-want +got):\n%s", diff)
	}
	if got, want := n.Get("url").Value, "http://${env:HOST}:8080/"; got != want {
		t.Errorf("url = %q, want %q", got, want)
	}
}

// TestInterpolate_OtherKinds lets a caller answer for secrets and files.
func TestInterpolate_OtherKinds(t *testing.T) {
	n := parse(t, "v: ${secret:a/b-c}")
	ds := spec.Interpolate(n, func(kind, name string) (string, bool) { return kind + " " + name, true })
	if got, want := n.Get("v").Value, "secret a/b-c"; got != want || ds != nil {
		t.Errorf("v = %q, %v, want %q", got, ds, want)
	}
}

// TestInterpolate_ThenDecode shows that a value from outside that looks like a
// number may still be text, and yes be true.
func TestInterpolate_ThenDecode(t *testing.T) {
	n := parse(t, "text: ${env:PORT}\nint: ${env:PORT}\nbool: ${env:ON}\nwhen: ${env:TRUE}\ntone: ${env:EMPTY}\n")
	spec.Interpolate(n, environment)
	var got everything
	if ds := spec.Decode(n, &got); ds != nil {
		t.Fatalf("Decode = %v", ds)
	}
	want := defaults()
	want.Text, want.Int, want.Bool, want.When.Value = "8080", 8080, true, "true"
	if diff := cmp.Diff(want, got, compareDecoded); diff != "" {
		t.Errorf("Decode (-want +got):\n%s", diff)
	}
}

// TestInterpolate_KeepsSecrets has messages name the reference, and not what it
// stands for.
func TestInterpolate_KeepsSecrets(t *testing.T) {
	n := parse(t, "tone: ${secret:a}\nint8: ${secret:n}\nint: '${secret:n}'\ntime: ${secret:a}\nsize: ${secret:a}\ntexts: [\"${secret:a}\"]\nbool: ${secret:a}\n")
	spec.Interpolate(n, func(_, name string) (string, bool) { return map[string]string{"a": "wrm", "n": "4711"}[name], true })
	var v everything
	want := `f.yaml:1:7: "${secret:a}" is not one of: warm, dry [enum]
  | tone: ${secret:a}
  |       ^
f.yaml:2:7: ${secret:n} is not between -128 and 127 [limit]
  | int8: ${secret:n}
  |       ^
f.yaml:3:6: want a whole number, got text [type]
  | int: '${secret:n}'
  |      ^
hint: a reference in quotes is text: write it without them, on a line of its own
f.yaml:4:7: "${secret:a}" cannot be read [value]
  | time: ${secret:a}
  |       ^
f.yaml:5:7: want a size, got text [type]
  | size: ${secret:a}
  |       ^
hint: write 10MiB, 4KiB, 1GB or a number of bytes
f.yaml:7:7: want true or false, got text [type]
  | bool: ${secret:a}
  |       ^
`
	if diff := cmp.Diff(want, printed(t, spec.Decode(n, &v))); diff != "" {
		t.Errorf("Decode (-want +got):\n%s", diff)
	}
}

// TestInterpolate_KeepsPlaces finds the places of what stands before, in and
// after a reference.
func TestInterpolate_KeepsPlaces(t *testing.T) {
	n := parse(t, "t: |\n  {a} ${env:NAME} {b}\n  ${env:NONE:-x} {c}\n")
	spec.Interpolate(n, environment)
	var v texts
	spec.Decode(n, &v)
	tests := []struct{ find, want string }{
		{"{a}", "f.yaml:2:3"},
		{"nn", "f.yaml:2:7"},
		{"{b}", "f.yaml:2:19"},
		{"{c}", "f.yaml:3:18"},
	}
	for _, test := range tests {
		offset := strings.Index(v.T.Value, test.find)
		if got := v.T.At(offset).String(); got != test.want {
			t.Errorf("At(%q) = %s, want %s", test.find, got, test.want)
		}
	}
}
