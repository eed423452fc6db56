package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"agenthost/internal/agentconfig"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// buildModels builds every declared model, used or not, to validate its settings. It
// opens no connections. Models from includes are built when they are used.
func (r *modelResolver) buildModels(ctx context.Context) {
	for name, p := range sortedParts(r.app.names.models) {
		if !p.shared {
			r.buildDeclaredModel(ctx, name)
		}
	}
}

// buildDeclaredModel builds a declared model with its fallbacks. It returns nil if the
// settings are invalid.
func (r *modelResolver) buildDeclaredModel(ctx context.Context, name string) model.LLM {
	return r.buildPartModel(ctx, name, r.app.names.models[name])
}

func (r *modelResolver) buildPartModel(ctx context.Context, name string, p part) model.LLM {
	if m, ok := r.models[name]; ok {
		return m
	}
	m := r.buildUnwrappedModel(ctx, name, p)
	if m == nil {
		return nil
	}
	r.models[name] = r.loader.opts.WrapModel(m)
	return r.models[name]
}

// buildUnwrappedModel builds a declared model with its fallbacks, without
// Options.WrapModel.
func (r *modelResolver) buildUnwrappedModel(ctx context.Context, name string, p part) model.LLM {
	b := r.buildBareModel(ctx, name, p)
	if b.model == nil || b.resolved != nil {
		return b.resolved
	}
	b.resolved = provider.Fallback(r.resolveFallbacks(ctx, name, b), r.loader.opts.Logger)
	r.bareModels[name] = b
	return b.resolved
}

func (r *modelResolver) buildBareModel(ctx context.Context, name string, p part) bareModel {
	b, ok := r.bareModels[name]
	if !ok {
		r.markUsed(p)
		r.buildingModels = append(r.buildingModels, name)
		b.model, b.fallbacks = r.buildModel(ctx, name, p.node)
		r.buildingModels = r.buildingModels[:len(r.buildingModels)-1]
		r.bareModels[name] = b
	}
	return b
}

// resolveFallbacks returns a model and its fallback models. A fallback's own fallbacks are ignored.
func (r *modelResolver) resolveFallbacks(ctx context.Context, name string, b bareModel) []provider.FallbackModel {
	all := []provider.FallbackModel{{Model: b.model, Name: name}}
	for _, f := range b.fallbacks {
		ref := f.Model
		var m model.LLM
		p, named := r.app.names.models[ref.Value]
		switch {
		case ref.Value == name:
			r.report(ref.Errorf(0, "model", "model %s cannot be its own fallback", name))
		case named && !r.reportModelCycle(ref):
			m = r.buildBareModel(ctx, ref.Value, p).model
		case !named:
			m = r.resolveModelName(ctx, ref)
		}
		if m != nil {
			all = append(all, provider.FallbackModel{Model: m, Name: ref.Value, On: f.On, Cooldown: time.Duration(f.Cooldown)})
		}
	}
	return all
}

// resolveRoute returns a route's model with its fallbacks, or nil after reporting a problem.
func (r *modelResolver) resolveRoute(ctx context.Context, ref spec.Text) model.LLM {
	p, named := r.app.names.models[ref.Value]
	switch {
	case !named:
		return r.resolveModelName(ctx, ref)
	case r.reportModelCycle(ref):
		return nil
	}
	r.buildBareModel(ctx, ref.Value, p)
	// Its fallbacks may lead back to it.
	r.buildingModels = append(r.buildingModels, ref.Value)
	defer func() { r.buildingModels = r.buildingModels[:len(r.buildingModels)-1] }()
	return r.buildUnwrappedModel(ctx, ref.Value, p)
}

// reportModelCycle reports a reference to a model that is being built.
func (r *modelResolver) reportModelCycle(ref spec.Text) bool {
	at := slices.Index(r.buildingModels, ref.Value)
	if at < 0 {
		return false
	}
	path := strings.Join(append(slices.Clone(r.buildingModels[at:]), ref.Value), " → ")
	r.report(ref.Errorf(0, "model", "models refer to each other in a cycle: %s", path))
	return true
}

