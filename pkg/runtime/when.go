package runtime

import (
	"context"
	"fmt"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// A Condition is a boolean expression in YAML. It is compiled when it is
// decoded, so that errors are reported at their position. It can use state,
// user, session, invocation and agent.
type Condition struct {
	spec.Expr
	compiled *template.Expr
}

// DecodeSpec reads and compiles the expression.
func (c *Condition) DecodeSpec(n *spec.Node) spec.Diagnostics {
	ds := c.Expr.DecodeSpec(n)
	if ds.HasErrors() {
		return ds
	}
	c.compiled, ds = compileCondition(c.Expr)
	return ds
}

// SchemaSpec returns the schema of an expression.
func (c *Condition) SchemaSpec() map[string]any {
	schema := c.Expr.SchemaSpec()
	schema["title"] = "expression"
	return schema
}

// evaluateFor evaluates the condition for an agent; key is the field of the
// condition, for errors. A nil condition is true.
func (c *Condition) evaluateFor(ctx context.Context, inv *Invocation, key string) (bool, error) {
	if c == nil || c.compiled == nil {
		return true, nil
	}
	ok, err := c.compiled.Bool(ctx, inv.conditionVars())
	if err != nil {
		return false, failf(CodeInvalidRequest, err, "%s of agent %s: %s", key, inv.node.agent.Name(), err)
	}
	return ok, nil
}

// SetCondition sets the condition under which an agent runs; nil means always.
// The agent must not be part of an app yet. It fails for an agent that does
// not embed [Base].
func SetCondition(agent Agent, when *Condition) error {
	a, ok := agent.(interface{ setWhen(*Condition) })
	switch {
	case ok:
		a.setWhen(when)
	case when != nil:
		return fmt.Errorf("agent %s cannot have a when: its type %T does not embed runtime.Base", agent.Name(), agent)
	}
	return nil
}

func (b *Base) setWhen(c *Condition) { b.when = c }

func (b *Base) runCondition() *Condition { return b.when }

// findCondition returns an agent's own condition, or nil.
func findCondition(agent Agent) *Condition {
	if a, ok := agent.(interface{ runCondition() *Condition }); ok {
		return a.runCondition()
	}
	return nil
}

// runIfCondition runs the agent when its condition is true, and otherwise
// yields an event that it was skipped.
func (inv *Invocation) runIfCondition(ctx context.Context, yield func(*session.Event, error) bool) bool {
	when := inv.node.when
	ok, err := when.evaluateFor(ctx, inv, "when")
	switch {
	case err != nil:
		yield(nil, err)
		return false
	case ok:
		return inv.runUnconditionally(ctx, yield)
	}
	return yield(inv.newSkippedEvent("when: "+when.Value), nil)
}

// newSkippedEvent returns an event with the reason why the agent was skipped.
func (inv *Invocation) newSkippedEvent(reason string) *session.Event {
	ev := inv.NewEvent()
	ev.Provenance.Skipped = reason
	return ev
}

// isSkip reports whether an event was created by newSkippedEvent.
func isSkip(ev *session.Event) bool { return ev.Provenance.Skipped != "" }
