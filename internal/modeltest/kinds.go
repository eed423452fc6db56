// Package modeltest tests all vendors' models: one suite that each of them passes, and helpers for
// each vendor's tests.
package modeltest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
	"agenthost/wing/anthropic"
	"agenthost/wing/gemini"
	"agenthost/wing/ollama"
	"agenthost/wing/openai"
)

// BuildModel builds app.yaml's model like the loader, with files by name.
func BuildModel(t *testing.T, src string, files map[string]string) (model.LLM, []string) {
	t.Helper()
	n, ds := spec.Parse("app.yaml", []byte(src))
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	kind, ok := AllKinds().Lookup(n.Get("provider").Value)
	if !ok {
		t.Fatalf("no provider %q", n.Get("provider").Value)
	}
	plan, ds := kind.Decode(n)
	if ds.HasErrors() {
		return nil, ds.Strings()
	}
	env := provider.Env{Lookup: Lookup(nil)}
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
		var problems spec.Diagnostics
		if !errors.As(err, &problems) {
			t.Fatal(err)
		}
		return nil, problems.Strings()
	}
	return llm, nil
}

// AllKinds lists all vendors' models, like the program agenthost.
func AllKinds() spec.Kinds[provider.Env, model.LLM] {
	return slices.Concat(
		spec.Kinds[provider.Env, model.LLM]{gemini.Kind(), anthropic.Kind(), gemini.VertexKind(anthropic.OnVertex)},
		openai.Kinds(), ollama.Kinds(),
		spec.Kinds[provider.Env, model.LLM]{provider.RouteKind(), gemini.ApigeeKind(openai.OnApigee), provider.ScriptedKind()},
	)
}