func (r *modelResolver) buildModel(ctx context.Context, name string, n *spec.Node) (model.LLM, []provider.FallbackRef) {
	if n.Kind != spec.Mapping {
		return nil, nil // already reported when the document was decoded
	}
	at := n.Get("provider")
	if at == nil {
		r.report(n.Errorf("required", "a model requires a provider").
			WithHint("write provider: with one of %s", strings.Join(r.loader.kinds.Models.Names(), ", ")))
		return nil, nil
	}
	kind, ok := r.loader.kinds.Models.Lookup(at.Value)
	if alias := providerAliases()[at.Value]; !ok && slices.Contains(r.loader.kinds.Models.Names(), alias) {
		r.report(at.Errorf("unknown-name", "unknown provider %q", at.Value).WithHint("write %s", alias).WithFix(at.Value, alias))
		return nil, nil
	}
	if !ok {
		r.report(missingKindError(at, agentconfig.ModelList, at.Value, r.loader.kinds.Models.Names()))
		return nil, nil
	}
	plan, ds := kind.Decode(n)
	ds = plan.Check(ds)
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
	r.recordModel(name, plan, at.Text(), m)
	var fallbacks []provider.FallbackRef
	if f, ok := plan.Config.(provider.FallbackConfig); ok {
		fallbacks = f.Fallbacks()
	}
	return m, fallbacks
}

// acquireModel builds a model from its settings. If the model reaches a server, and its settings
// and .env are unchanged, it returns the previous revision's model with its connections, login and
// caches.
func (r *modelResolver) acquireModel(ctx context.Context, plan spec.Plan[provider.Env, model.LLM], name string) (model.LLM, error) {
	m, err := r.acquireUnpricedModel(ctx, plan, name)
	if err != nil {
		return nil, err
	}
	return provider.WithPrice(m, r.findPrice(plan)), nil
}

// findPrice returns a model's price, from its settings or else from Options.Prices; nil means that
// it has none.
func (r *modelResolver) findPrice(plan spec.Plan[provider.Env, model.LLM]) *provider.Price {
	if c, ok := plan.Config.(provider.PricedConfig); ok {
		if p := c.ModelPrice(); p != nil {
			return p
		}
	}
	if at := plan.Node.Get("model"); at != nil {
		return r.loader.opts.Prices.Find(plan.Kind.Name, at.Value)
	}
	return nil
}

