package spec_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/spec"
)

// The examples of RFC 7396, appendix A.
func TestPatch(t *testing.T) {
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
