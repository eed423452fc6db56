package spec_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/spec"
)

// lookupTestEnv resolves env variables.
func lookupTestEnv(kind, name string) (string, error) {
	if kind == "file" {
		return "", errors.New("file not found: " + name)
	}
	value, ok := map[string]string{
		"NAME": "ann", "PORT": "8080", "ON": "yes", "TRUE": "true", "EMPTY": "", "ZIP": "08540",
		"NESTED": "${env:NAME}", "LIST": "[a]", "MERGE": "<<",
	}[name]
	if !ok {
		return "", spec.ErrUnset
	}
	return value, nil
}

func TestInterpolateReferences(t *testing.T) {
	tests := []struct {
		in   string
		want any
	}{
		{"v: ${env:NAME}", "ann"},
		{"v: hello ${env:NAME}, ${env:NAME}!", "hello ann, ann!"},
		{"v: ${env:NONE:-guest}", "guest"},
		{"v: ${env:NAME:-guest}", "ann"},
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
		n := parseValid(t, test.in)
		for range 2 {
			if ds := spec.Interpolate(n, lookupTestEnv); ds != nil {
				t.Errorf("Interpolate(%q) = %v", test.in, ds)
			}
		}
		if diff := cmp.Diff(test.want, n.Get("v").Any()); diff != "" {
			t.Errorf("Interpolate(%q) (-want +got):\n%s", test.in, diff)
		}
	}
}

func TestInterpolate_Problems(t *testing.T) {
	n := parseValid(t, `url: http://${env:HOST}:${env:PORT}/
key: ${secret:TOKEN}
other: ${secret:../TOKEN}
text: |
  Hello
  ${env:NAME} and ${env:OTHER}
  ${file:prompts/a.md}
quoted: "\t${env:}"
open: ${env:NAME
bad: ${env:MY-NAME}
nested: ${env:A:-${env:B}}
`)
	ds := spec.Interpolate(n, lookupTestEnv)
	want := `f.yaml:1:13: environment variable HOST is not set [env]
  | url: http://${env:HOST}:${env:PORT}/
  |             ^
hint: set HOST, or write ${env:HOST:-default}
f.yaml:2:6: secret TOKEN is not set or is empty [secret]
  | key: ${secret:TOKEN}
  |      ^
hint: create the file TOKEN in the --secrets directory, or set the environment variable TOKEN
f.yaml:3:8: invalid secret name "../TOKEN" [value]
  | other: ${secret:../TOKEN}
  |        ^
hint: write ${secret:NAME}
f.yaml:6:19: environment variable OTHER is not set [env]
  |   ${env:NAME} and ${env:OTHER}
  |                   ^
hint: set OTHER, or write ${env:OTHER:-default}
f.yaml:7:3: file not found: prompts/a.md [file]
  |   ${file:prompts/a.md}
  |   ^
f.yaml:8:12: reference has no name [value]
  | quoted: "\t${env:}"
  |            ^
hint: write ${env:NAME} or ${env:NAME:-default}
f.yaml:9:7: reference is not closed: missing } [value]
  | open: ${env:NAME
  |       ^
hint: write ${env:NAME} or ${env:NAME:-default}
f.yaml:10:6: invalid environment variable name "MY-NAME" [value]
  | bad: ${env:MY-NAME}
  |      ^
hint: write ${env:NAME} or ${env:NAME:-default}
f.yaml:11:9: a default cannot contain another reference [value]
  | nested: ${env:A:-${env:B}}
  |         ^
hint: write ${env:NAME} or ${env:NAME:-default}
`
	if diff := cmp.Diff(want, formatText(t, ds)); diff != "" {
		t.Errorf("Interpolate (-want +got):\n%s", diff)
	}
	if got, want := n.Get("url").Value, "http://${env:HOST}:8080/"; got != want {
		t.Errorf("url = %q, want %q", got, want)
	}
}

// A file's content is a string, even if it looks like a number.
func TestInterpolate_File(t *testing.T) {
	n := parseValid(t, "v: ${file:a/b.md}")
	ds := spec.Interpolate(n, func(kind, name string) (string, error) { return "12", nil })
	if got := n.Get("v").Any(); got != "12" || ds != nil {
		t.Errorf("v = %q, %v, want the string 12", got, ds)
	}
}

// A replaced value that looks like a number may be decoded as a string, and yes as a
// boolean.
func TestInterpolate_ThenDecode(t *testing.T) {
	n := parseValid(t, "text: ${env:PORT}\nint: ${env:PORT}\nbool: ${env:ON}\nwhen: ${env:TRUE}\ntone: ${env:EMPTY}\n")
	spec.Interpolate(n, lookupTestEnv)
	var got allTypes
	if ds := spec.Decode(n, &got); ds != nil {
		t.Fatalf("Decode = %v", ds)
	}
	want := defaultAllTypes()
	want.Text, want.Int, want.Bool, want.When.Value = "8080", 8080, true, "true"
	if diff := cmp.Diff(want, got, compareDecoded); diff != "" {
		t.Errorf("Decode (-want +got):\n%s", diff)
	}
}

