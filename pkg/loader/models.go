package loader

import (
	"context"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// geminiName is how names of models that Gemini's service has begin.
var geminiName = regexp.MustCompile(`^(gemini|gemma|learnlm|models/|projects/|publishers/|tunedModels/)`)

// buildModels builds every model of app.yaml, used or not: building finds the
// problems of their settings and connects to nothing.
func (j *job) buildModels(ctx context.Context) {
	for name, p := range sorted(j.names.models) {
		if m := j.buildModel(ctx, name, p.node); m != nil {
			j.models[name] = m
		}
	}
}

func (j *job) buildModel(ctx context.Context, name string, n *spec.Node) model.LLM {
	if n.Kind != spec.Mapping {
		return nil // told already, when app.yaml was decoded
	}
	at := n.Get("provider")
	if at == nil {
		j.report(n.Errorf("required", "a model needs a provider: %s", strings.Join(j.loader.providers.Names(), " or ")))
		return nil
	}
	kind, ok := j.loader.providers.Lookup(at.Value)
	if !ok {
		j.report(unknown(at, "provider %s", at.Value, j.loader.providers.Names()))
		return nil
	}
	plan, ds := kind.Decode(n)
	ds = append(ds, checkConfig(plan.Config, n)...)
	j.report(ds...)
	if ds.HasErrors() {
		return nil
	}
	env := j.providerEnv()
	env.Name = name
	m, err := plan.Build(ctx, env)
	if err != nil {
		j.reportBuild(n, "model", err)
		return nil
	}
	return j.loader.opts.Wrap(m)
}

func (j *job) providerEnv() provider.Env {
	return provider.Env{Lookup: j.src.peek, File: j.modelFile, HTTP: j.loader.opts.HTTP, Logger: j.loader.opts.Logger}
}

// modelFile reads a file that a model's settings name, such as a script.
func (j *job) modelFile(_ context.Context, at spec.Text) (*spec.Node, spec.Diagnostics) {
	file := path.Clean(at.Value)
	if leadsOut(at.Value) {
		return nil, spec.Diagnostics{at.Errorf(0, "path", "%s leads out of the app's folder", at.Value)}
	}
	if !j.src.exists(file) {
		return nil, spec.Diagnostics{at.Errorf(0, "file", "there is no file %s", j.src.display(file))}
	}
	return j.src.document(file)
}

// modelOf finds the model that an agent names: one of models, else
// provider/model, else a model of Gemini's. It is nil when the agent names
// none, or names one whose settings are wrong.
func (j *job) modelOf(_ context.Context, name spec.Text) model.LLM {
	if j.loader.opts.Model != nil {
		return j.loader.opts.Model
	}
	if name.Value == "" {
		return nil
	}
	if _, ok := j.names.models[name.Value]; ok {
		return j.models[name.Value]
	}
	gemini := strings.TrimPrefix(name.Value, "gemini/")
	if !geminiName.MatchString(gemini) {
		j.doubtModel(name)
	}
	return j.gemini(gemini)
}

// doubtModel tells of a name that is none of the app's models and does not look
// like one of Gemini's. It is an error where it is plainly a slip.
func (j *job) doubtModel(name spec.Text) {
	if j.appBroken || strings.Contains(name.Value, "${") {
		return // what is wrong is told already
	}
	vendor, _, qualified := strings.Cut(name.Value, "/")
	near := spec.Suggest(name.Value, slices.Collect(maps.Keys(j.names.models)))
	switch {
	case qualified:
		j.report(name.Errorf(0, "model", "there is no provider %s", vendor).
			WithHint("name the model under models: of app.yaml, with a provider: %s", strings.Join(j.loader.providers.Names(), " or ")))
	case near != "":
		j.report(name.Errorf(0, "model", "%s is none of the app's models", name.Value).WithHint("did you mean %q?", near))
	default:
		j.report(name.Warnf(0, "model", "%s is none of the app's models: it is taken for a model of Gemini's", name.Value))
	}
}

func (j *job) gemini(name string) model.LLM {
	if m, ok := j.models["gemini/"+name]; ok {
		return m
	}
	env := j.providerEnv()
	m := j.loader.opts.Wrap(provider.NewGemini(name, &provider.GeminiOptions{Lookup: env.Lookup, HTTP: env.HTTP, Logger: env.Logger}))
	j.models["gemini/"+name] = m
	return m
}

// defaultModel serves agents with no model of their own and none above.
func (j *job) defaultModel() model.LLM {
	if j.loader.opts.Model != nil {
		return j.loader.opts.Model
	}
	return j.gemini(DefaultModel)
}
