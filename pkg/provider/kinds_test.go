package provider_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// buildModel builds a model of app.yaml like the loader, with files by name.
func buildModel(t *testing.T, src string, files map[string]string) (model.LLM, []string) {
	t.Helper()
	n, ds := spec.Parse("app.yaml", []byte(src))
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	kind, ok := provider.Kinds().Lookup(n.Get("provider").Value)
	if !ok {
		t.Fatalf("no provider %q", n.Get("provider").Value)
	}
	plan, ds := kind.Decode(n)
	if ds.HasErrors() {
		return nil, ds.Strings()
	}
	env := provider.Env{Lookup: lookup(nil)}
	if files != nil {
		env.File = func(_ context.Context, path spec.Text) (*spec.Node, spec.Diagnostics) {
			src, ok := files[path.Value]
			if !ok {
				return nil, spec.Diagnostics{path.Errorf(0, "file", "no such file")}
			}
			return spec.Parse(path.Value, []byte(src))
		}
	}
	llm, err := plan.Build(t.Context(), env)
	if err != nil {
		return nil, err.(spec.Diagnostics).Strings()
	}
	return llm, nil
}

func TestKinds(t *testing.T) {
	files := map[string]string{"demo.yaml": "- text: hi"}
	tests := []struct{ name, src, want string }{
		{"gemini without a key", "{provider: gemini, model: gemini-x, retry: {codes: [429, 503], attempts: 4}}", "gemini-x"},
		{"gemini elsewhere", "{provider: gemini, model: gemini-x, base_url: 'http://127.0.0.1:1', api_key: k}", "gemini-x"},
		{"openai elsewhere", "{provider: openai_compatible, model: qwen, base_url: 'http://127.0.0.1:1/v1', headers: {X-Key: k}, fallback: [a]}", "qwen"},
		{"openai", "{provider: openai_compatible, model: gpt-x}", "gpt-x"},
		{"scripted with retries", "{provider: scripted, script: demo.yaml, retry: {attempts: 2}}", "scripted"},
		{"scripted", "{provider: scripted, script: demo.yaml}", "scripted"},
		{"scripted with a name", "{provider: scripted, script: demo.yaml, model: demo}", "demo"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			llm, problems := buildModel(t, tt.src, files)
			if problems != nil {
				t.Fatalf("problems: %q", problems)
			}
			if got := llm.Name(); got != tt.want {
				t.Errorf("Name() = %s, want %s", got, tt.want)
			}
		})
	}
}

func TestKindsProblems(t *testing.T) {
	files := map[string]string{"bad.yaml": "- when: xyzzy\n  text: hi\n- {}"}
	tests := []struct {
		name, src string
		files     map[string]string
		want      []string
	}{
		{"no model", "{provider: gemini}", files, []string{`app.yaml:1:1: missing field "model" [required]`}},
		{
			"base_url", "{provider: gemini, model: m, base_url: example.com}", files,
			[]string{"app.yaml:1:40: base_url must be a URL such as https://example.com [value]"},
		},
		{
			"retry", "{provider: gemini, model: m, retry: {codes: [200, 429], attempts: 0}}", files,
			[]string{
				"app.yaml:1:46: 200 is not an error status, must be 400 to 599 [value]",
				"app.yaml:1:67: attempts must be at least 1, which disables retries [value]",
			},
		},
		{
			"openai", "{provider: openai_compatible, base_url: x, retry: {attempts: 0}}", files,
			[]string{
				`app.yaml:1:1: missing field "model" [required]`,
				"app.yaml:1:41: base_url must be a URL such as https://example.com [value]",
				"app.yaml:1:62: attempts must be at least 1, which disables retries [value]",
			},
		},
		{"no script", "{provider: scripted}", files, []string{`app.yaml:1:1: missing field "script" [required]`}},
		{"missing script", "{provider: scripted, script: x.yaml}", files, []string{"app.yaml:1:30: no such file [file]"}},
		{"no files", "{provider: scripted, script: x.yaml}", nil, []string{"app.yaml:1:30: there are no files to read x.yaml from [script]"}},
		{"script with problems", "{provider: scripted, script: bad.yaml}", files, []string{
			"bad.yaml:1:9: unknown name xyzzy [expression]",
			"bad.yaml:3:3: an entry requires text, json, calls, thought, parts, finish or error [script]",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, got := buildModel(t, tt.src, tt.files)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
