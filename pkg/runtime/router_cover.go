package runtime

import (
	"strings"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// CheckRoutes warns if there is no default route and the conditions may all be
// false. It does not warn if the routes cover every value of a key whose values
// the schema enumerates. s may be nil.
func (c *routerConfig) CheckRoutes(n *spec.Node, s *tool.StateSchema) spec.Diagnostics {
	if len(c.Routes) == 0 || c.Routes[len(c.Routes)-1].When == nil || c.Check(n).HasErrors() {
		return nil
	}
	key, missing := c.uncoveredValues(s)
	if key != "" && len(missing) == 0 {
		return nil
	}
	d := n.Get("routes").Warnf("route", "no default route: nothing runs when no condition is true")
	if key != "" {
		d = n.Get("routes").Warnf("route", "no default route, and no route for %s as state.%s: nothing runs then", strings.Join(missing, ", "), key)
	}
	return spec.Diagnostics{d.WithHint("omit when in the last route")}
}

// uncoveredValues returns the enumerated key with the fewest values that no route
// matches, and these values; empty if the routes use no enumerated key.
func (c *routerConfig) uncoveredValues(s *tool.StateSchema) (key string, missing []string) {
	named := map[string]map[string]bool{}
	for _, r := range c.Routes {
		if r.When == nil {
			continue
		}
		same, ok := template.Equalities(r.When.Value)
		if !ok {
			continue
		}
		for _, e := range same {
			if e.Of != "state" || len(s.Values(e.Member)) == 0 {
				continue
			}
			if named[e.Member] == nil {
				named[e.Member] = map[string]bool{}
			}
			named[e.Member][jsonText(e.Value)] = true
		}
	}
	for _, k := range s.Keys() {
		if named[k] == nil {
			continue
		}
		var uncovered []string
		for _, v := range s.Values(k) {
			if text := jsonText(v); !named[k][text] {
				uncovered = append(uncovered, text)
			}
		}
		if key == "" || len(uncovered) < len(missing) {
			key, missing = k, uncovered
		}
	}
	return key, missing
}
