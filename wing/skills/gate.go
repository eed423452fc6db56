package skills

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/tool"
)

var _ tool.ToolGate = (*skillSet)(nil)

// GateTools makes tools available once a skill that names them is loaded.
func (s *skillSet) GateTools(set tool.Set) tool.Set { return gatedSet{set, s} }

// A gatedSet has tools that skills make available.
type gatedSet struct {
	tool.Set
	skills *skillSet
}

var _ tool.SessionSet = gatedSet{}

// Dynamic reports whether the tools are unknown.
func (s gatedSet) Dynamic() bool { return tool.Dynamic(s.Set) }

// Tools returns the tools.
func (s gatedSet) Tools(ctx context.Context) ([]tool.Tool, error) {
	return s.gateTools(s.Set.Tools(ctx))
}

// ListTools returns the tools for a session.
func (s gatedSet) ListTools(ctx context.Context, call *tool.Call) ([]tool.Tool, error) {
	return s.gateTools(tool.ListTools(ctx, s.Set, call))
}

func (s gatedSet) gateTools(tools []tool.Tool, err error) ([]tool.Tool, error) {
	gated := make([]tool.Tool, len(tools))
	for i, t := range tools {
		gated[i] = &gatedTool{t, s.skills}
	}
	return gated, err
}

// A gatedTool is not declared in requests, and fails, while it is not available.
type gatedTool struct {
	tool.Tool
	skills *skillSet
}

func (t *gatedTool) isAvailable(call *tool.Call) bool {
	return t.skills.isActivated(call, t.Declaration().Name)
}

// Capabilities returns the tool's. No person confirms a call to a tool that is not available.
func (t *gatedTool) Capabilities() tool.Capabilities {
	all := tool.CapabilitiesOf(t.Tool)
	if confirm := all.Confirm; confirm != nil {
		all.Confirm = tool.ConfirmFunc(func(ctx context.Context, call *tool.Call) (bool, error) {
			if !t.isAvailable(call) { // an error, because it could be available when it runs
				return false, t.newGateError()
			}
			return confirm.NeedsConfirmation(ctx, call)
		})
	}
	return all
}

// Run implements [tool.Tool].
func (t *gatedTool) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	if !t.isAvailable(call) {
		return nil, t.newGateError()
	}
	return t.Tool.Run(ctx, call)
}

func (t *gatedTool) newGateError() error {
	return fmt.Errorf("tool %s is not available: load a skill that uses it with %s first", t.Declaration().Name, t.skills.prefixedName(loadSkillName))
}

// EditRequest removes the declaration while the tool is not available, and else lets the tool
// edit the request.
func (t *gatedTool) EditRequest(ctx context.Context, call *tool.Call, req *model.Request) error {
	if t.isAvailable(call) {
		if e, ok := t.Tool.(tool.RequestEditor); ok {
			return e.EditRequest(ctx, call, req)
		}
		return nil
	}
	name := t.Declaration().Name
	isOwn := func(d *genai.FunctionDeclaration) bool { return d.Name == name }
	var left []*genai.Tool // the lists may be shared with other requests
	for _, one := range req.Config.Tools {
		if slices.ContainsFunc(one.FunctionDeclarations, isOwn) {
			rest := *one
			if rest.FunctionDeclarations = slices.DeleteFunc(slices.Clone(one.FunctionDeclarations), isOwn); len(rest.FunctionDeclarations) == 0 {
				continue
			}
			one = &rest
		}
		left = append(left, one)
	}
	req.Config.Tools = left
	return nil
}
