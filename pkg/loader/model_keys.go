package loader

import (
	"strings"

	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// KeyVariables returns the environment variables that may hold the key of a model, the
// usual one first. It is empty if the model needs no key, or if its name is unknown. The
// name is that of an agent's model in an app without models.
func (l *Loader) KeyVariables(name string) []string {
	vendor, rest, qualified := strings.Cut(name, "/")
	kind, ok := l.providers.Lookup(vendor)
	if !ok || !qualified || rest == "" {
		rest = name
		if kind, ok = l.providers.Lookup("gemini"); !ok {
			return nil
		}
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
