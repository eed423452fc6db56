package agentconfig

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// sequentialConfig is a SequentialAgent's YAML.
type sequentialConfig struct {
	Common CommonConfig `yaml:",inline"`
}

func (c *sequentialConfig) AgentRefs() []*AgentRef { return c.Common.AgentRefs() }

func newSequential(_ context.Context, env AgentEnv, c *sequentialConfig) (runtime.Agent, error) {
	return runtime.NewSequential(c.Common.Name.Value, c.Common.Description, env.SubAgents...), nil
}

// parallelConfig is a ParallelAgent's YAML.
type parallelConfig struct {
	Common CommonConfig `yaml:",inline"`
}

func (c *parallelConfig) AgentRefs() []*AgentRef { return c.Common.AgentRefs() }

func newParallel(_ context.Context, env AgentEnv, c *parallelConfig) (runtime.Agent, error) {
	return runtime.NewParallel(c.Common.Name.Value, c.Common.Description, env.SubAgents...), nil
}

// loopConfig is a LoopAgent's YAML.
type loopConfig struct {
	Common        CommonConfig `yaml:",inline"`
	MaxIterations *int         `yaml:"max_iterations" doc:"Maximum number of iterations; without it there is no limit, and 0 runs no sub-agent."`
	Until         spec.Expr    `yaml:"until" doc:"Ends the loop when true after a sub-agent; can use state, user, session, run_config, invocation and agent."`
}

func (c *loopConfig) AgentRefs() []*AgentRef { return c.Common.AgentRefs() }

// Check compiles the expression and rejects a negative count.
func (c *loopConfig) Check(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	switch at := n.Get("max_iterations"); {
	case c.MaxIterations != nil && *c.MaxIterations < 0:
		ds = append(ds, at.Errorf("loop", "max_iterations must be 0 or more, got %d", *c.MaxIterations))
	case c.MaxIterations != nil && at.Value == "0":
		ds = append(ds, at.Warnf("loop", "max_iterations: 0 runs no sub-agent, as in ADK since 2.9").
			WithHint("remove max_iterations to loop without limit"))
	}
	_, found := compileUntil(c.Until)
	return append(ds, found...)
}

func compileUntil(e spec.Expr) (*runtime.Condition, spec.Diagnostics) {
	if e.Value == "" {
		return nil, nil
	}
	return compileCondition(e)
}

func newLoop(_ context.Context, env AgentEnv, c *loopConfig) (runtime.Agent, error) {
	until, ds := compileUntil(c.Until)
	if err := ds.Err(); err != nil {
		return nil, err
	}
	return runtime.NewLoop(c.Common.Name.Value, &runtime.LoopOptions{
		Description: c.Common.Description, MaxIterations: c.MaxIterations, Until: until, SubAgents: env.SubAgents,
	}), nil
}

// routerConfig is a RouterAgent's YAML.
type routerConfig struct {
	Common CommonConfig  `yaml:",inline"`
	Routes []routeConfig `yaml:"routes" required:"true" doc:"The routes; the first one whose when is true is taken."`

	refs   []*AgentRef
	chosen []int
}

// routeConfig is one route in a router.
type routeConfig struct {
	When  *Condition `yaml:"when" doc:"Condition of the route; the last route may omit it and is then the default. It can use state, user, session, run_config, invocation and agent."`
	Agent AgentRef   `yaml:"agent" required:"true" doc:"The agent: {config_path: file}, {use: name}, or inline."`
}

// AgentRefs returns the agents in the routes. An agent that several routes use is returned once.
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

// checkDuplicateConditions warns about a route that repeats an earlier condition.
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

func newRouter(_ context.Context, env AgentEnv, c *routerConfig) (runtime.Agent, error) {
	c.AgentRefs()
	routes := make([]runtime.Route, len(c.Routes))
	for i, r := range c.Routes {
		routes[i].Agent = env.SubAgents[c.chosen[i]]
		if r.When != nil {
			routes[i].When = r.When.Compiled
		}
	}
	return runtime.NewRouter(c.Common.Name.Value, c.Common.Description, routes...), nil
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

// jsonText returns a value as JSON, without HTML escapes.
func jsonText(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