// Messages show the reference, not the secret.
func TestInterpolate_SecretsInMessages(t *testing.T) {
	n := parseValid(t, "tone: ${secret:a}\nint8: ${secret:n}\ntexts: [\"${secret:a}\"]\n")
	spec.Interpolate(n, lookupTestSecret)
	var v allTypes
	want := `f.yaml:1:7: "${secret:a}" is not one of: warm, dry [enum]
  | tone: ${secret:a}
  |       ^
f.yaml:2:7: expected an integer, got a string [type]
  | int8: ${secret:n}
  |       ^
`
	if diff := cmp.Diff(want, formatText(t, spec.Decode(n, &v))); diff != "" {
		t.Errorf("Decode (-want +got):\n%s", diff)
	}
}

func lookupTestSecret(_, name string) (string, error) {
	return map[string]string{"a": "wrm", "n": "4711"}[name], nil
}

// All formatted forms of a secret are redacted; only Reveal returns its text.
func TestSecretRedactedWhenFormatted(t *testing.T) {
	n := parseValid(t, "v: Bearer ${secret:a}-${secret:n}.")
	if ds := spec.Interpolate(n, lookupTestSecret); ds != nil {
		t.Fatalf("Interpolate = %v", ds)
	}
	var v struct {
		V spec.Secret `yaml:"v"`
	}
	if ds := spec.Decode(n, &v); ds != nil {
		t.Fatalf("Decode = %v", ds)
	}
	if got, want := v.V.Reveal(), "Bearer wrm-4711."; got != want {
		t.Errorf("Reveal() = %q, want %q", got, want)
	}
	asJSON, err := json.Marshal(v.V)
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []string{
		fmt.Sprint(v.V), fmt.Sprintf("%v %+v %#v %s", v.V, v.V, v.V, v.V), fmt.Sprintf("%q", v.V), string(asJSON),
		slog.Any("key", v.V).String(), v.V.Value, n.Get("v").Value, fmt.Sprint(n.Any()),
	} {
		if strings.Contains(got, "wrm") || strings.Contains(got, "4711") || !strings.Contains(got, "Bearer ***-***.") {
			t.Errorf("printed as %q, want it redacted", got)
		}
	}
	if got := v.V.At(len("Bearer ***-")); got.Col != 23 {
		t.Errorf("position of the second secret = %s, want column 23", got)
	}
}

// A secret that was decoded as a plain text is reported.
func TestCheckSecrets(t *testing.T) {
	n := parseValid(t, "key: ${secret:a}\ntext: Say ${secret:a}\n")
	spec.Interpolate(n, lookupTestSecret)
	var v struct {
		Key  spec.Secret `yaml:"key"`
		Text spec.Text   `yaml:"text"`
	}
	if ds := spec.Decode(n, &v); ds != nil {
		t.Fatalf("Decode = %v", ds)
	}
	want := `f.yaml:2:11: secrets are not allowed here: users or models would see them [secret]
  | text: Say ${secret:a}
  |           ^
hint: use secrets only in connections, in the api_key or headers of a model, in the headers or query of an http tool, in the auth or headers of an openapi tool, or in the headers or env of an mcp tool
`
	if diff := cmp.Diff(want, formatText(t, spec.CheckSecrets(n))); diff != "" {
		t.Errorf("CheckSecrets (-want +got):\n%s", diff)
	}
}

// Positions before, in and after a reference are those in the file.
func TestInterpolate_Positions(t *testing.T) {
	n := parseValid(t, "t: |\n  {a} ${env:NAME} {b}\n  ${env:NONE:-x} {c}\n")
	spec.Interpolate(n, lookupTestEnv)
	var v textFields
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

// The examples in RFC 7396, appendix A.
func TestPatchRFC7396Examples(t *testing.T) {
	for _, tt := range []struct{ base, patch, want string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	} {
		got, err := json.Marshal(spec.Patch(parseValid(t, tt.base), parseValid(t, tt.patch)).Any())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, string(got)); diff != "" {
			t.Errorf("Patch(%s, %s) (-want +got):\n%s", tt.base, tt.patch, diff)
		}
	}
}

// Each value keeps the position in its file.
func TestPatch_Positions(t *testing.T) {
	base, _ := spec.Parse("app.yaml", []byte("run:\n  a: 1\n  b: 2\n"))
	patch, _ := spec.Parse("app.prod.yaml", []byte("run: {b: 3, c: 4}\n"))
	run := spec.Patch(base, patch).Get("run")
	for key, want := range map[string]string{"a": "app.yaml:2:6", "b": "app.prod.yaml:1:10", "c": "app.prod.yaml:1:16"} {
		if got := run.Get(key).Pos.String(); got != want {
			t.Errorf("position of %s = %s, want %s", key, got, want)
		}
	}
	if base.Get("run").Get("c") != nil {
		t.Error("Patch changed the base")
	}
}