func (r *modelResolver) acquireUnpricedModel(ctx context.Context, plan spec.Plan[provider.Env, model.LLM], name string) (model.LLM, error) {
	env := r.newModelEnv(name)
	env.Provider = plan.Kind.Name
	endpoint, ok := modelEndpoint(plan.Config, env)
	if !ok {
		env.File, env.Model = r.readModelFile, r.resolveRoute
		return plan.Build(ctx, env)
	}
	key := hashResourceKey("model", r.src.name, name, plan.Kind.Name, textOf(plan.Node), fmt.Sprint(r.src.dotenv))
	m, release, err := acquireResource(r.loader.resources, key, func() (model.LLM, func() error, error) {
		client, end := r.acquireModelClient(endpoint)
		gate, leaveGate, err := r.acquireGate(plan, endpoint)
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		end = closeBoth(end, leaveGate)
		env.HTTP, env.Gate = client, gate
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

// acquireGate returns the gate that all apps' models with the same key, address and name share, or
// nil if the config has no limits.
func (r *modelResolver) acquireGate(plan spec.Plan[provider.Env, model.LLM], e provider.Endpoint) (*provider.Gate, func() error, error) {
	none := func() error { return nil }
	c, ok := plan.Config.(provider.LimitedConfig)
	if !ok {
		return nil, none, nil
	}
	limits, limited := c.CallLimits()
	if !limited {
		return nil, none, nil
	}
	name := ""
	if at := plan.Node.Get("model"); at != nil {
		name = at.Value
	}
	key := hashResourceKey("limits", plan.Kind.Name, e.URL, e.Account, name)
	gate, leave, err := acquireResource(r.loader.resources, key, func() (*provider.Gate, func() error, error) {
		return provider.NewGate(limits), none, nil
	})
	if err != nil {
		return nil, none, err
	}
	gate.Tighten(limits)
	return gate, leave, nil
}

// newModelEnv returns the models' environment: the host's variables, which providers may read
// without a grant to the app, and the app's variables.
func (r *modelResolver) newModelEnv(name string) provider.Env {
	return provider.Env{Name: name, Lookup: r.src.env, App: r.src.dotenv, Logger: r.loader.opts.Logger}
}

// readModelFile reads a file that a model's settings name, such as a script.
func (r *modelResolver) readModelFile(_ context.Context, at spec.Text) (*spec.Node, spec.Diagnostics) {
	file := path.Clean(at.Value)
	if escapesFolder(at.Value) {
		return nil, spec.Diagnostics{addSlashHint(at.Errorf(0, "path", "%s is outside of the app folder", at.Value), at.Value)}
	}
	if !r.src.fileExists(file) {
		return nil, spec.Diagnostics{at.Errorf(0, "file", "%s", r.src.missingFileMessage(file))}
	}
	return r.src.readDocument(file)
}

// resolveModel resolves an agent's model name: a declared model, provider/model, or a name that a
// provider recognizes. It returns nil if the agent names no model, or one with invalid settings.
func (r *modelResolver) resolveModel(ctx context.Context, name spec.Text) model.LLM {
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
func (r *modelResolver) resolveModelName(ctx context.Context, name spec.Text) model.LLM {
	if kind, rest, ok := r.loader.findModelKind(name.Value); ok {
		return r.buildProviderModel(ctx, kind, name, rest)
	}
	fallback, ok := r.loader.findDefaultModel()
	if r.reportUnknownModel(name, fallback) || !ok {
		return nil
	}
	return r.buildProviderModel(ctx, fallback.kind, name, name.Value)
}

// buildProviderModel builds a model that has only a name.
func (r *modelResolver) buildProviderModel(ctx context.Context, kind spec.Kind[provider.Env, model.LLM], name spec.Text, rest string) model.LLM {
	plan, ds := kind.Decode(name.Mapping("model", rest))
	if ds.HasErrors() {
		if needsSettings(ds) {
			ds = spec.Diagnostics{name.Errorf(0, "model", "provider %s requires settings", kind.Name).
				WithHint("declare the model under models in app.yaml, and refer to it by name")}
		}
		r.report(ds...)
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
	r.recordModel(name.Value, plan, name, m)
	return m
}

// needsSettings reports whether a model's name is not all that its provider requires.
func needsSettings(ds spec.Diagnostics) bool {
	return slices.ContainsFunc(ds, func(d spec.Diagnostic) bool { return d.Rule == "required" })
}

// reportUnknownModel reports a name that is not declared and that no provider recognizes. It
// returns false for a name that may be the default provider's.
func (r *modelResolver) reportUnknownModel(name spec.Text, fallback defaultModel) bool {
	if r.appBroken || strings.Contains(name.Value, "${") {
		return false // already reported
	}
	vendor, rest, qualified := strings.Cut(name.Value, "/")
	near := spec.Suggest(name.Value, slices.Collect(maps.Keys(r.app.names.models)))
	switch {
	case qualified:
		r.report(r.unknownProviderError(name, vendor, rest))
		return true
	case near != "":
		r.report(name.Errorf(0, "model", "unknown model %q", name.Value).WithNearName(name.Value, near))
		return true
	}
	known := r.loader.findModelName(name.Value)
	if prefix, _, _ := strings.Cut(known, "/"); known != "" && strings.HasPrefix(name.Value, prefix+":") {
		r.report(withModelName(name.Errorf(0, "model", "unknown model %q", name.Value), name.Value, known))
		return true
	}
	if vendor, ok := agentconfig.FindProvider(name.Value); ok && !slices.Contains(r.loader.kinds.Models.Names(), vendor) {
		hint, _ := agentconfig.HintSource(agentconfig.ModelList, vendor)
		r.report(name.Errorf(0, "model", "this program does not have the provider %q of model %s; %s", vendor, name.Value, listNames(r.loader.kinds.Models.Names())).WithHint("%s", hint))
		return true
	}
	report := name.Errorf(0, "model", "unknown model %q", name.Value)
	if fallback.title != "" {
		report = name.Warnf(0, "model", "unknown model %q, assuming %s", name.Value, fallback.title)
	}
	if known != "" {
		r.report(withModelName(report, name.Value, known))
		return fallback.title == ""
	}
	r.report(report.WithHint("write PROVIDER/%s for a model of another provider, such as ollama/%[1]s, or declare the model under models in app.yaml", name.Value))
	return fallback.title == ""
}

// unknownProviderError reports a name's prefix, and shows how to declare a model on one's own
// server.
func (r *modelResolver) unknownProviderError(name spec.Text, vendor, rest string) spec.Diagnostic {
	var prefixes []string
	for _, kind := range r.loader.kinds.Models {
		if _, ds := kind.Decode(name.Mapping("model", vendor)); !needsSettings(ds) {
			prefixes = append(prefixes, kind.Name)
		}
	}
	if slices.Contains(prefixes, vendor) {
		return name.Errorf(0, "model", "the name of a model is required after %s/", vendor)
	}
	if hint, ok := agentconfig.HintSource(agentconfig.ModelList, vendor); ok && !slices.Contains(r.loader.kinds.Models.Names(), vendor) {
		return name.Errorf(0, "model", "this program does not have the provider %q; %s", vendor, listNames(r.loader.kinds.Models.Names())).WithHint("%s", hint)
	}
	d := name.Errorf(0, "model", "unknown provider %q", vendor)
	if known := r.loader.findModelName(name.Value); known != "" {
		return withModelName(d, name.Value, known)
	}
	if hint := otherProviders()[vendor]; hint != "" {
		return d.WithHint("%s", strings.ReplaceAll(hint, "%s", name.Value))
	}
	if near := spec.Suggest(vendor, prefixes); near != "" {
		return d.WithHint("did you mean %s/%s?", near, rest).WithProposal(vendor, near)
	}
	hint := "the prefixes are " + strings.Join(prefixes, ", ")
	for _, kind := range r.loader.kinds.Models {
		if c, ok := kind.NewConfig().(provider.ServerConfig); ok && c.DescribeServer(rest) != "" {
			hint += "; " + c.DescribeServer(rest)
		}
	}
	return d.WithHint("%s", hint)
}

// buildDefaultModel builds the model for agents that neither name nor inherit one.
func (r *modelResolver) buildDefaultModel(ctx context.Context) model.LLM {
	if r.loader.opts.Model != nil {
		return r.loader.opts.Model
	}
	found, ok := r.loader.findDefaultModel()
	if !ok {
		r.report(spec.Text{}.Errorf(0, "model", "an agent names no model, and this program has no provider with a default model").
			WithHint("declare a model under models in app.yaml, and refer to it by name"))
		return nil
	}
	if m, ok := r.models[found.name]; ok {
		return m
	}
	m := r.loader.opts.WrapModel(r.buildProviderModel(ctx, found.kind, spec.Text{Value: found.name}, found.name))
	r.models[found.name] = m
	return m
}

// resolveModelCode returns the model for an agent's model_code: the one that functions: maps the
// name to, or an ADK model class. It returns its name as well.
func (r *modelResolver) resolveModelCode(ctx context.Context, agent *spec.Node) (model.LLM, string) {
	code := agent.Get("model_code")
	ref := agentconfig.CodeRef(code)
	if ref == nil {
		r.report(code.Errorf("type", "model_code must name code, such as {name: my_pkg.models.one}"))
		return nil, ""
	}
	if named := agent.Get("model"); !named.IsNull() {
		r.report(code.Errorf("model", "model_code and model cannot be combined"))
	}
	f, ok := r.findFunction(ref.Value)
	if prefix, adk := r.loader.findModelClass(ref.Value); adk && !ok {
		return r.resolveModelClass(ctx, code, prefix)
	}
	r.report(checkCodeArgs(code)...)
	switch {
	case !ok:
		r.report(missingCodeError(ref, "model", ref.Value, "map the name to a model under functions: in app.yaml, or set model: instead"))
		return nil, ""
	case r.loader.opts.Model != nil || f.node.Kind == spec.Scalar:
		return r.resolveModel(ctx, f.node.Text()), f.node.Value
	}
	return r.buildPartModel(ctx, ref.Value, f), ref.Value
}

// findModelClass returns the prefix that an ADK class's model names have here. LiteLlm has models
// from all providers, by their prefixes.
func (l *Loader) findModelClass(name string) (prefix string, ok bool) {
	class, ok := strings.CutPrefix(name, "google.adk.models.")
	if !ok {
		return "", false
	}
	class = lastWord(class)
	for _, kind := range l.kinds.Models {
		if c, ok := kind.NewConfig().(provider.ClassConfig); ok {
			if adk, prefix := c.ADKClass(); adk == class {
				return prefix, true
			}
		}
	}
	return "", class == "LiteLlm"
}

// resolveModelClass builds an ADK class's model from its constructor arguments.
func (r *modelResolver) resolveModelClass(ctx context.Context, code *spec.Node, prefix string) (model.LLM, string) {
	args, ok := r.decodeModelArgs(code)
	if !ok {
		return nil, ""
	}
	name := args["model"].Text()
	name.Value = prefix + strings.TrimPrefix(name.Value, prefix)
	if len(args) == 1 {
		return r.resolveModel(ctx, name), name.Value
	}
	kind, rest, ok := r.loader.findModelKind(name.Value)
	if !ok {
		return r.resolveModel(ctx, name), "" // reports the name
	}
	settings := name.Mapping("model", rest).WithEntry("provider", kind.Name)
	for _, e := range []struct{ arg, field string }{{"api_base", "base_url"}, {"api_key", "api_key"}} {
		if value := args[e.arg]; value != nil {
			settings.Entries = append(settings.Entries, spec.Entry{Key: settings.WithEntry(e.field, "").Entries[0].Key, Value: value})
		}
	}
	key := name.Value + " at " + name.Pos.String() // its address may differ
	m, _ := r.buildModel(ctx, key, settings)
	if m == nil {
		return nil, ""
	}
	return r.loader.opts.WrapModel(m), key
}

// decodeModelArgs returns a model class's arguments: a mapping, or a list of {name, value}.
func (r *modelResolver) decodeModelArgs(code *spec.Node) (map[string]*spec.Node, bool) {
	known := []string{"model", "api_base", "api_key"}
	class, args, valid := agentconfig.CodeRef(code), map[string]*spec.Node{}, true
	for _, e := range listArgs(code.Get("args")) {
		if !slices.Contains(known, e.Key.Value) || e.Value.Kind != spec.Scalar {
			r.report(e.Key.Errorf("code", "%s takes the arguments %s here, not %s", lastWord(class.Value), strings.Join(known, ", "), e.Key.Value).
				WithHint("declare the model with its settings under models: in app.yaml, and set model: to its name"))
			valid = false
			continue
		}
		args[e.Key.Value] = e.Value
	}
	if valid && args["model"] == nil {
		r.report(class.Errorf("code", "%s requires the argument model", lastWord(class.Value)).
			WithHint("write args: [{name: model, value: openai/gpt-4o}], or set model: openai/gpt-4o instead"))
	}
	return args, args["model"] != nil && valid
}

// listArgs returns a code reference's arguments.
func listArgs(args *spec.Node) []spec.Entry {
	if args.IsNull() {
		return nil
	}
	all := slices.Clone(args.Entries) // from a mapping
	for _, item := range args.Items {
		if key, value := item.Get("name"), item.Get("value"); key != nil && value != nil {
			all = append(all, spec.Entry{Key: key, Value: value})
		}
	}
	return all
}

// recordModel keeps a model's config by its name in the app.
func (r *modelResolver) recordModel(name string, plan spec.Plan[provider.Env, model.LLM], at spec.Text, m model.LLM) {
	var own, listed provider.ContextLimits // the settings take precedence over Options.Prices
	if c, ok := plan.Config.(provider.SizedConfig); ok {
		own = c.ContextLimits()
	}
	if at := plan.Node.Get("model"); at != nil {
		listed = r.loader.opts.Prices.FindContext(plan.Kind.Name, at.Value)
	}
	limits := provider.ContextLimits{Input: cmp.Or(own.Input, listed.Input), Output: cmp.Or(own.Output, listed.Output)}
	r.modelPlans[name] = modelPlan{plan.Kind.Name, plan.Config, plan.Node, at, m, limits, r.findPrice(plan) != nil}
	if at := plan.Node.Get("max_output_tokens"); at != nil { // the model's, not an agent's
		r.report(checkOutputLimit(at, namedLimits{name, limits})...)
	}
}

// A defaultModel is the model for agents that neither name nor inherit one.
type defaultModel struct {
	kind spec.Kind[provider.Env, model.LLM]
	// name is its name, title what a message calls such a model.
	name, title string
}

// findDefaultModel returns the default model from the first provider that has one.
func (l *Loader) findDefaultModel() (defaultModel, bool) {
	for _, kind := range l.kinds.Models {
		if c, ok := kind.NewConfig().(provider.DefaultConfig); ok {
			name, title := c.DefaultModel()
			return defaultModel{kind, name, title}, true
		}
	}
	return defaultModel{}, false
}

// defaultModelName returns the default model's name; it is empty if the program has none.
func (l *Loader) defaultModelName() string {
	found, _ := l.findDefaultModel()
	return found.name
}

// findModelKind returns the provider in provider/model, or the one that recognizes the name, and
// the model's name there.
func (l *Loader) findModelKind(name string) (kind spec.Kind[provider.Env, model.LLM], rest string, ok bool) {
	vendor, rest, qualified := strings.Cut(name, "/")
	if kind, ok := l.kinds.Models.Lookup(vendor); ok && qualified && rest != "" {
		return kind, rest, true
	}
	for _, kind := range l.kinds.Models {
		if c, ok := kind.NewConfig().(provider.NameConfig); ok && c.RecognizesName(name) {
			return kind, name, true
		}
	}
	return kind, "", false
}

// checkOutputLimit checks a max_output_tokens, which may be nil.
func checkOutputLimit(at *spec.Node, limits namedLimits) spec.Diagnostics {
	if at.IsNull() || limits.Output == 0 {
		return nil
	}
	n, ok := at.Any().(int64)
	if !ok || n <= int64(limits.Output) {
		return nil
	}
	return spec.Diagnostics{at.Warnf("context-limit", "max_output_tokens %d exceeds the limit of %d tokens for model %s", n, limits.Output, limits.model).
		WithHint("set it to at most %d, or use a model with longer responses", limits.Output)}
}
