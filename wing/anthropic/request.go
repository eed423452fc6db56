package anthropic

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/modelapi"
	"agenthost/internal/modelcall"
	"agenthost/pkg/model"
)

const (
	defaultAnthropicTokens = 8192
	minThinkingBudget      = 1024

	thinkingOff      = "off"
	thinkingAdaptive = "adaptive"

	cacheOff  = "off"
	cacheHour = "1h"
)

// newCall encodes a request.
func (a *anthropic) newCall(ctx context.Context, req *model.Request) (*anthropicCall, error) {
	config := req.Config
	if config == nil {
		config = &genai.GenerateContentConfig{}
	}
	c := &anthropicCall{
		anthropic: a, model: cmp.Or(req.Model, a.name), body: map[string]any{}, options: config.HTTPOptions, maxCalls: req.MaxCalls,
	}
	if a.opts.Vertex != nil {
		c.body["anthropic_version"] = vertexVersion
	} else {
		c.body["model"] = c.model
	}
	if req.Stream {
		c.body["stream"] = true
	}
	messages, err := anthropicMessages(modelapi.BareModelName(c.model), req.Contents)
	if err != nil {
		return nil, err
	}
	tools, err := c.addTools(config, messages)
	if err != nil {
		return nil, err
	}
	if err := c.addThinking(config, messages); err != nil {
		return nil, err
	}
	ignored := c.addSampling(config)
	if tools, err = c.addFormat(config, tools); err != nil {
		return nil, err
	}
	var system []anthropicBlock
	if strings.TrimSpace(req.Instruction()) != "" {
		system = []anthropicBlock{{"type": "text", "text": req.Instruction()}}
	}
	c.addCache(req.Cache, tools, system, messages)
	c.body["messages"] = messages
	if len(tools) > 0 {
		c.body["tools"] = tools
	}
	if len(system) > 0 {
		c.body["system"] = system
	}
	if config.HTTPOptions != nil {
		maps.Copy(c.body, config.HTTPOptions.ExtraBody)
	}
	a.logUnsupported(ctx, config, ignored)
	return c, nil
}

// addThinking adds the thinking mode, the effort and the response limit. The service rejects a
// budget with forced calls, or if the calls in the current loop have no thoughts, such as those of
// another model; thinking is then off for this call.
func (c *anthropicCall) addThinking(config *genai.GenerateContentConfig, messages []anthropicMessage) error {
	mode, err := c.thinkingMode(config.ThinkingConfig)
	if err != nil {
		return err
	}
	if c.isForced() {
		mode = thinkingOff
	}
	budget := 0
	switch mode {
	case "":
	case thinkingOff:
		c.body["thinking"] = map[string]any{"type": "disabled"}
	case thinkingAdaptive:
		// Newer models omit their thoughts' text unless the request asks for it.
		c.body["thinking"] = map[string]any{"type": "adaptive", "display": "summarized"}
	default:
		if budget, err = strconv.Atoi(mode); err != nil || budget < minThinkingBudget {
			return modelcall.NewConfigError(http.StatusBadRequest, fmt.Sprintf("the thinking budget of %s must be at least %d tokens, got %s", c.model, minThinkingBudget, mode))
		}
		if continuesUnthought(messages) {
			budget = 0
			break
		}
		c.body["thinking"] = map[string]any{"type": "enabled", "budget_tokens": budget}
	}
	limit := int(config.MaxOutputTokens)
	if limit == 0 {
		limit = int(c.anthropic.opts.MaxOutputTokens)
	}
	if limit == 0 {
		limit = defaultAnthropicTokens + budget
	}
	if budget >= limit {
		return modelcall.NewConfigError(http.StatusBadRequest, fmt.Sprintf("the thinking budget of %s must be less than max_output_tokens, got %d of %d", c.model, budget, limit))
	}
	c.body["max_tokens"] = limit
	if c.anthropic.opts.Effort != "" {
		c.body["output_config"] = map[string]any{"effort": c.anthropic.opts.Effort}
	}
	return nil
}

