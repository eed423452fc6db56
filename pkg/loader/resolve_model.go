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
func (r *resolver) buildModels(ctx context.Context) {
	for name, p := range sortedParts(r.app.names.models) {
		if !p.shared {
			r.buildDeclaredModel(ctx, name)
		}
	}
}

// buildDeclaredModel builds a declared model with its fallbacks. It returns nil if the
// settings are invalid.
func (r *resolver) buildDeclaredModel(ctx context.Context, name string) model.LLM {
	return r.buildPartModel(ctx, name, r.app.names.models[name])
}

func (r *resolver) buildPartModel(ctx context.Context, name string, p part) model.LLM {
	if m, ok := r.models[name]; ok {
		return m
	}
	b := r.buildBareModel(ctx, name, p)
	if b.model == nil {
		return nil
	}
	others := r.resolveFallbacks(ctx, name, b.fallbacks)
	r.models[name] = r.loader.opts.WrapModel(provider.Fallback(b.model, others, r.loader.opts.Logger))
	return r.models[name]
}

func (r *resolver) buildBareModel(ctx context.Context, name string, p part) bareModel {
	b, ok := r.bareModels[name]
	if !ok {
		r.markUsed(p)
		b.model, b.fallbacks = r.buildModel(ctx, name, p.node)
		r.bareModels[name] = b
	}
	return b
}

// resolveFallbacks returns the fallback models of a model. The fallbacks of a fallback
// are ignored, so there are no cycles.
func (r *resolver) resolveFallbacks(ctx context.Context, name string, refs []spec.Text) []model.LLM {
	var others []model.LLM
	for _, ref := range refs {
		p, named := r.app.names.models[ref.Value]
		switch {
		case ref.Value == name:
			r.report(ref.Errorf(0, "model", "model %s cannot be its own fallback", name))
		case named:
			if b := r.buildBareModel(ctx, ref.Value, p); b.model != nil {
				others = append(others, b.model)
			}
		default:
			if m := r.resolveModelName(ctx, ref); m != nil {
				others = append(others, m)
			}
		}
	}
	return others
}

func (r *resolver) buildModel(ctx context.Context, name string, n *spec.Node) (model.LLM, []spec.Text) {
	if n.Kind != spec.Mapping {
		return nil, nil // already reported when the document was decoded
	}
	at := n.Get("provider")
	if at == nil {
		r.report(n.Errorf("required", "a model requires a provider: %s", strings.Join(r.loader.providers.Names(), " or ")))
		return nil, nil
	}
	kind, ok := r.loader.providers.Lookup(at.Value)
	if !ok {
		r.report(unknownNameError(at, "provider %s", at.Value, r.loader.providers.Names()))
		return nil, nil
	}
	plan, ds := kind.Decode(n)
	ds = append(ds, checkConfig(plan.Config, n)...)
	if e, ok := modelEndpoint(plan.Config, r.newModelEnv(name)); ok && !ds.HasErrors() {
		ds = append(ds, r.checkEndpoint(e, at.Text())...)
	}
	r.report(ds...)
	if ds.HasErrors() {
		return nil, nil
	}
	m, err := r.acquireModel(ctx, plan, name)
	if err != nil {
		r.reportBuildError(n, "model", err)
		return nil, nil
	}
	var fallbacks []spec.Text
	if f, ok := plan.Config.(provider.FallbackConfig); ok {
		fallbacks = f.Fallbacks()
	}
	return m, fallbacks
}

// acquireModel builds a model from its settings. If the model reaches a server, and its
// settings and .env are unchanged, it returns the model of the previous revision with
// its connections, login and caches.
func (r *resolver) acquireModel(ctx context.Context, plan spec.Plan[provider.Env, model.LLM], name string) (model.LLM, error) {
	env := r.newModelEnv(name)
	env.Provider = plan.Kind.Name
	endpoint, ok := modelEndpoint(plan.Config, env)
	if !ok {
		env.File = r.readModelFile
		return plan.Build(ctx, env)
	}
	key := hashResourceKey("model", r.src.name, name, plan.Kind.Name, textOf(plan.Node), fmt.Sprint(r.src.dotenv))
	m, release, err := acquireResource(r.loader.resources, key, func() (model.LLM, func() error, error) {
		client, end := r.acquireModelClient(endpoint)
		env.HTTP = client
		m, err := plan.Build(ctx, env)
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		return m, end, nil
	})
	if err == nil {
		r.held.add(release)
	}
	return m, err
}

// newModelEnv returns the environment of models: the host's variables, which providers
// may read without a grant to the app, and the variables of the app.
func (r *resolver) newModelEnv(name string) provider.Env {
	return provider.Env{Name: name, Lookup: r.src.env, App: r.src.dotenv, Logger: r.loader.opts.Logger}
}

