package runtime

import (
	"strings"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// CheckRoutes warns when there is no default route and none may be taken. It is
// silent when the routes name every value of a key that the schema knows the
// values of. A nil schema knows none.
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

// uncoveredValues is the key of which the routes name most of the values, and the
// values that no route is for; empty where no key has a list of values.
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