// thinkingMode returns off, adaptive, a budget, or "". Like ADK (adk-python
// models/anthropic_llm.py), a thinking config needs a budget, unless the model has its own setting.
func (c *anthropicCall) thinkingMode(t *genai.ThinkingConfig) (string, error) {
	own := c.anthropic.opts.Thinking
	switch {
	case t == nil:
		return own, nil
	case t.ThinkingBudget == nil && own == "":
		return "", modelcall.NewConfigError(http.StatusBadRequest, fmt.Sprintf("thinking_budget is required in the thinking config of %s: "+
			"0 disables thinking and -1 leaves it to the model; or set thinking under models: in app.yaml", c.model))
	case t.ThinkingBudget == nil:
		return own, nil
	case *t.ThinkingBudget == 0:
		return thinkingOff, nil
	case *t.ThinkingBudget < 0:
		return thinkingAdaptive, nil
	}
	return strconv.Itoa(int(*t.ThinkingBudget)), nil
}

func (c *anthropicCall) isForced() bool {
	choice, _ := c.body["tool_choice"].(map[string]any)
	return choice["type"] == "any" || choice["type"] == "tool"
}

// allowsThinking reports whether the request lets the model think.
func (c *anthropicCall) allowsThinking() bool {
	thinking, _ := c.body["thinking"].(map[string]any)
	return thinking["type"] == "enabled" || thinking["type"] == "adaptive"
}

// addSampling adds the sampling settings. The service rejects them with thinking and effort. Newer
// models accept only one of temperature and top_p. It returns the names that it left out.
func (c *anthropicCall) addSampling(config *genai.GenerateContentConfig) (ignored []string) {
	if len(config.StopSequences) > 0 {
		c.body["stop_sequences"] = config.StopSequences
	}
	add := func(field, name string, value *float32) {
		switch {
		case value == nil:
		case c.allowsThinking() || c.anthropic.opts.Effort != "" || field == "top_p" && config.Temperature != nil:
			ignored = append(ignored, name)
		case field == "top_k":
			c.body[field] = int(*value)
		default:
			c.body[field] = value
		}
	}
	add("temperature", "temperature", config.Temperature)
	add("top_p", "topP", config.TopP)
	add("top_k", "topK", config.TopK)
	return ignored
}

// addTools returns the tools and adds the tool choice. It rejects Gemini's built-in tools: ignoring
// them would change the result. The service needs tools when the conversation has calls, so a
// request without tools gets the called tools, but the model may not use them.
func (c *anthropicCall) addTools(config *genai.GenerateContentConfig, messages []anthropicMessage) ([]anthropicBlock, error) {
	var tools []anthropicBlock
	allowed := allowedFunctions(config)
	for _, t := range config.Tools {
		if t == nil {
			continue
		}
		bare := *t
		bare.FunctionDeclarations = nil
		if names := modelapi.JsonKeys(bare); len(names) > 0 {
			return nil, modelcall.NewConfigError(http.StatusBadRequest, fmt.Sprintf("%s has no %s: that is a Gemini tool", c.model, strings.Join(names, " and ")))
		}
		for _, d := range t.FunctionDeclarations {
			if len(allowed) > 0 && !slices.Contains(allowed, d.Name) {
				continue
			}
			declared := modelapi.ChatDeclaration(d)
			tool := anthropicBlock{"name": d.Name, "input_schema": modelapi.LowerTypes(modelapi.CopyJSON(declared["parameters"]))}
			if d.Description != "" {
				tool["description"] = d.Description
			}
			tools = append(tools, tool)
		}
	}
	if len(tools) == 0 {
		if tools = calledTools(messages); len(tools) > 0 {
			c.body["tool_choice"] = map[string]any{"type": "none"}
		}
		return tools, nil
	}
	if config.ToolConfig != nil && config.ToolConfig.FunctionCallingConfig != nil {
		if choice := anthropicToolChoice(config.ToolConfig.FunctionCallingConfig); choice != nil {
			c.body["tool_choice"] = choice
		}
	}
	return tools, nil
}

