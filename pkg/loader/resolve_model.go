package loader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// geminiNamePattern matches the model names of Gemini's service.
var geminiNamePattern = regexp.MustCompile(`^(gemini|gemma|learnlm|models/|projects/|publishers/|tunedModels/)`)

// buildModels builds every declared model, used or not, to validate its settings. It
// opens no connections. Models from includes are built when they are used.
func (j *job) buildModels(ctx context.Context) {
	for name, p := range sortedParts(j.names.models) {
		if !p.shared {
			j.buildDeclaredModel(ctx, name)
		}
	}
}

// buildDeclaredModel builds a declared model with its fallbacks. It returns nil if the
// settings are invalid.
func (j *job) buildDeclaredModel(ctx context.Context, name string) model.LLM {
	return j.buildPartModel(ctx, name, j.names.models[name])
}

func (j *job) buildPartModel(ctx context.Context, name string, p part) model.LLM {
	if m, ok := j.models[name]; ok {
		return m
	}
	b := j.buildBareModel(ctx, name, p)
	if b.model == nil {
		return nil
	}
	others := j.resolveFallbacks(ctx, name, b.fallbacks)
	j.models[name] = j.loader.opts.WrapModel(provider.Fallback(b.model, others, j.loader.opts.Logger))
	return j.models[name]
}

func (j *job) buildBareModel(ctx context.Context, name string, p part) bareModel {
	b, ok := j.bareModels[name]
	if !ok {
		j.markUsed(p)
		b.model, b.fallbacks = j.buildModel(ctx, name, p.node)
		j.bareModels[name] = b
	}
	return b
}

// resolveFallbacks returns the fallback models of a model. The fallbacks of a fallback
// are ignored, so there are no cycles.
func (j *job) resolveFallbacks(ctx context.Context, name string, refs []spec.Text) []model.LLM {
	var others []model.LLM
	for _, ref := range refs {
		p, named := j.names.models[ref.Value]
		switch {
		case ref.Value == name:
			j.report(ref.Errorf(0, "model", "model %s cannot be its own fallback", name))
		case named:
			if b := j.buildBareModel(ctx, ref.Value, p); b.model != nil {
				others = append(others, b.model)
			}
		default:
			if m := j.resolveModelName(ctx, ref); m != nil {
				others = append(others, m)
			}
		}
	}
	return others
}

func (j *job) buildModel(ctx context.Context, name string, n *spec.Node) (model.LLM, []spec.Text) {
	if n.Kind != spec.Mapping {
		return nil, nil // already reported when the document was decoded
	}
	at := n.Get("provider")
	if at == nil {
		j.report(n.Errorf("required", "a model requires a provider: %s", strings.Join(j.loader.providers.Names(), " or ")))
		return nil, nil
	}
	kind, ok := j.loader.providers.Lookup(at.Value)
	if !ok {
		j.report(unknownNameError(at, "provider %s", at.Value, j.loader.providers.Names()))
		return nil, nil
	}
	plan, ds := kind.Decode(n)
	ds = append(ds, checkConfig(plan.Config, n)...)
	if e, ok := modelEndpoint(plan.Config, j.newModelEnv(name)); ok && !ds.HasErrors() {
		ds = append(ds, j.checkEndpoint(e, at.Text())...)
	}
	j.report(ds...)
	if ds.HasErrors() {
		return nil, nil
	}
	m, err := j.acquireModel(ctx, plan, name)
	if err != nil {
		j.reportBuildError(n, "model", err)
		return nil, nil
	}
	var fallbacks []spec.Text
	if f, ok := plan.Config.(interface{ Fallbacks() []spec.Text }); ok {
		fallbacks = f.Fallbacks()
	}
	return m, fallbacks
}

// acquireModel builds a model from its settings. If the model reaches a server, and its
// settings and .env are unchanged, it returns the model of the previous revision with
// its connections, login and caches.
func (j *job) acquireModel(ctx context.Context, plan spec.Plan[provider.Env, model.LLM], name string) (model.LLM, error) {
	env := j.newModelEnv(name)
	endpoint, ok := modelEndpoint(plan.Config, env)
	if !ok {
		env.File = j.readModelFile
		return plan.Build(ctx, env)
	}
	key := hashResourceKey("model", j.src.name, name, plan.Kind.Name, textOf(plan.Node), fmt.Sprint(j.src.dotenv))
	m, release, err := acquireResource(j.loader.resources, key, func() (model.LLM, func() error, error) {
		client, end := j.acquireModelClient(endpoint)
		env.HTTP = client
		m, err := plan.Build(ctx, env)
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		return m, end, nil
	})
	if err == nil {
		j.closers = append(j.closers, release)
	}
	return m, err
}

// newModelEnv returns the environment of models: the host's variables, which providers
// may read without a grant to the app, and the variables of the app.
func (j *job) newModelEnv(name string) provider.Env {
	return provider.Env{Name: name, Lookup: j.src.env, App: j.src.dotenv, Logger: j.loader.opts.Logger}
}

