package loader

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"

	"agenthost/internal/agentconfig"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// A ModelUse is a model that an app uses.
type ModelUse struct {
	// Name is the name under models:, or PROVIDER/NAME as agents write it.
	Name string
	// Agents use the model, sorted. Those that inherit it are included.
	Agents []string
	// Summaries is set if session summaries use it.
	Summaries bool
	// RouteOf and FallbackOf are the models that call this one.
	RouteOf, FallbackOf []string
	// Provider and Model are the provider and the model's name there.
	Provider, Model string
	// URL is its call address without user info and query; empty for models that reach no server.
	URL string
	// Credential describes the key for its calls.
	Credential provider.Credential
	// Fallbacks and Routes are the names of the app's other models that it calls.
	Fallbacks, Routes []string
	// At is where the model is declared or named.
	At spec.Text
	// LLM is the model without its fallbacks.
	LLM model.LLM
}

// listModelLimits returns a model's context limits, or those of a route's models; an empty name is
// the default model.
func (r *modelResolver) listModelLimits(name string) []namedLimits {
	if r.loader.opts.Model != nil {
		return nil
	}
	if name == "" {
		name = r.loader.defaultModelName()
		r.app.defaultModel()
	}
	plan := r.modelPlans[name]
	routes, ok := plan.config.(provider.RouteConfig)
	if !ok {
		return []namedLimits{{name, plan.limits}}
	}
	var all []namedLimits
	for _, route := range routes.RouteModels() {
		all = append(all, r.listModelLimits(route.Value)...)
	}
	return all
}

// findGeminiToolRefuser returns the model itself, or one on its routes, if it rejects the tools
// that run inside Gemini's service; else "". isFallback is set if only fallbacks reject them. An
// empty name is the default model.
func (r *modelResolver) findGeminiToolRefuser(name string) (refuser string, isFallback bool) {
	if r.loader.opts.Model != nil {
		return "", false
	}
	if name == "" {
		name = r.loader.defaultModelName()
		r.app.defaultModel()
	}
	plan := r.modelPlans[name]
	if refusesGeminiTools(plan) {
		return name, false
	}
	if routes, ok := plan.config.(provider.RouteConfig); ok {
		for _, route := range routes.RouteModels() {
			found, fallback := r.findGeminiToolRefuser(route.Value)
			if found != "" && !fallback {
				return found, false
			}
			refuser = cmp.Or(refuser, found)
		}
	}
	if c, ok := plan.config.(provider.FallbackConfig); ok {
		for _, f := range c.Fallbacks() { // a fallback's own fallbacks are not called
			if name := f.Model.Value; refuser == "" && refusesGeminiTools(r.modelPlans[name]) {
				refuser = name
			}
		}
	}
	return refuser, refuser != ""
}

func refusesGeminiTools(plan modelPlan) bool {
	c, ok := plan.config.(provider.GeminiToolRefuser)
	return ok && c.RefusesGeminiTools()
}

// listModelUses returns the models that the app uses. r.app has been resolved without
// errors.
func (r *modelResolver) listModelUses(ctx context.Context) []ModelUse {
	if r.loader.opts.Model != nil {
		return nil
	}
	c := &useCollector{resolver: r, byName: map[string]int{}}
	c.addAgent(ctx, r.app.root, "")
	if d := r.app.doc.Compaction; d != nil && d.config.Summarizer.Model.Value != "" {
		if use := c.findOrAdd(d.config.Summarizer.Model.Value); use != nil {
			use.Summaries = true
		}
	}
	c.addReachable()
	var uses []ModelUse
	for _, use := range c.uses {
		slices.Sort(use.Agents)
		uses = append(uses, *use)
	}
	return uses
}

// A useCollector collects an app's models.
type useCollector struct {
	resolver *modelResolver
	uses     []*ModelUse
	byName   map[string]int
}