// allowedFunctions returns the only functions that the model may call, or nil.
func allowedFunctions(config *genai.GenerateContentConfig) []string {
	if config.ToolConfig == nil || config.ToolConfig.FunctionCallingConfig == nil ||
		config.ToolConfig.FunctionCallingConfig.Mode != genai.FunctionCallingConfigModeAny {
		return nil
	}
	return config.ToolConfig.FunctionCallingConfig.AllowedFunctionNames
}

// calledTools returns a tool for each name that the messages call.
func calledTools(messages []anthropicMessage) []anthropicBlock {
	var tools []anthropicBlock
	var seen []string
	for _, m := range messages {
		for _, b := range m.Content {
			name, _ := b["name"].(string)
			if b["type"] != "tool_use" || slices.Contains(seen, name) {
				continue
			}
			seen = append(seen, name)
			tools = append(tools, anthropicBlock{"name": name, "input_schema": map[string]any{"type": "object"}})
		}
	}
	return tools
}

func anthropicToolChoice(c *genai.FunctionCallingConfig) map[string]any {
	switch c.Mode {
	case genai.FunctionCallingConfigModeAny:
		if len(c.AllowedFunctionNames) == 1 {
			return map[string]any{"type": "tool", "name": c.AllowedFunctionNames[0]}
		}
		return map[string]any{"type": "any"}
	case genai.FunctionCallingConfigModeNone:
		return map[string]any{"type": "none"}
	case genai.FunctionCallingConfigModeAuto:
		return map[string]any{"type": "auto"}
	}
	return nil
}

// addCache marks what the service should cache: the tools, the system instruction and the
// conversation, in the order in which it reads them. A context_cache_config sets the lifetime and
// the minimum prompt size (adk-python 2.8).
func (c *anthropicCall) addCache(wanted *model.CacheRequest, tools, system []anthropicBlock, messages []anthropicMessage) {
	setting := c.anthropic.opts.Cache
	if setting == cacheOff || wanted != nil && wanted.PromptTokens > 0 && wanted.PromptTokens < wanted.MinTokens {
		return
	}
	control := map[string]any{"type": "ephemeral"}
	if setting == cacheHour || wanted != nil && wanted.TTL >= time.Hour {
		control["ttl"] = cacheHour
	}
	for _, list := range [][]anthropicBlock{tools, system, messages[len(messages)-1].Content} {
		if len(list) > 0 {
			list[len(list)-1]["cache_control"] = control
		}
	}
}

// logUnsupported logs settings that the Messages API lacks or that were left out.
func (a *anthropic) logUnsupported(ctx context.Context, c *genai.GenerateContentConfig, ignored []string) {
	left := *c
	if t := left.ThinkingConfig; t != nil && t.ThinkingLevel == "" {
		left.ThinkingConfig = nil
	}
	if len(left.ResponseModalities) == 1 && left.ResponseModalities[0] == "TEXT" {
		left.ResponseModalities = nil
	}
	hasSchema := c.ResponseSchema != nil || c.ResponseJsonSchema != nil
	for _, name := range modelapi.JsonKeys(left) {
		switch name {
		case "httpOptions", "systemInstruction", "temperature", "topP", "topK", "maxOutputTokens", "stopSequences",
			"responseSchema", "responseJsonSchema", "tools", "toolConfig", "automaticContinuation":
		case "responseMimeType":
			if !hasSchema && c.ResponseMIMEType != "text/plain" {
				ignored = append(ignored, name)
			}
		default:
			ignored = append(ignored, name)
		}
	}
	if len(ignored) > 0 {
		a.opts.Logger.WarnContext(ctx, "ignoring Gemini settings that this provider does not support", "model", a.name, "settings", ignored)
	}
}
