package runtime

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/genai"

	"agenthost/pkg/tool"
)

// runToolWithCallbacks runs one tool with its callbacks (adk-python
// flows/llm_flows/functions.py).
func (s *step) runToolWithCallbacks(ctx context.Context, t tool.Tool, call *tool.Call, traits tool.Capabilities) (*tool.Result, error) {
	h := s.inv.node.hooks
	if h == nil {
		return s.invokeTool(ctx, t, call, traits)
	}
	result, err := firstAnswer(ctx, s.inv, "before_tool", h.beforeTool, func(f BeforeToolFunc) (*tool.Result, error) {
		return f(ctx, t, call)
	})
	if result == nil && err == nil {
		if result, err = s.invokeTool(ctx, t, call, traits); err != nil {
			result, err = s.recoverToolError(ctx, t, call, err)
		}
	}
	if err != nil {
		return nil, err
	}
	replaced, err := firstAnswer(ctx, s.inv, "after_tool", h.afterTool, func(f AfterToolFunc) (*tool.Result, error) {
		return f(ctx, t, call, result)
	})
	if replaced != nil {
		result = replaced
	}
	return result, err
}

// recoverToolError calls the callbacks for a failed tool, and returns the
// error if none answers. Errors that end the run are not passed to them.
func (s *step) recoverToolError(ctx context.Context, t tool.Tool, call *tool.Call, failure error) (*tool.Result, error) {
	var end *tool.EndError
	if ctx.Err() != nil || errors.Is(failure, errBudget) || errors.As(failure, &end) {
		return nil, failure
	}
	answer, err := firstAnswer(ctx, s.inv, "on_tool_error", s.inv.node.hooks.onToolError, func(f ToolErrorFunc) (*tool.Result, error) {
		return f(ctx, t, call, failure)
	})
	if answer == nil && err == nil {
		err = failure
	}
	return answer, err
}

// answerUnknownTool answers a call of an unknown tool.
func (s *step) answerUnknownTool(ctx context.Context, fc *genai.FunctionCall, a *callResult) {
	err := fmt.Errorf("tool %q not found: the available tools are %s", fc.Name, joinNames(s.inv.activeToolbox().names))
	if s.inv.node.hooks == nil {
		a.setResponse(fc, errorResponse(err))
		return
	}
	result, err := s.recoverToolError(ctx, missingTool{fc.Name}, s.inv.newToolCall(fc, &a.actions), err)
	hookErr, failed := asHookError(err)
	switch {
	case failed:
		a.err = hookErr
	case ctx.Err() != nil:
		a.err = AsRunError(ctx.Err())
	case err != nil:
		a.setResponse(fc, errorResponse(err))
	default:
		a.setResponse(fc, result.Response)
	}
}

// missingTool represents an unknown tool.
type missingTool struct{ name string }

func (t missingTool) Declaration() *genai.FunctionDeclaration {
	return &genai.FunctionDeclaration{Name: t.name, Description: "Tool not found"}
}

func (t missingTool) Run(context.Context, *tool.Call) (*tool.Result, error) {
	return nil, fmt.Errorf("tool %q not found", t.name)
}
