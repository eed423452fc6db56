package provider_test

import (
	"context"
	"errors"
	"slices"
	"testing"

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
	kind, ok := allKinds().Lookup(n.Get("provider").Value)
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
		var problems spec.Diagnostics
		if !errors.As(err, &problems) {
			t.Fatal(err)
		}
		return nil, problems.Strings()
	}
	return llm, nil
}

// allKinds lists the models of all vendors, like the program agenthost.
func allKinds() spec.Kinds[provider.Env, model.LLM] {
	return slices.Concat(
		spec.Kinds[provider.Env, model.LLM]{provider.GeminiKind(), provider.AnthropicKind(), provider.VertexKind(provider.OnVertex)},
		provider.OpenAIKinds(), provider.OllamaKinds(),
		spec.Kinds[provider.Env, model.LLM]{provider.RouteKind(), provider.ApigeeKind(provider.BehindApigee), provider.ScriptedKind()},
	)
}
