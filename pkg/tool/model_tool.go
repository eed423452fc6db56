package tool

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// A modelTool runs inside the model's service: it is never called, only enabled
// in every request.
type modelTool struct {
	decl      *genai.FunctionDeclaration
	isEnabled func(*genai.Tool) bool
	newTool   func() *genai.Tool
}

// NewModelTool returns a tool that runs inside the Gemini service: newTool enables it in a request,
// unless the request already has a tool for which isEnabled is true.
func NewModelTool(name string, isEnabled func(*genai.Tool) bool, newTool func() *genai.Tool) Tool {
	return &modelTool{&genai.FunctionDeclaration{Name: name}, isEnabled, newTool}
}

// Declaration implements [Tool].
func (t *modelTool) Declaration() *genai.FunctionDeclaration { return t.decl }

// Capabilities marks the tool as built in: it is not offered as a function.
func (t *modelTool) Capabilities() Capabilities { return Capabilities{RequestOnly: true} }

// IsModelTool reports whether a tool runs inside the Gemini service, so that other models do not
// have it.
func IsModelTool(t Tool) bool {
	_, ok := t.(*modelTool)
	return ok
}

// Run always fails: the tool runs inside the model's service.
func (t *modelTool) Run(context.Context, *Call) (*Result, error) {
	return nil, fmt.Errorf("%s runs inside the model's service and cannot be called", t.decl.Name)
}

// EditRequest enables the tool, once.
func (t *modelTool) EditRequest(_ context.Context, _ *Call, req *model.Request) error {
	if slices.ContainsFunc(req.Config.Tools, t.isEnabled) {
		return nil
	}
	// The list may be shared with other requests.
	req.Config.Tools = append(slices.Clip(req.Config.Tools), t.newTool())
	return nil
}
