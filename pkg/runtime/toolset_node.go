package runtime

import (
	"context"
	"errors"

	"google.golang.org/genai"

	"agenthost/pkg/connection"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// A ToolNode may call a tool of a set whose tools are unknown before a run, such as those on an MCP
// server. Such a node has a setTool, which findTool replaces when the node calls it. The set lists its
// tools once in a run for each node, and not at all for a node that has its result already or waits for
// a person.
//
// The set may need the user's consent before it lists its tools. Then the parameters are unknown, so
// that the request for the credential has the node's input, inputKey, which becomes the arguments
// after the answer.

// inputKey is the payload member of a credential request with the input that is not yet arguments.
const inputKey = "input"

// NewToolsetNode returns a [ToolNode] that calls a set's tool by the name that models call; opts may
// be nil.
func NewToolsetNode(name string, set tool.Set, toolName string, opts *ToolNodeOptions) *ToolNode {
	return NewToolNode(name, &setTool{set, &genai.FunctionDeclaration{Name: toolName}}, opts)
}

// A setTool is the placeholder of a set's tool until the node calls it.
type setTool struct {
	set  tool.Set
	decl *genai.FunctionDeclaration
}

// Declaration implements [tool.Tool]: only the name is known.
func (t *setTool) Declaration() *genai.FunctionDeclaration { return t.decl }

// Run fails: the node calls the tool that findTool returns.
func (t *setTool) Run(context.Context, *tool.Call) (*tool.Result, error) {
	return nil, errors.New("the tool " + t.decl.Name + " was not found in its set")
}

// A consentTool requests the consent without which the set does not list its tools.
type consentTool struct {
	*setTool
	err error
}

// Run implements [tool.Tool]: the error asks the user.
func (t *consentTool) Run(context.Context, *tool.Call) (*tool.Result, error) { return nil, t.err }

// bindTool returns the node with the tool that it calls in this run.
func (a *ToolNode) bindTool(ctx context.Context, inv *Invocation) (*ToolNode, error) {
	own, isSet := a.tool.(*setTool)
	if !isSet || inv.node.inWorkflow && !awaitsCall(inv) { // elsewhere it stores its call, and steps decide
		return a, nil
	}
	t, err := a.findTool(ctx, inv, own)
	if err != nil {
		return nil, err
	}
	inv.toolbox = newToolbox([]tool.Tool{t})
	bound := *a
	bound.tool = t
	return &bound, nil
}

// awaitsCall reports whether a node is to make its call: it has no result, and does not wait.
func awaitsCall(inv *Invocation) bool {
	f := inv.frame
	if f == nil {
		return true
	}
	request := lastNodeRequest(f.prior)
	return !hasNodeResult(f.prior) && (request == nil || inv.run.calls.findNodeAnswer(request) != nil)
}

func (a *ToolNode) findTool(ctx context.Context, inv *Invocation, own *setTool) (tool.Tool, error) {
	if known, ok := inv.run.limits.nodeTools.Load(own); ok {
		return known.(tool.Tool), nil
	}
	t, err := tool.FindTool(ctx, own.set, inv.NewSetCall(), own.decl.Name)
	switch {
	case ctx.Err() != nil:
		return nil, AsRunError(ctx.Err())
	case errors.As(err, new(*connection.ConsentError)):
		return &consentTool{own, err}, nil
	case err != nil:
		return nil, failf(CodeToolFailed, err, "node %s cannot call %s: %s", a.AgentName, own.decl.Name, err)
	case tool.CapabilitiesOf(t).RequestOnly:
		return nil, failf(CodeToolFailed, nil, "node %s cannot call %s: only models can use this tool", a.AgentName, own.decl.Name)
	}
	inv.run.limits.nodeTools.Store(own, t)
	return t, nil
}

// findNodeAnswer returns the user's answer to a ToolNode's request, or nil.
func (x *callIndex) findNodeAnswer(request *session.Event) *genai.FunctionResponse {
	if site, found := x.findRequestSite(request); found {
		return x.findUserAnswer(site)
	}
	return nil
}

// findRequestSite returns where a ToolNode's request is.
func (x *callIndex) findRequestSite(request *session.Event) (indexedCall, bool) {
	for _, site := range x.findCalls(request.Calls()[0].ID) {
		if site.event.ID == request.ID {
			return site, true
		}
	}
	return indexedCall{}, false
}
