package openai

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"google.golang.org/genai"

	"agenthost/internal/modelapi"
	"agenthost/pkg/model"
)

// encodeRequest returns a call's body.
func (o *openAI) encodeRequest(ctx context.Context, req *model.Request) (map[string]any, error) {
	config := req.Config
	if config == nil {
		config = &genai.GenerateContentConfig{}
	}
	target := o.newTarget(cmp.Or(req.Model, o.name))
	messages, err := target.encodeMessages(req)
	if err != nil {
		return nil, err
	}
	body := map[string]any{"model": target.model, "messages": messages}
	if req.Stream {
		body["stream"] = true
		body["stream_options"] = map[string]any{"include_usage": true}
	}
	target.addSettings(body, config)
	if err := addChatTools(body, target.model, config); err != nil {
		return nil, err
	}
	target.addFormat(body, config)
	if config.HTTPOptions != nil {
		maps.Copy(body, config.HTTPOptions.ExtraBody)
	}
	o.logUnsupported(ctx, target, config)
	return body, nil
}

// addSettings adds the settings that both APIs have.
func (t *chatTarget) addSettings(body map[string]any, c *genai.GenerateContentConfig) {
	set := func(name string, is bool, value any) {
		if is {
			body[name] = value
		}
	}
	limit := "max_tokens"
	if t.openAI {
		limit = "max_completion_tokens"
	}
	set(limit, c.MaxOutputTokens > 0, c.MaxOutputTokens)
	set(cmp.Or(t.seed, "seed"), c.Seed != nil, c.Seed)
	if !t.reasoning {
		set("stop", len(c.StopSequences) > 0, c.StopSequences)
		set("temperature", c.Temperature != nil, c.Temperature)
		set("top_p", c.TopP != nil, c.TopP)
		set("presence_penalty", c.PresencePenalty != nil, c.PresencePenalty)
		set("frequency_penalty", c.FrequencyPenalty != nil, c.FrequencyPenalty)
	}
	if t.topK && c.TopK != nil {
		body["top_k"] = int(*c.TopK)
	}
	t.addThinking(body, c.ThinkingConfig)
}

// addChatTools adds the functions and the tool choice. If the model must call one of several
// functions, the others are left out: not all services let the model choose among several.
func addChatTools(body map[string]any, name string, c *genai.GenerateContentConfig) error {
	declared, choice, err := chooseFunctions(name, c)
	if err != nil || len(declared) == 0 {
		return err
	}
	var tools []any
	for _, d := range declared {
		tools = append(tools, map[string]any{"type": "function", "function": modelapi.ChatDeclaration(d)})
	}
	body["tools"] = tools
	switch {
	case choice.name != "":
		body["tool_choice"] = map[string]any{"type": "function", "function": map[string]any{"name": choice.name}}
	case choice.mode != "":
		body["tool_choice"] = choice.mode
	}
	return nil
}

// A functionChoice is auto, none, required or a function's name.
type functionChoice struct{ mode, name string }

// chooseFunctions returns a request's functions and the choice among them.
func chooseFunctions(name string, c *genai.GenerateContentConfig) (declared []*genai.FunctionDeclaration, choice functionChoice, err error) {
	declared, err = modelapi.FunctionDeclarations(name, c.Tools)
	if err != nil || c.ToolConfig == nil || c.ToolConfig.FunctionCallingConfig == nil {
		return declared, choice, err
	}
	calling := c.ToolConfig.FunctionCallingConfig
	switch calling.Mode {
	case genai.FunctionCallingConfigModeAny:
		choice.mode = "required"
		switch len(calling.AllowedFunctionNames) {
		case 0:
		case 1:
			choice.name = calling.AllowedFunctionNames[0]
		default:
			declared = slices.DeleteFunc(slices.Clone(declared), func(d *genai.FunctionDeclaration) bool {
				return !slices.Contains(calling.AllowedFunctionNames, d.Name)
			})
		}
	case genai.FunctionCallingConfigModeNone:
		choice.mode = "none"
	case genai.FunctionCallingConfigModeAuto, genai.FunctionCallingConfigModeValidated:
		choice.mode = "auto"
	}
	return declared, choice, nil
}

// logUnsupported logs settings that the service lacks.
func (o *openAI) logUnsupported(ctx context.Context, t *chatTarget, c *genai.GenerateContentConfig) {
	left := *c
	if t.topK {
		left.TopK = nil
	}
	names := modelapi.UnsupportedSettings(&left)
	if t.reasoning {
		names = append(names, modelapi.JsonKeys(genai.GenerateContentConfig{
			Temperature: c.Temperature, TopP: c.TopP, StopSequences: c.StopSequences, PresencePenalty: c.PresencePenalty, FrequencyPenalty: c.FrequencyPenalty,
		})...)
	}
	if t.plain && t.effortOf(c.ThinkingConfig) != "" {
		names = append(names, "thinkingConfig")
	}
	if len(names) > 0 {
		o.opts.Logger.WarnContext(ctx, "ignoring Gemini settings that this provider does not support", "model", o.name, "settings", names)
	}
}