// readModelFile reads a file of a model's settings, such as a script.
func (j *job) readModelFile(_ context.Context, at spec.Text) (*spec.Node, spec.Diagnostics) {
	file := path.Clean(at.Value)
	if escapesFolder(at.Value) {
		return nil, spec.Diagnostics{addSlashHint(at.Errorf(0, "path", "%s is outside of the app folder", at.Value), at.Value)}
	}
	if !j.src.fileExists(file) {
		return nil, spec.Diagnostics{at.Errorf(0, "file", "%s", j.src.missingFileMessage(file))}
	}
	return j.src.readDocument(file)
}

// resolveModel resolves the model name of an agent: a declared model, provider/model,
// or a Gemini model. It returns nil if the agent names no model, or one with invalid
// settings.
func (j *job) resolveModel(ctx context.Context, name spec.Text) model.LLM {
	if j.loader.opts.Model != nil {
		return j.loader.opts.Model
	}
	if name.Value == "" {
		return nil
	}
	if _, ok := j.names.models[name.Value]; ok {
		return j.buildDeclaredModel(ctx, name.Value)
	}
	if m, ok := j.models[name.Value]; ok {
		return m
	}
	m := j.resolveModelName(ctx, name)
	if m != nil {
		m = j.loader.opts.WrapModel(m)
		j.models[name.Value] = m
	}
	return m
}

// resolveModelName builds a model that is not under models, from provider/model or from
// the name alone.
func (j *job) resolveModelName(ctx context.Context, name spec.Text) model.LLM {
	vendor, rest, qualified := strings.Cut(name.Value, "/")
	if kind, ok := j.loader.providers.Lookup(vendor); ok && qualified && rest != "" {
		return j.buildProviderModel(ctx, kind, name, rest)
	}
	if !geminiNamePattern.MatchString(name.Value) {
		j.reportUnknownModel(name)
	}
	return j.buildGeminiModel(ctx, name)
}

// buildProviderModel builds a model that has only a name.
func (j *job) buildProviderModel(ctx context.Context, kind spec.Kind[provider.Env, model.LLM], name spec.Text, rest string) model.LLM {
	plan, ds := kind.Decode(name.Mapping("model", rest))
	if ds.HasErrors() {
		j.report(name.Errorf(0, "model", "provider %s requires settings", kind.Name).
			WithHint("declare the model under models in app.yaml, and refer to it by name"))
		return nil
	}
	if e, ok := modelEndpoint(plan.Config, j.newModelEnv("")); ok && name.Pos.Line > 0 {
		j.report(j.checkEndpoint(e, name)...)
	}
	m, err := j.acquireModel(ctx, plan, "")
	if err != nil {
		j.report(name.Errorf(0, "model", "%s", err))
		return nil
	}
	return m
}

// reportUnknownModel reports a name that is not declared and does not look like a
// Gemini model. It is an error if the name is similar to a declared one.
func (j *job) reportUnknownModel(name spec.Text) {
	if j.appBroken || strings.Contains(name.Value, "${") {
		return // already reported
	}
	vendor, _, qualified := strings.Cut(name.Value, "/")
	near := spec.Suggest(name.Value, slices.Collect(maps.Keys(j.names.models)))
	switch {
	case qualified:
		j.report(name.Errorf(0, "model", "unknown provider %q", vendor).
			WithHint("declare the model under models in app.yaml with one of the providers %s", strings.Join(j.loader.providers.Names(), ", ")))
	case near != "":
		j.report(name.Errorf(0, "model", "unknown model %q", name.Value).WithHint("did you mean %q?", near))
	default:
		j.report(name.Warnf(0, "model", "unknown model %q, assuming a Gemini model", name.Value).
			WithHint("write PROVIDER/%s for a model of another provider, or declare the model under models in app.yaml", name.Value))
	}
}

func (j *job) buildGeminiModel(ctx context.Context, name spec.Text) model.LLM {
	kind, ok := j.loader.providers.Lookup("gemini")
	if !ok {
		j.report(name.Errorf(0, "model", "model %s requires the provider gemini, which this program does not have", name.Value).
			WithHint("declare the model under models in app.yaml, and refer to it by name"))
		return nil
	}
	return j.buildProviderModel(ctx, kind, name, name.Value)
}

// buildDefaultModel builds the model of agents that neither name nor inherit one.
func (j *job) buildDefaultModel(ctx context.Context) model.LLM {
	if j.loader.opts.Model != nil {
		return j.loader.opts.Model
	}
	if m, ok := j.models[DefaultModel]; ok {
		return m
	}
	m := j.loader.opts.WrapModel(j.buildGeminiModel(ctx, spec.Text{Value: DefaultModel}))
	j.models[DefaultModel] = m
	return m
}
