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

// geminiName is how names of models that Gemini's service has begin.
var geminiName = regexp.MustCompile(`^(gemini|gemma|learnlm|models/|projects/|publishers/|tunedModels/)`)

// buildModels builds every model of the app, used or not: building finds the
// problems of their settings and connects to nothing. Those that were included
// are built when they are used.
func (j *job) buildModels(ctx context.Context) {
	for name, p := range sorted(j.names.models) {
		if !p.shared {
			j.modelUnder(ctx, name)
		}
	}
}

// modelUnder is one of models:, with what it falls back to. It is nil when its
// settings are wrong.
func (j *job) modelUnder(ctx context.Context, name string) model.LLM {
	return j.modelOfPart(ctx, name, j.names.models[name])
}

func (j *job) modelOfPart(ctx context.Context, name string, p part) model.LLM {
	if m, ok := j.models[name]; ok {
		return m
	}
	b := j.bareModel(ctx, name, p)
	if b.model == nil {
		return nil
	}
	others := j.fallbacksOf(ctx, name, b.fallbacks)
	j.models[name] = j.loader.opts.Wrap(provider.Fallback(b.model, others, j.loader.opts.Logger))
	return j.models[name]
}

// A bareModel is one of models: by itself.
type bareModel struct {
	model     model.LLM
	fallbacks []spec.Text
}

func (j *job) bareModel(ctx context.Context, name string, p part) bareModel {
	b, ok := j.bare[name]
	if !ok {
		j.use(p)
		b.model, b.fallbacks = j.buildModel(ctx, name, p.node)
		j.bare[name] = b
	}
	return b
}

// fallbacksOf finds the models that are asked when one fails. What a fallback
// falls back to itself does not count, so there is no circle.
func (j *job) fallbacksOf(ctx context.Context, name string, refs []spec.Text) []model.LLM {
	var others []model.LLM
	for _, ref := range refs {
		p, named := j.names.models[ref.Value]
		switch {
		case ref.Value == name:
			j.report(ref.Errorf(0, "model", "the model %s cannot be its own fallback", name))
		case named:
			if b := j.bareModel(ctx, ref.Value, p); b.model != nil {
				others = append(others, b.model)
			}
		default:
			if m := j.modelNamed(ctx, ref); m != nil {
				others = append(others, m)
			}
		}
	}
	return others
}

func (j *job) buildModel(ctx context.Context, name string, n *spec.Node) (model.LLM, []spec.Text) {
	if n.Kind != spec.Mapping {
		return nil, nil // told already, when the document was decoded
	}
	at := n.Get("provider")
	if at == nil {
		j.report(n.Errorf("required", "a model needs a provider: %s", strings.Join(j.loader.providers.Names(), " or ")))
		return nil, nil
	}
	kind, ok := j.loader.providers.Lookup(at.Value)
	if !ok {
		j.report(unknown(at, "provider %s", at.Value, j.loader.providers.Names()))
		return nil, nil
	}
	plan, ds := kind.Decode(n)
	ds = append(ds, checkConfig(plan.Config, n)...)
	if e, ok := endpointOf(plan.Config, j.modelEnv(name)); ok && !ds.HasErrors() {
		ds = append(ds, j.checkEndpoint(e, at.Text())...)
	}
	j.report(ds...)
	if ds.HasErrors() {
		return nil, nil
	}
	m, err := j.llm(ctx, plan, name)
	if err != nil {
		j.reportBuild(n, "model", err)
		return nil, nil
	}
	var fallbacks []spec.Text
	if f, ok := plan.Config.(interface{ Fallbacks() []spec.Text }); ok {
		fallbacks = f.Fallbacks()
	}
	return m, fallbacks
}

// llm is what the settings of a model come to. One that reaches a server is that
// of the revision before, when settings and .env are the same, with its
// connections, its login and its caches.
func (j *job) llm(ctx context.Context, plan spec.Plan[provider.Env, model.LLM], name string) (model.LLM, error) {
	env := j.modelEnv(name)
	endpoint, ok := endpointOf(plan.Config, env)
	if !ok {
		env.File = j.modelFile
		return plan.Build(ctx, env)
	}
	key := resourceKeyOf("model", j.src.name, name, plan.Kind.Name, textOf(plan.Node), fmt.Sprint(j.src.dotenv))
	m, giveBack, err := borrow(j.loader.resources, key, func() (model.LLM, func() error, error) {
		client, end := j.modelClient(endpoint)
		env.HTTP = client
		m, err := plan.Build(ctx, env)
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		return m, end, nil
	})
	if err == nil {
		j.closers = append(j.closers, giveBack)
	}
	return m, err
}

