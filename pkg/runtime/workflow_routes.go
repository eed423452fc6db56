package runtime

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"agenthost/pkg/model"
)

// chooseTargets returns the next nodes: the targets of unconditional edges, and
// those of the matching routes, or else of the default route.
func (w *workflowRun) chooseTargets(ctx context.Context, o *outcome) ([]int, error) {
	var targets []int
	add := func(to int) {
		if !slices.Contains(targets, to) {
			targets = append(targets, to)
		}
	}
	edges := w.edges[o.node+1]
	for i, e := range edges {
		switch {
		case e.Kind == EdgeAlways:
			add(e.To)
			continue
		case slices.ContainsFunc(edges[:i], func(f Edge) bool { return f.Kind != EdgeAlways && f.By == e.By }):
			continue // only the first edge with an expression evaluates it
		}
		values, err := w.routeValues(ctx, o, e)
		if err != nil {
			return nil, err
		}
		for _, to := range matchingTargets(edges, e, values) {
			add(to)
		}
	}
	return targets, nil
}

// matchingTargets returns the targets of the matching edges with e's expression.
func matchingTargets(edges []Edge, e Edge, values []string) []int {
	var matched, fallback []int
	for _, f := range edges {
		switch {
		case f.Kind == EdgeAlways || f.By != e.By:
		case f.Kind == EdgeDefault:
			fallback = append(fallback, f.To)
		case slices.Contains(values, f.Route):
			matched = append(matched, f.To)
		}
	}
	if len(matched) > 0 {
		return matched
	}
	return fallback
}

// routeValues returns the values that routes are matched against: the value of
// the edge's expression, or else the route that an event of the node set, or else
// the output of the node.
func (w *workflowRun) routeValues(ctx context.Context, o *outcome, e Edge) ([]string, error) {
	if e.By != nil {
		v, err := e.By.Eval(ctx, w.inv.conditionVars())
		if err != nil {
			return nil, failf(CodeInvalidRequest, err, "route of workflow %s after %s: %s", w.AgentName, w.nodeName(o.node), err)
		}
		return routeTexts(v), nil
	}
	if o.route != nil {
		return routeTexts(o.route), nil
	}
	return routeTexts(w.nodeOutput(o)), nil
}

// nodeOutput returns the output of a node: its explicit output, or else the value
// of its output_key, or else its text.
func (w *workflowRun) nodeOutput(o *outcome) any {
	switch {
	case o.output != nil || o.finalEvent == nil:
		return o.output
	case o.node != Start:
		if l, ok := w.Children[o.node].(*LLMAgent); ok {
			if v, kept := o.finalEvent.Actions.StateDelta[l.opts.OutputKey]; kept {
				return v
			}
		}
	}
	if text := model.TextOf(o.finalEvent.Content); text != "" {
		return text
	}
	return nil
}

// routeTexts returns the route values of an output: one per element of a list,
// a string without surrounding white space, anything else as JSON.
func routeTexts(v any) []string {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return []string{strings.TrimSpace(v)}
	case []any:
		var all []string
		for _, e := range v {
			all = append(all, routeTexts(e)...)
		}
		return all
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return []string{string(b)}
}