// readModelFile reads a file of a model's settings, such as a script.
func (r *resolver) readModelFile(_ context.Context, at spec.Text) (*spec.Node, spec.Diagnostics) {
	file := path.Clean(at.Value)
	if escapesFolder(at.Value) {
		return nil, spec.Diagnostics{addSlashHint(at.Errorf(0, "path", "%s is outside of the app folder", at.Value), at.Value)}
	}
	if !r.src.fileExists(file) {
		return nil, spec.Diagnostics{at.Errorf(0, "file", "%s", r.src.missingFileMessage(file))}
	}
	return r.src.readDocument(file)
}

// resolveModel resolves the model name of an agent: a declared model, provider/model,
// or a Gemini model. It returns nil if the agent names no model, or one with invalid
// settings.
func (r *resolver) resolveModel(ctx context.Context, name spec.Text) model.LLM {
	if r.loader.opts.Model != nil {
		return r.loader.opts.Model
	}
	if name.Value == "" {
		return nil
	}
	if _, ok := r.app.names.models[name.Value]; ok {
		return r.buildDeclaredModel(ctx, name.Value)
	}
	if m, ok := r.models[name.Value]; ok {
		return m
	}
	m := r.resolveModelName(ctx, name)
	if m != nil {
		m = r.loader.opts.WrapModel(m)
		r.models[name.Value] = m
	}
	return m
}

// resolveModelName builds a model that is not under models, from provider/model or from
// the name alone.
func (r *resolver) resolveModelName(ctx context.Context, name spec.Text) model.LLM {
	vendor, rest, qualified := strings.Cut(name.Value, "/")
	if kind, ok := r.loader.providers.Lookup(vendor); ok && qualified && rest != "" {
		return r.buildProviderModel(ctx, kind, name, rest)
	}
	if !geminiNamePattern.MatchString(name.Value) {
		r.reportUnknownModel(name)
	}
	return r.buildGeminiModel(ctx, name)
}

// buildProviderModel builds a model that has only a name.
func (r *resolver) buildProviderModel(ctx context.Context, kind spec.Kind[provider.Env, model.LLM], name spec.Text, rest string) model.LLM {
	plan, ds := kind.Decode(name.Mapping("model", rest))
	if ds.HasErrors() {
		r.report(name.Errorf(0, "model", "provider %s requires settings", kind.Name).
			WithHint("declare the model under models in app.yaml, and refer to it by name"))
		return nil
	}
	if e, ok := modelEndpoint(plan.Config, r.newModelEnv("")); ok && name.Pos.Line > 0 {
		r.report(r.checkEndpoint(e, name)...)
	}
	m, err := r.acquireModel(ctx, plan, "")
	if err != nil {
		r.report(name.Errorf(0, "model", "%s", err))
		return nil
	}
	return m
}

// reportUnknownModel reports a name that is not declared and does not look like a
// Gemini model. It is an error if the name is similar to a declared one.
func (r *resolver) reportUnknownModel(name spec.Text) {
	if r.appBroken || strings.Contains(name.Value, "${") {
		return // already reported
	}
	vendor, _, qualified := strings.Cut(name.Value, "/")
	near := spec.Suggest(name.Value, slices.Collect(maps.Keys(r.app.names.models)))
	switch {
	case qualified:
		r.report(name.Errorf(0, "model", "unknown provider %q", vendor).
			WithHint("declare the model under models in app.yaml with one of the providers %s", strings.Join(r.loader.providers.Names(), ", ")))
	case near != "":
		r.report(name.Errorf(0, "model", "unknown model %q", name.Value).WithHint("did you mean %q?", near))
	default:
		r.report(name.Warnf(0, "model", "unknown model %q, assuming a Gemini model", name.Value).
			WithHint("write PROVIDER/%s for a model of another provider, or declare the model under models in app.yaml", name.Value))
	}
}

func (r *resolver) buildGeminiModel(ctx context.Context, name spec.Text) model.LLM {
	kind, ok := r.loader.providers.Lookup("gemini")
	if !ok {
		r.report(name.Errorf(0, "model", "model %s requires the provider gemini, which this program does not have", name.Value).
			WithHint("declare the model under models in app.yaml, and refer to it by name"))
		return nil
	}
	return r.buildProviderModel(ctx, kind, name, name.Value)
}

// buildDefaultModel builds the model of agents that neither name nor inherit one.
func (r *resolver) buildDefaultModel(ctx context.Context) model.LLM {
	if r.loader.opts.Model != nil {
		return r.loader.opts.Model
	}
	if m, ok := r.models[DefaultModel]; ok {
		return m
	}
	m := r.loader.opts.WrapModel(r.buildGeminiModel(ctx, spec.Text{Value: DefaultModel}))
	r.models[DefaultModel] = m
	return m
}