// modelEnv is what models read: the host's variables by the names of their
// providers, which the app itself need not be allowed to read, and the app's own.
func (j *job) modelEnv(name string) provider.Env {
	return provider.Env{Name: name, Lookup: j.src.env, App: j.src.dotenv, Logger: j.loader.opts.Logger}
}

// modelFile reads a file that a model's settings name, such as a script.
func (j *job) modelFile(_ context.Context, at spec.Text) (*spec.Node, spec.Diagnostics) {
	file := path.Clean(at.Value)
	if leadsOut(at.Value) {
		return nil, spec.Diagnostics{hintSlash(at.Errorf(0, "path", "%s leads out of the app's folder", at.Value), at.Value)}
	}
	if !j.src.exists(file) {
		return nil, spec.Diagnostics{at.Errorf(0, "file", "%s", j.src.missing(file))}
	}
	return j.src.document(file)
}

// modelOf finds the model that an agent names: one of models, else
// provider/model, else a model of Gemini's. It is nil when the agent names
// none, or names one whose settings are wrong.
func (j *job) modelOf(ctx context.Context, name spec.Text) model.LLM {
	if j.loader.opts.Model != nil {
		return j.loader.opts.Model
	}
	if name.Value == "" {
		return nil
	}
	if _, ok := j.names.models[name.Value]; ok {
		return j.modelUnder(ctx, name.Value)
	}
	if m, ok := j.models[name.Value]; ok {
		return m
	}
	m := j.modelNamed(ctx, name)
	if m != nil {
		m = j.loader.opts.Wrap(m)
		j.models[name.Value] = m
	}
	return m
}

// modelNamed builds a model that is not under models: by its provider and its
// name, or by its name alone.
func (j *job) modelNamed(ctx context.Context, name spec.Text) model.LLM {
	vendor, rest, qualified := strings.Cut(name.Value, "/")
	if kind, ok := j.loader.providers.Lookup(vendor); ok && qualified && rest != "" {
		return j.modelOfProvider(ctx, kind, name, rest)
	}
	if !geminiName.MatchString(name.Value) {
		j.doubtModel(name)
	}
	return j.gemini(ctx, name)
}

// modelOfProvider builds a model that has no settings but its name.
func (j *job) modelOfProvider(ctx context.Context, kind spec.Kind[provider.Env, model.LLM], name spec.Text, rest string) model.LLM {
	plan, ds := kind.Decode(name.Mapping("model", rest))
	if ds.HasErrors() {
		j.report(name.Errorf(0, "model", "the provider %s needs more than a name", kind.Name).
			WithHint("write its settings under models: of app.yaml, and name it here"))
		return nil
	}
	if e, ok := endpointOf(plan.Config, j.modelEnv("")); ok && name.Pos.Line > 0 {
		j.report(j.checkEndpoint(e, name)...)
	}
	m, err := j.llm(ctx, plan, "")
	if err != nil {
		j.report(name.Errorf(0, "model", "%s", err))
		return nil
	}
	return m
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
		j.report(name.Warnf(0, "model", "%s is none of the app's models: it is taken for a model of Gemini's", name.Value).
			WithHint("write PROVIDER/%s for a model of another provider; names of the app's own stand under models: in app.yaml", name.Value))
	}
}

func (j *job) gemini(ctx context.Context, name spec.Text) model.LLM {
	kind, _ := j.loader.providers.Lookup("gemini")
	return j.modelOfProvider(ctx, kind, name, name.Value)
}

// defaultModel serves agents with no model of their own and none above.
func (j *job) defaultModel(ctx context.Context) model.LLM {
	if j.loader.opts.Model != nil {
		return j.loader.opts.Model
	}
	if m, ok := j.models[DefaultModel]; ok {
		return m
	}
	m := j.loader.opts.Wrap(j.gemini(ctx, spec.Text{Value: DefaultModel}))
	j.models[DefaultModel] = m
	return m
}
