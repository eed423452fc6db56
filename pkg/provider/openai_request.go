package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

func (o *openAI) encodeRequest(ctx context.Context, req *model.Request) ([]byte, error) {
	config := req.Config
	if config == nil {
		config = &genai.GenerateContentConfig{}
	}
	messages, err := chatMessages(req)
	if err != nil {
		return nil, err
	}
	body := map[string]any{"model": firstNonEmpty(req.Model, o.name), "messages": messages}
	if req.Stream {
		body["stream"] = true
		body["stream_options"] = map[string]any{"include_usage": true}
	}
	o.addSettings(body, config)
	if err := o.addTools(body, config); err != nil {
		return nil, err
	}
	o.addFormat(body, config)
	if config.HTTPOptions != nil {
		maps.Copy(body, config.HTTPOptions.ExtraBody)
	}
	o.logUnsupported(ctx, config)
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, newConfigError(http.StatusBadRequest, "cannot encode request: "+err.Error())
	}
	return raw, nil
}

// addSettings adds the settings that both APIs have.
func (o *openAI) addSettings(body map[string]any, c *genai.GenerateContentConfig) {
	set := func(name string, is bool, value any) {
		if is {
			body[name] = value
		}
	}
	limit := "max_tokens"
	if o.isOpenAI() {
		limit = "max_completion_tokens"
	}
	set(limit, c.MaxOutputTokens > 0, c.MaxOutputTokens)
	set("temperature", c.Temperature != nil, c.Temperature)
	set("top_p", c.TopP != nil, c.TopP)
	set("stop", len(c.StopSequences) > 0, c.StopSequences)
	set("presence_penalty", c.PresencePenalty != nil, c.PresencePenalty)
	set("frequency_penalty", c.FrequencyPenalty != nil, c.FrequencyPenalty)
	set("seed", c.Seed != nil, c.Seed)
	if c.ThinkingConfig != nil {
		level := strings.ToLower(string(c.ThinkingConfig.ThinkingLevel))
		set("reasoning_effort", level != "", level)
	}
}

// addFormat requests JSON, or JSON that matches a schema.
func (o *openAI) addFormat(body map[string]any, c *genai.GenerateContentConfig) {
	schema := c.ResponseJsonSchema
	if schema == nil && c.ResponseSchema != nil {
		schema = plainSchema(c.ResponseSchema)
	}
	switch {
	case schema != nil:
		body["response_format"] = map[string]any{
			"type": "json_schema", "json_schema": map[string]any{"name": "answer", "schema": schema},
		}
	case c.ResponseMIMEType == "application/json":
		body["response_format"] = map[string]any{"type": "json_object"}
	}
}

// addTools adds the functions and the tool choice. It rejects Gemini's built-in tools,
// which cannot be ignored without changing the result.
func (o *openAI) addTools(body map[string]any, c *genai.GenerateContentConfig) error {
	var tools []any
	for _, t := range c.Tools {
		if t == nil {
			continue
		}
		bare := *t
		bare.FunctionDeclarations = nil
		if names := jsonKeys(bare); len(names) > 0 {
			return newConfigError(http.StatusBadRequest, fmt.Sprintf("%s has no %s: that is a tool of Gemini's", o.name, strings.Join(names, " and ")))
		}
		for _, d := range t.FunctionDeclarations {
			tools = append(tools, map[string]any{"type": "function", "function": chatDeclaration(d)})
		}
	}
	if len(tools) == 0 {
		return nil
	}
	body["tools"] = tools
	if c.ToolConfig != nil && c.ToolConfig.FunctionCallingConfig != nil {
		if choice := toolChoice(c.ToolConfig.FunctionCallingConfig); choice != nil {
			body["tool_choice"] = choice
		}
	}
	return nil
}

func chatDeclaration(d *genai.FunctionDeclaration) map[string]any {
	f := map[string]any{"name": d.Name, "parameters": map[string]any{"type": "object", "properties": map[string]any{}}}
	if d.Description != "" {
		f["description"] = d.Description
	}
	switch {
	case d.ParametersJsonSchema != nil:
		f["parameters"] = d.ParametersJsonSchema
	case d.Parameters != nil:
		f["parameters"] = plainSchema(d.Parameters)
	}
	return f
}

func toolChoice(c *genai.FunctionCallingConfig) any {
	switch c.Mode {
	case genai.FunctionCallingConfigModeAny:
		if len(c.AllowedFunctionNames) == 1 {
			return map[string]any{"type": "function", "function": map[string]any{"name": c.AllowedFunctionNames[0]}}
		}
		return "required"
	case genai.FunctionCallingConfigModeNone:
		return "none"
	case genai.FunctionCallingConfigModeAuto:
		return "auto"
	}
	return nil
}

// plainSchema converts Gemini's schema format to JSON Schema: its types are upper case,
// and its counts are strings.
func plainSchema(s *genai.Schema) any {
	raw, err := json.Marshal(s)
	var v any
	if err != nil || json.Unmarshal(raw, &v) != nil {
		return map[string]any{}
	}
	return lowerTypes(v)
}

func lowerTypes(v any) any {
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			v[i] = lowerTypes(item)
		}
	case map[string]any:
		for key, inner := range v {
			text, isText := inner.(string)
			switch {
			case key == "type" && isText:
				v[key] = strings.ToLower(text)
			case isText && (strings.HasPrefix(key, "min") || strings.HasPrefix(key, "max")):
				v[key] = json.Number(text)
			case key != "enum" && key != "example" && key != "default":
				v[key] = lowerTypes(inner)
			}
		}
	}
	return v
}

// supportedSettings lists the Gemini API settings that are sent or have no effect here.
func supportedSettings() []string {
	return []string{
		"httpOptions", "systemInstruction", "temperature", "topP", "maxOutputTokens", "stopSequences", "presencePenalty", "frequencyPenalty",
		"seed", "responseMimeType", "responseSchema", "responseJsonSchema", "tools", "toolConfig", "automaticContinuation",
	}
}

// logUnsupported logs settings that the chat completions API lacks.
func (o *openAI) logUnsupported(ctx context.Context, c *genai.GenerateContentConfig) {
	left := *c
	if t := left.ThinkingConfig; t != nil && t.ThinkingBudget == nil {
		left.ThinkingConfig = nil // its level is carried
	}
	if len(left.ResponseModalities) == 1 && left.ResponseModalities[0] == "TEXT" {
		left.ResponseModalities = nil
	}
	names := slices.DeleteFunc(jsonKeys(left), func(name string) bool { return slices.Contains(supportedSettings(), name) })
	if len(names) > 0 {
		o.opts.Logger.WarnContext(ctx, "ignoring Gemini settings that this provider does not support", "model", o.name, "settings", names)
	}
}

// jsonKeys returns the JSON names of the non-empty fields of a struct, sorted.
func jsonKeys(v any) []string {
	raw, err := json.Marshal(v)
	var fields map[string]json.RawMessage
	if err != nil || json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(fields))
}
