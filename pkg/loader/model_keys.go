package loader

import (
	"strings"

	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// KeyVariables returns the environment variables that may hold the key of a model, the
// usual one first. It is empty if the model needs no key, or if its name is unknown. The
// name is that of an agent's model in an app without models.
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

// findModelKind returns the provider of provider/model, or the one that recognizes the
// name, and the model's name there.
func (l *Loader) findModelKind(name string) (kind spec.Kind[provider.Env, model.LLM], rest string, ok bool) {
	vendor, rest, qualified := strings.Cut(name, "/")
	if kind, ok := l.providers.Lookup(vendor); ok && qualified && rest != "" {
		return kind, rest, true
	}
	for _, kind := range l.providers {
		if c, ok := kind.NewConfig().(provider.NameConfig); ok && c.RecognizesName(name) {
			return kind, name, true
		}
	}
	return kind, "", false
}
