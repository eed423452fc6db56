package provider

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

func (o *openAI) encodeRequest(ctx context.Context, req *model.Request) (map[string]any, error) {
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
	return body, nil
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
	schema := responseSchema(c)
	switch {
	case schema != nil:
		body["response_format"] = map[string]any{
			"type": "json_schema", "json_schema": map[string]any{"name": "answer", "schema": schema},
		}
	case c.ResponseMIMEType == "application/json":
		body["response_format"] = map[string]any{"type": "json_object"}
	}
}

// responseSchema returns the JSON Schema of the response, or nil.
func responseSchema(c *genai.GenerateContentConfig) any {
	if c.ResponseJsonSchema == nil && c.ResponseSchema != nil {
		return plainSchema(c.ResponseSchema)
	}
	return c.ResponseJsonSchema
}

// addTools adds the functions and the tool choice.
func (o *openAI) addTools(body map[string]any, c *genai.GenerateContentConfig) error {
	declared, err := functionDeclarations(o.name, c.Tools)
	if err != nil {
		return err
	}
	var tools []any
	for _, d := range declared {
		tools = append(tools, map[string]any{"type": "function", "function": chatDeclaration(d)})
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

// functionDeclarations returns the functions of a request. It rejects Gemini's built-in
// tools, which cannot be ignored without changing the result.
func functionDeclarations(name string, tools []*genai.Tool) ([]*genai.FunctionDeclaration, error) {
	var declared []*genai.FunctionDeclaration
	for _, t := range tools {
		if t == nil {
			continue
		}
		bare := *t
		bare.FunctionDeclarations = nil
		if names := jsonKeys(bare); len(names) > 0 {
			return nil, newConfigError(http.StatusBadRequest, fmt.Sprintf("%s has no %s: that is a tool of Gemini's", name, strings.Join(names, " and ")))
		}
		declared = append(declared, t.FunctionDeclarations...)
	}
	return declared, nil
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
	if names := unsupportedSettings(&left); len(names) > 0 {
		o.opts.Logger.WarnContext(ctx, "ignoring Gemini settings that this provider does not support", "model", o.name, "settings", names)
	}
}

// unsupportedSettings returns the names of the settings that are not in
// [supportedSettings], sorted.
func unsupportedSettings(c *genai.GenerateContentConfig) []string {
	left := *c
	if len(left.ResponseModalities) == 1 && left.ResponseModalities[0] == "TEXT" {
		left.ResponseModalities = nil
	}
	return slices.DeleteFunc(jsonKeys(left), func(name string) bool { return slices.Contains(supportedSettings(), name) })
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

// chatMessages converts the conversation: the system instruction first, and each tool
// response right after the message with its call.
func chatMessages(req *model.Request) ([]chatMessage, error) {
	w := &chatWriter{open: map[string][]string{}}
	if instruction := req.Instruction(); instruction != "" {
		w.messages = append(w.messages, chatMessage{Role: "system", Content: instruction})
	}
	for _, c := range endWithUser(normalizeContents(openAIVendor, req.Contents)) {
		if err := w.addContent(c); err != nil {
			return nil, err
		}
	}
	return w.messages, nil
}

// A chatWriter converts contents to messages.
type chatWriter struct {
	messages []chatMessage
	// open holds the IDs of calls without a response, by function name; made counts the
	// generated IDs, because Gemini's calls need none.
	open         map[string][]string
	generatedIDs int
}

func (w *chatWriter) addContent(c *genai.Content) error {
	if c.Role == genai.RoleModel {
		return w.addAssistant(c)
	}
	var parts []chatPart
	for _, p := range c.Parts {
		switch {
		case p == nil:
		case p.FunctionResponse != nil:
			if err := w.addToolResponse(p.FunctionResponse); err != nil {
				return err
			}
		default:
			part, err := userPart(p)
			if err != nil {
				return err
			}
			if part != nil {
				parts = append(parts, *part)
			}
		}
	}
	switch {
	case len(parts) == 1 && parts[0].Type == "text":
		w.messages = append(w.messages, chatMessage{Role: "user", Content: parts[0].Text})
	case len(parts) > 0:
		w.messages = append(w.messages, chatMessage{Role: "user", Content: parts})
	}
	return nil
}

// addAssistant adds the text and calls of the model, without thoughts.
func (w *chatWriter) addAssistant(c *genai.Content) error {
	m := chatMessage{Role: "assistant"}
	var text strings.Builder
	for _, p := range c.Parts {
		switch {
		case p == nil || p.Thought:
		case p.FunctionCall != nil:
			call, err := w.encodeCall(p.FunctionCall)
			if err != nil {
				return err
			}
			m.ToolCalls = append(m.ToolCalls, call)
		default:
			text.WriteString(answerText(p))
		}
	}
	if text.Len() > 0 {
		m.Content = text.String()
	}
	if m.Content != nil || len(m.ToolCalls) > 0 {
		w.messages = append(w.messages, m)
	}
	return nil
}

// answerText returns the text of a part of an answer that is no call. Code is text.
func answerText(p *genai.Part) string {
	switch {
	case p.ExecutableCode != nil:
		return p.ExecutableCode.Code
	case p.CodeExecutionResult != nil:
		return p.CodeExecutionResult.Output
	}
	return p.Text
}

func (w *chatWriter) encodeCall(c *genai.FunctionCall) (chatCall, error) {
	args := c.Args
	if args == nil {
		args = map[string]any{}
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return chatCall{}, newConfigError(http.StatusBadRequest, fmt.Sprintf("cannot encode arguments of %s: %s", c.Name, err))
	}
	id := c.ID
	if id == "" {
		w.generatedIDs++
		id = fmt.Sprintf("call_%d", w.generatedIDs)
		w.open[c.Name] = append(w.open[c.Name], id)
	}
	return chatCall{ID: id, Type: "function", Function: chatFunction{Name: c.Name, Arguments: string(raw)}}, nil
}

// addToolResponse answers the call with its ID, or the first open call of its name.
func (w *chatWriter) addToolResponse(r *genai.FunctionResponse) error {
	raw, err := json.Marshal(r.Response)
	if err != nil {
		return newConfigError(http.StatusBadRequest, fmt.Sprintf("cannot encode response of %s: %s", r.Name, err))
	}
	id := r.ID
	if open := w.open[r.Name]; id == "" && len(open) > 0 {
		id, w.open[r.Name] = open[0], open[1:]
	}
	if id == "" {
		// The call is no longer in the conversation: add the response as text.
		w.messages = append(w.messages, chatMessage{Role: "user", Content: fmt.Sprintf("%s answered: %s", r.Name, raw)})
		return nil
	}
	w.messages = append(w.messages, chatMessage{Role: "tool", ToolCallID: id, Content: string(raw)})
	return nil
}

// userPart converts text, an image, audio or a file; it returns nil for an empty part.
func userPart(p *genai.Part) (*chatPart, error) {
	switch {
	case p.InlineData != nil:
		return inlinePart(p.InlineData)
	case p.FileData != nil && strings.HasPrefix(p.FileData.MIMEType, "image/") && strings.HasPrefix(p.FileData.FileURI, "http"):
		return &chatPart{Type: "image_url", ImageURL: &chatImage{p.FileData.FileURI}}, nil
	case p.FileData != nil:
		return nil, newConfigError(http.StatusBadRequest, fmt.Sprintf("a file of type %s by its address cannot be sent to this provider: only images on the web can", cmp.Or(p.FileData.MIMEType, "unknown")))
	case p.Text == "":
		return nil, nil
	}
	return &chatPart{Type: "text", Text: p.Text}, nil
}

func inlinePart(b *genai.Blob) (*chatPart, error) {
	kind, _, _ := strings.Cut(b.MIMEType, ";")
	data := base64.StdEncoding.EncodeToString(b.Data)
	sounds := map[string]string{"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
	switch {
	case strings.HasPrefix(kind, "image/"):
		return &chatPart{Type: "image_url", ImageURL: &chatImage{"data:" + kind + ";base64," + data}}, nil
	case isTextData(b):
		return &chatPart{Type: "text", Text: dataText(b)}, nil
	case sounds[kind] != "":
		return &chatPart{Type: "input_audio", Audio: &chatAudio{data, sounds[kind]}}, nil
	case kind == "application/pdf":
		return &chatPart{Type: "file", File: &chatFile{cmp.Or(b.DisplayName, "file.pdf"), "data:" + kind + ";base64," + data}}, nil
	}
	return nil, newConfigError(http.StatusBadRequest, fmt.Sprintf("data of type %s cannot be sent to this provider: images, texts, PDF, WAV and MP3 can", cmp.Or(kind, "unknown")))
}

// isTextData reports whether data is sent as text.
func isTextData(b *genai.Blob) bool {
	kind, _, _ := strings.Cut(b.MIMEType, ";")
	return strings.HasPrefix(kind, "text/") || kind == "application/json"
}

func dataText(b *genai.Blob) string { return strings.ToValidUTF8(string(b.Data), "\uFFFD") }