// addAgent adds the models for an agent and its descendants. inherited is the nearest ancestor's
// model name.
func (c *useCollector) addAgent(ctx context.Context, p *resolvedAgent, inherited string) {
	if p.modelRef != "" {
		inherited = p.modelRef
	}
	if _, ok := p.plan.Config.(agentconfig.ModelConfig); ok {
		name := inherited
		if name == "" {
			name = c.resolver.loader.defaultModelName()
			c.resolver.buildDefaultModel(ctx)
		}
		if use := c.findOrAdd(name); use != nil {
			use.Agents = addName(use.Agents, p.name)
			if use.At.Pos.Line == 0 {
				use.At = p.plan.Node.Text()
			}
		}
	}
	for _, sub := range slices.Concat(p.subs, toolAgents(p.tools)) {
		c.addAgent(ctx, sub, inherited)
	}
}

// usesDefaultModel reports whether any agent in a subtree neither names nor inherits a model. The
// agent may be nil.
func usesDefaultModel(p *resolvedAgent) bool {
	if p == nil || p.modelRef != "" || p.model != nil {
		return false // those below inherit it
	}
	if _, ok := p.plan.Config.(agentconfig.ModelConfig); ok {
		return true
	}
	return slices.ContainsFunc(slices.Concat(p.subs, toolAgents(p.tools)), usesDefaultModel)
}

// addReachable adds the models' routes and fallbacks, and theirs. A fallback is called without its
// own fallbacks.
func (c *useCollector) addReachable() {
	for changed := true; changed; {
		changed = false
		for i := 0; i < len(c.uses); i++ { // it grows
			use, before := c.uses[i], len(c.uses)
			for _, name := range use.Routes {
				if to := c.findOrAdd(name); to != nil {
					changed = changed || !to.isCalledDirectly()
					to.RouteOf = addName(to.RouteOf, use.Name)
				}
			}
			for _, name := range use.Fallbacks {
				if !use.isCalledDirectly() {
					break
				}
				if to := c.findOrAdd(name); to != nil {
					to.FallbackOf = addName(to.FallbackOf, use.Name)
				}
			}
			changed = changed || len(c.uses) > before
		}
	}
}

// isCalledDirectly reports whether the model is called not only as a fallback.
func (u *ModelUse) isCalledDirectly() bool {
	return u.Summaries || len(u.Agents) > 0 || len(u.RouteOf) > 0
}

// findOrAdd returns a model by its name; nil is a program's model, or one with an error.
func (c *useCollector) findOrAdd(name string) *ModelUse {
	i, ok := c.byName[name]
	if !ok {
		plan, known := c.resolver.modelPlans[name]
		if !known {
			return nil
		}
		i = len(c.uses)
		use := c.resolver.describeModel(name, plan)
		c.byName[name], c.uses = i, append(c.uses, &use)
	}
	return c.uses[i]
}

// addName appends a name that the list does not have yet.
func addName(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

func (r *modelResolver) describeModel(name string, plan modelPlan) ModelUse {
	env := r.newModelEnv(name)
	use := ModelUse{Name: name, Provider: plan.kind, Model: plan.llm.Name(), At: plan.at, LLM: plan.llm, Credential: provider.DescribeCredential(plan.config, env)}
	if e, ok := modelEndpoint(plan.config, env); ok {
		use.URL = bareAddress(e.URL)
	}
	if c, ok := plan.config.(provider.FallbackConfig); ok {
		for _, f := range c.Fallbacks() {
			use.Fallbacks = append(use.Fallbacks, f.Model.Value)
		}
	}
	if c, ok := plan.config.(provider.RouteConfig); ok {
		for _, name := range c.RouteModels() {
			use.Routes = append(use.Routes, name.Value)
		}
	}
	return use
}

// bareAddress returns an address without user info, query and fragment.
func bareAddress(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), "/")
}

