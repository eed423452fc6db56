package mcptool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/genai"

	"agenthost/internal/safe"
	"agenthost/pkg/model"
	"agenthost/pkg/tool"
)

//lint:file-ignore SA1019 servers use sampling until MCP removes it

// A server may use the calling agent's model during a call (MCP 2025-11-25 client features,
// sampling; deprecated since 2026-07-28). The model sees only what the server sends: neither the
// conversation nor the agent's instruction and tools.

// maxSampling limits the text and the files in one server request, in bytes.
const maxSampling = 1 << 20

// newSamplingCall returns what answers the requests during a call, or nil if the server may
// not use the model.
func (l *link) newSamplingCall(ctx context.Context, call *tool.Call) *samplingCall {
	if l.server.offer.Sampling == nil {
		return nil
	}
	return &samplingCall{ctx: ctx, call: call, limits: l.server.offer.Sampling}
}

// handleSampling is the library's handler.
func (l *link) handleSampling(ctx context.Context, req *mcp.CreateMessageRequest) (res *mcp.CreateMessageResult, err error) {
	defer safe.Recover(func(p *safe.Panic) {
		p.Log(l.logger, "a model request from an MCP server panicked")
		res, err = nil, errors.New("the model failed")
	})
	c := l.sampling.Load()
	if c == nil || req.Params == nil {
		return nil, errors.New("the model can be used only during a tool call")
	}
	return c.answerRequest(ctx, l.logger, req.Params)
}

// answerRequest asks the calling agent's model, within the limits. The errors are for the server.
func (c *samplingCall) answerRequest(ctx context.Context, logger *slog.Logger, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
	switch {
	case c.call.AskModel == nil:
		return nil, errors.New("the calling agent has no model")
	case c.used.Add(1) > int64(c.limits.MaxCalls):
		return nil, fmt.Errorf("the limit of model requests in a call, %d, is reached", c.limits.MaxCalls)
	}
	asked, err := c.limits.buildRequest(params)
	if err != nil {
		return nil, err
	}
	inner, cancel := context.WithCancel(c.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	resp, err := c.call.AskModel(inner, asked)
	if err != nil {
		logger.Warn("a model request from an MCP server failed", "error", err)
		return nil, errors.New("the model failed") // its error may name the service and its account
	}
	stop := "endTurn"
	if resp.FinishReason == genai.FinishReasonMaxTokens {
		stop = "maxTokens"
	}
	return &mcp.CreateMessageResult{
		Content: &mcp.TextContent{Text: model.TextOf(resp.Content)}, Model: asked.Model, Role: "assistant", StopReason: stop,
	}, nil
}

// buildRequest returns the request to the model.
func (c *samplingConfig) buildRequest(p *mcp.CreateMessageParams) (*model.Request, error) {
	tokens := int64(c.MaxTokens)
	if p.MaxTokens > 0 {
		tokens = min(tokens, p.MaxTokens)
	}
	config := &genai.GenerateContentConfig{MaxOutputTokens: int32(tokens)}
	if p.Temperature > 0 && p.Temperature <= 2 {
		config.Temperature = new(float32(p.Temperature))
	}
	if len(p.StopSequences) <= 5 {
		config.StopSequences = p.StopSequences
	}
	req := &model.Request{Config: config}
	size := len(p.SystemPrompt)
	if p.SystemPrompt != "" {
		req.AppendInstruction(p.SystemPrompt)
	}
	for _, m := range p.Messages {
		part, n, err := readSampled(m.Content)
		if err != nil {
			return nil, err
		}
		size += n
		role := genai.RoleUser
		if m.Role == "assistant" {
			role = genai.RoleModel
		}
		req.Contents = append(req.Contents, &genai.Content{Role: role, Parts: []*genai.Part{part}})
	}
	switch {
	case len(req.Contents) == 0:
		return nil, errors.New("messages are required")
	case size > maxSampling:
		return nil, fmt.Errorf("the messages have %d bytes, more than %d", size, maxSampling)
	}
	return req, nil
}

// readSampled returns a server's message as a part, and its size in bytes.
func readSampled(c mcp.Content) (*genai.Part, int, error) {
	switch c := c.(type) {
	case *mcp.TextContent:
		return genai.NewPartFromText(c.Text), len(c.Text), nil
	case *mcp.ImageContent:
		return genai.NewPartFromBytes(c.Data, c.MIMEType), len(c.Data), nil
	case *mcp.AudioContent:
		return genai.NewPartFromBytes(c.Data, c.MIMEType), len(c.Data), nil
	}
	return nil, 0, errors.New("messages can contain only text, images and audio")
}
