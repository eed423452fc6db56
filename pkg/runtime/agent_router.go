package runtime

import (
	"context"
	"strings"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// routerConfig is the YAML of a RouterAgent.
type routerConfig struct {
	Common CommonConfig  `yaml:",inline"`
	Routes []routeConfig `yaml:"routes" required:"true" doc:"The routes; the first one whose when is true is taken."`

	refs   []*AgentRef
	chosen []int
}

// routeConfig is one route of a router.
type routeConfig struct {
	When  *Condition `yaml:"when" doc:"Condition of the route; the last route may omit it and is then the default. It can use state, user, session, invocation and agent."`
	Agent AgentRef   `yaml:"agent" required:"true" doc:"The agent: {config_path: file}, {use: name}, or inline."`
}

// AgentRefs returns the agents of the routes. An agent that several routes use
// is returned once.
func (c *routerConfig) AgentRefs() []*AgentRef {
	if c.refs != nil {
		return c.refs
	}
	known := map[string]int{}
	for i := range c.Routes {
		ref := &c.Routes[i].Agent
		name := ref.referenceKey()
		at, ok := known[name]
		if !ok || name == "" {
			at = len(c.refs)
			c.refs = append(c.refs, ref)
			known[name] = at
		}
		c.chosen = append(c.chosen, at)
	}
	return c.refs
}

// Check rejects routes that cannot be taken.
func (c *routerConfig) Check(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if subs := n.Get("sub_agents"); subs != nil {
		ds = append(ds, subs.Errorf("route", "declare the agents of a RouterAgent under routes, each with a when"))
	}
	routes := n.Get("routes")
	if routes == nil || routes.Kind != spec.Sequence {
		return ds
	}
	for i, r := range c.Routes {
		if r.When == nil && i < len(c.Routes)-1 {
			ds = append(ds, routes.Items[i].Errorf("route", "this route always matches: the routes after it are unreachable").
				WithHint("add a when, or move it to the end"))
		}
	}
	ds = append(ds, c.checkDuplicateConditions(routes)...)
	if len(c.Routes) == 0 {
		ds = append(ds, routes.Errorf("route", "routes is required for a RouterAgent"))
	}
	return ds
}

// checkDuplicateConditions warns of a route with the condition of an earlier
// one.
func (c *routerConfig) checkDuplicateConditions(routes *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	seen := map[string]spec.Pos{}
	for i, r := range c.Routes {
		if r.When == nil {
			continue
		}
		words := strings.Join(strings.Fields(r.When.Value), " ")
		if first, ok := seen[words]; ok {
			ds = append(ds, routes.Items[i].Get("when").Warnf("route-twice", "this route is unreachable: the route in line %d has the same condition", first.Line))
			continue
		}
		seen[words] = r.When.Pos
	}
	return ds
}

func newRouter(_ context.Context, env AgentEnv, c *routerConfig) (Agent, error) {
	c.AgentRefs()
	routes := make([]Route, len(c.Routes))
	for i, r := range c.Routes {
		routes[i] = Route{When: r.When, Agent: env.SubAgents[c.chosen[i]]}
	}
	return NewRouter(c.Common.Name.Value, c.Common.Description, routes...), nil
}

// A RouterAgent runs one of its agents: that of the first route whose
// condition is true. If none is true, it reports so in an event without
// content.
type RouterAgent struct {
	Base
	routes []childRoute
}

// childRoute is a route with the index of its agent among the children.
type childRoute struct {
	when  *Condition
	child int
}

// NewRouter returns a router. Routes may share an agent.
func NewRouter(name, description string, routes ...Route) *RouterAgent {
	a := &RouterAgent{Base: Base{AgentName: name, AgentDescription: description}}
	places := map[Agent]int{}
	for _, r := range routes {
		at, ok := places[r.Agent]
		if !ok {
			at = len(a.Children)
			places[r.Agent] = at
			a.Children = append(a.Children, r.Agent)
		}
		a.routes = append(a.routes, childRoute{r.When, at})
	}
	return a
}

// Run runs the chosen agent, on the router's own branch.
func (a *RouterAgent) Run(ctx context.Context, inv *Invocation) Events {
	return streamEvents(ctx, a, inv)
}

func (a *RouterAgent) run(ctx context.Context, inv *Invocation, yield func(*session.Event, error) bool) bool {
	child, chosen, err := inv.readCurrentChild()
	if err == nil && !chosen {
		child, err = a.chooseChild(ctx, inv)
	}
	switch {
	case err != nil:
		yield(nil, err)
		return false
	case child < 0 && inv.frame != nil && len(inv.frame.prior.allEvents()) > 0:
		return true // already reported
	case child < 0:
		return yield(inv.newSkippedEvent("routes: no condition is true"), nil)
	case inv.Resumable() && !chosen:
		if !yield(inv.Checkpoint(map[string]any{currentSubAgentKey: a.Children[child].Name()}), nil) {
			return false
		}
	}
	to := inv.childInvocation(child, 1)
	to.endsRun = inv.endsRun && inv.endsWithAgent()
	return to.runAgent(ctx, yield)
}

// chooseChild returns the index of the first agent whose condition is true, or
// -1.
func (a *RouterAgent) chooseChild(ctx context.Context, inv *Invocation) (int, error) {
	for _, r := range a.routes {
		ok, err := r.when.evaluateFor(ctx, inv, "a route's when")
		if err != nil {
			return -1, err
		}
		if ok {
			return r.child, nil
		}
	}
	return -1, nil
}

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
