package openapitool

import (
	"context"
	"fmt"

	"google.golang.org/genai"

	"agenthost/internal/toolconfig"
	"agenthost/internal/toolhttp"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// newSet returns the tools for the operations in the environment's document.
func (t *toolset) newSet(env tool.Env) (tool.Set, error) {
	a, ok := env.Document.(*api)
	if !ok {
		return nil, fmt.Errorf("the loader has read no document")
	}
	anyArgs := &genai.FunctionDeclaration{ // they differ between the tools
		Name: "openapi", ParametersJsonSchema: map[string]any{"type": "object", "properties": map[string]any{}, "additionalProperties": true},
	}
	confirm, err := toolconfig.CompileConfirmRule(t.confirm, anyArgs, confirmEnv())
	if err != nil {
		return nil, err
	}
	headers, err := toolconfig.CompileHeaders(t.headers)
	if err != nil {
		return nil, err
	}
	secrets := append(toolconfig.SecretsOf(t.headers), t.auth.listSecrets()...)
	exchange := toolhttp.NewExchange(env, t.maxResponse, secrets...)
	set := make(operationSet, 0, len(a.operations))
	for _, op := range a.operations {
		made, err := t.newTool(op, exchange, headers)
		if err != nil {
			return nil, err
		}
		if confirm != nil {
			made.capabilities.Confirm = confirm.With(map[string]any{"tool": map[string]any{
				"name": op.name, "method": op.method, "path": op.path, "operation_id": op.id,
			}})
		}
		set = append(set, made)
	}
	return set, nil
}

func (t *toolset) newTool(op *operation, exchange *toolhttp.Exchange, headers *toolconfig.Headers) (*operationTool, error) {
	d, err := declare.Tool(op.name, op.description, op.schema)
	if err != nil {
		return nil, spec.Diagnostics{t.at.Errorf(0, "tool", "operation %s: %s", op.displayName(), err)}
	}
	d.LeaveDefaults()
	made := &operationTool{Declared: d, operation: op, exchange: exchange, headers: headers, capabilities: t.capabilities, auth: t.auth, preview: t.preview}
	if rule, ok := findSetting(t.result, op); ok {
		if made.result, err = toolhttp.CompileResult(rule); err != nil {
			return nil, err
		}
	}
	if name, ok := findSetting(t.artifacts, op); ok {
		if made.artifact, err = toolconfig.CompileArtifactName(d, name); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// An operationSet is a document's tools.
type operationSet []*operationTool

// Tools returns the tools in the document's order.
func (s operationSet) Tools(context.Context) ([]tool.Tool, error) {
	tools := make([]tool.Tool, len(s))
	for i, t := range s {
		tools[i] = t
	}
	return tools, nil
}

// Close does nothing: the loader closes the client.
func (s operationSet) Close() error { return nil }

// An operationTool calls one operation.
type operationTool struct {
	*tool.Declared
	operation    *operation
	exchange     *toolhttp.Exchange
	headers      *toolconfig.Headers
	capabilities tool.Capabilities
	auth         *credential
	artifact     *toolconfig.ArtifactName
	result       *toolhttp.ResultRule
	preview      toolconfig.Preview
}

var _ tool.CapableTool = (*operationTool)(nil)

// Capabilities returns the document's settings.
func (t *operationTool) Capabilities() tool.Capabilities { return t.capabilities }

// Run implements [tool.Tool].
func (t *operationTool) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	call, err := t.CheckCall(ctx, call)
	if err != nil {
		return nil, err
	}
	return tool.RunWithTimeout(ctx, t.operation.name, t.capabilities.Timeout, func(ctx context.Context) (*tool.Result, error) {
		res, err := t.sendRequest(ctx, call)
		if err != nil {
			return nil, fmt.Errorf("openapi tool %s: %w", t.operation.name, err)
		}
		return res, nil
	})
}

func (t *operationTool) sendRequest(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	req, err := t.operation.newRequest(ctx, call)
	if err != nil {
		return nil, err
	}
	header, err := t.headers.Render(call)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		if name == "Host" {
			req.Host = values[0]
			continue
		}
		req.Header[name] = values
	}
	if len(t.operation.schemes) > 0 && t.auth != nil {
		if err := t.auth.authorizeRequest(req, t.operation.schemes[0]); err != nil {
			return nil, err
		}
	}
	exchange := t.exchange
	if !t.operation.connected {
		exchange = exchange.WithoutConnection()
	}
	got, err := exchange.WithSecrets(t.headers.Credentials(header)...).SendRequest(req, call)
	if err != nil {
		return nil, err
	}
	if err := got.SaveFile(ctx, call, t.artifact); err != nil {
		return nil, err
	}
	result, err := t.newResult(ctx, call, got)
	if err != nil {
		return nil, err
	}
	return t.preview.LimitResult(result), nil
}

// newResult returns a response's result: JSON as it is, and text as {"text": …} as in ADK; for a
// file, an object that describes its artifact.
func (t *operationTool) newResult(ctx context.Context, call *tool.Call, got *toolhttp.Response) (*tool.Result, error) {
	if t.result != nil {
		value, err := t.result.Eval(ctx, call, got)
		if err != nil {
			return nil, err
		}
		return tool.NewResult(value), nil
	}
	if !got.IsJSON {
		text, _ := got.Body.(string)
		return tool.NewResult(map[string]any{"text": text}), nil
	}
	return tool.NewResult(got.Body), nil
}
