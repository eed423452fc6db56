package runtime

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
)

// FunctionNodeOptions are a function node's optional settings.
type FunctionNodeOptions struct {
	Description string
	// OutputKey is the state key that receives the output.
	OutputKey string
	// Message makes the output also a message, as text or JSON, which clients show and
	// later models read.
	Message bool
}

// A FunctionNode is a [Workflow] node that computes a value. It yields one event with the output,
// whose author is the workflow, or none if the value is nil (adk-python
// workflow/_function_node.py). A [genai.Content] is a message. A FunctionNode may be used anywhere
// in the agent tree; outside a workflow its input is the user message, and it is the author.
type FunctionNode struct {
	Base
	fn   NodeFunc
	opts FunctionNodeOptions
}

// NewFunctionNode returns a function node; opts may be nil.
func NewFunctionNode(name string, fn NodeFunc, opts *FunctionNodeOptions) *FunctionNode {
	if opts == nil {
		opts = &FunctionNodeOptions{}
	}
	return &FunctionNode{Base{AgentName: name, AgentDescription: opts.Description}, fn, *opts}
}

// Run calls the function and yields its output. A resumed node that already
// has an output does not run again.
func (a *FunctionNode) Run(ctx context.Context, inv *Invocation) Events {
	return func(yield func(*session.Event, error) bool) {
		if inv.frame != nil && inv.frame.prior.lastEvent() != nil {
			return
		}
		ev := inv.NewEvent()
		value, err := a.fn(ctx, inv.newCallbackContext(&ev.Actions), inv.Input())
		if err != nil {
			yield(nil, inv.wrapNodeError(ctx, err))
			return
		}
		if a.setOutput(ev, value); ev.Content != nil || ev.Output != nil || !ev.Actions.IsEmpty() {
			yield(ev, nil)
		}
	}
}

// setOutput stores the node's output in its event.
func (a *FunctionNode) setOutput(ev *session.Event, value any) {
	stored := session.Normalize(value)
	if content, ok := value.(*genai.Content); ok {
		ev.Content, stored = content, model.TextOf(content)
	} else if stored != nil {
		if ev.Output = stored; a.opts.Message {
			ev.Content = model.ModelText(template.String(stored))
		}
	}
	if a.opts.OutputKey != "" {
		ev.Actions.SetState(a.opts.OutputKey, stored)
	}
}

func (inv *Invocation) wrapNodeError(ctx context.Context, err error) error {
	var runErr *RunError
	switch {
	case errors.As(err, &runErr):
		return runErr
	case ctx.Err() != nil:
		return AsRunError(ctx.Err())
	}
	return failf(CodeAgentFailed, err, "node %s failed: %s", inv.node.agent.Name(), strings.TrimSpace(err.Error()))
}