// reportMissingKeys calls Options.MissingKey for the models whose calls would fail, among those
// that agents, routes and summaries use. A fallback without a key does not stop a turn.
func (r *modelResolver) reportMissingKeys(ctx context.Context) {
	if r.loader.opts.MissingKey == nil {
		return
	}
	for _, use := range r.listModelUses(ctx) {
		if use.Credential.Missing == "" || !use.isCalledDirectly() {
			continue
		}
		what, hint, _ := strings.Cut(use.Credential.Missing, ": ")
		r.loader.opts.MissingKey(r.src.name, use, use.At.Warnf(0, "model-key", "model %s: %s", use.Name, what).WithHint("%s", hint))
	}
}

// checkMaxCost rejects max_cost if a model that the app may call has no price: its calls
// would not count.
func (r *modelResolver) checkMaxCost(ctx context.Context) {
	c := r.app.doc.RunConfig
	if c == nil || c.config.MaxCost <= 0 {
		return
	}
	for _, name := range r.listUnpricedModels(ctx) {
		r.report(missingPrice(c.node.Get("max_cost"), "run-config", "max_cost", name))
	}
}

// listUnpricedModels returns the models without a price that the app may call.
func (r *modelResolver) listUnpricedModels(ctx context.Context) []string {
	var names []string
	for _, use := range r.listModelUses(ctx) {
		if !r.hasPrice(use.Name) {
			names = append(names, use.Name)
		}
	}
	return names
}

// hasPrice reports whether a model's calls have a cost. A route's calls cost what the model that it
// chooses costs.
func (r *modelResolver) hasPrice(name string) bool {
	plan := r.modelPlans[name]
	_, isRoute := plan.config.(provider.RouteConfig)
	return isRoute || plan.priced
}

// missingPrice reports a cost limit that requires the model's price.
func missingPrice(at *spec.Node, rule, limit, name string) spec.Diagnostic {
	return at.Errorf(rule, "%s requires prices, and model %s has none", limit, name).
		WithHint("give the model a price under models: in app.yaml, or pass --prices; a free model has price: {input: 0, output: 0}")
}

// KeyVariables returns the environment variables that may hold a model's key, the usual one first.
// It is empty if the model needs no key, or if its name is unknown. The name is as agents use it in
// an app without models.
func (l *Loader) KeyVariables(name string) []string {
	kind, rest, ok := l.findModelKind(name)
	if !ok {
		return nil
	}
	plan, ds := kind.Decode(spec.Text{}.Mapping("model", rest))
	if ds.HasErrors() {
		return nil
	}
	if c, ok := plan.Config.(provider.KeyConfig); ok {
		return c.KeyVariables(provider.Env{Lookup: l.opts.Env})
	}
	return nil
}

// MissingVariables returns the environment variables that must be set before the named model can be
// called: for its key, address, region or project. The name is as agents use it in an app without
// models.
func (l *Loader) MissingVariables(name string) []string {
	kind, rest, ok := l.findModelKind(name)
	if !ok {
		return nil
	}
	plan, ds := kind.Decode(spec.Text{}.Mapping("model", rest))
	c, ok := plan.Config.(provider.CredentialConfig)
	if ds.HasErrors() || !ok {
		return nil
	}
	var missing []string
	env := provider.Env{Lookup: func(name string) (string, bool) {
		if slices.Contains(missing, name) {
			return exampleValue(name), true
		}
		return l.opts.Env(name)
	}}
	for {
		next := c.Credential(env)
		if next.Missing == "" || next.Variable == "" || slices.Contains(missing, next.Variable) {
			return missing
		}
		missing = append(missing, next.Variable)
	}
}

// exampleValue returns a valid value for a variable.
func exampleValue(name string) string {
	switch {
	case strings.HasSuffix(name, "_REGION"), strings.HasSuffix(name, "_LOCATION"):
		return "us-east-1"
	case strings.HasSuffix(name, "_BASE"), strings.HasSuffix(name, "_URL"):
		return "https://example.com"
	}
	return "example"
}
