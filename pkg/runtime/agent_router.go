package runtime

import (
	"context"

	"agenthost/pkg/session"
)

// A RouterAgent runs one of its agents: the agent of the first route whose condition is true. If
// none is true, it reports so in an event without content.
type RouterAgent struct {
	Base
	routes []childRoute
}

// childRoute is a route with its agent's index among the children.
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
	if !chosen {
		child = -1
	}
	for i := 0; i < len(a.routes) && err == nil && child < 0; i++ {
		var holds bool
		if holds, err = a.routes[i].when.evaluateFor(ctx, inv, "a route's when"); holds {
			child = a.routes[i].child
		}
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
	to.onLastEvent = inv.passLastEvent()
	return to.runAgent(ctx, yield)
}
