package openai

import (
	"cmp"
	"context"
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/modelapi"
	"agenthost/pkg/model"
)

// Metadata keys for parts that are Responses API items.
const (
	itemIDKey    = "id"
	itemPhaseKey = "phase"
	// fieldEncrypted marks thoughts with encrypted reasoning.
	fieldEncrypted = "encrypted_content"
)

// encodeResponsesRequest returns a call's body. The service stores nothing: the whole conversation
// is sent, with the encrypted reasoning.
func (o *openAI) encodeResponsesRequest(ctx context.Context, t *chatTarget, req *model.Request) (map[string]any, error) {
	config := req.Config
	if config == nil {
		config = &genai.GenerateContentConfig{}
	}
	input, err := t.encodeItems(req)
	if err != nil {
		return nil, err
	}
	body := map[string]any{"model": t.model, "input": input, "store": false}
	if instruction := req.Instruction(); instruction != "" {
		body["instructions"] = instruction
	}
	if req.Stream {
		body["stream"] = true
	}
	if isReasoningModel(t.model) {
		body["include"] = []string{"reasoning.encrypted_content"} // other models refuse it
	}
	t.addResponsesSettings(body, config)
	if err := addResponsesTools(body, t.model, config); err != nil {
		return nil, err
	}
	if config.HTTPOptions != nil {
		maps.Copy(body, config.HTTPOptions.ExtraBody)
	}
	o.logUnsupportedByResponses(ctx, t, config)
	return body, nil
}

// addResponsesSettings adds the settings that both APIs have.
func (t *chatTarget) addResponsesSettings(body map[string]any, c *genai.GenerateContentConfig) {
	if c.MaxOutputTokens > 0 {
		body["max_output_tokens"] = c.MaxOutputTokens
	}
	if c.Temperature != nil && !t.reasoning {
		body["temperature"] = c.Temperature
	}
	if c.TopP != nil && !t.reasoning {
		body["top_p"] = c.TopP
	}
	reasoning := map[string]any{}
	if level := t.effortOf(c.ThinkingConfig); level != "" && !t.plain {
		reasoning["effort"] = level
	}
	if c.ThinkingConfig != nil && c.ThinkingConfig.IncludeThoughts && !t.plain {
		reasoning["summary"] = "auto"
	}
	if len(reasoning) > 0 {
		body["reasoning"] = reasoning
	}
	switch schema := modelapi.ResponseSchema(c); {
	case schema != nil:
		format := namedSchema(schema)
		format["type"] = "json_schema"
		body["text"] = map[string]any{"format": format}
	case c.ResponseMIMEType == "application/json":
		body["text"] = map[string]any{"format": map[string]any{"type": "json_object"}}
	}
}

// addResponsesTools adds the functions and the tool choice. Functions are strict by default in this
// API, but few schemas permit that.
func addResponsesTools(body map[string]any, name string, c *genai.GenerateContentConfig) error {
	declared, choice, err := chooseFunctions(name, c)
	if err != nil || len(declared) == 0 {
		return err
	}
	var tools []any
	for _, d := range declared {
		tool := modelapi.ChatDeclaration(d)
		tool["type"], tool["strict"] = "function", false
		tools = append(tools, tool)
	}
	body["tools"] = tools
	switch {
	case choice.name != "":
		body["tool_choice"] = map[string]any{"type": "function", "name": choice.name}
	case choice.mode != "":
		body["tool_choice"] = choice.mode
	}
	return nil
}

// logUnsupportedByResponses logs settings that the API or the model lacks.
func (o *openAI) logUnsupportedByResponses(ctx context.Context, t *chatTarget, c *genai.GenerateContentConfig) {
	names := append(modelapi.UnsupportedSettings(c), modelapi.JsonKeys(genai.GenerateContentConfig{
		StopSequences: c.StopSequences, Seed: c.Seed, PresencePenalty: c.PresencePenalty, FrequencyPenalty: c.FrequencyPenalty,
	})...)
	if t.reasoning {
		names = append(names, modelapi.JsonKeys(genai.GenerateContentConfig{Temperature: c.Temperature, TopP: c.TopP})...)
	}
	if t.plain && t.effortOf(c.ThinkingConfig) != "" {
		names = append(names, "thinkingConfig")
	}
	if len(names) > 0 {
		slices.Sort(names)
		o.opts.Logger.WarnContext(ctx, "ignoring Gemini settings that this provider does not support", "model", o.name, "settings", names)
	}
}

// encodeItems converts the conversation to items.
func (t *chatTarget) encodeItems(req *model.Request) ([]any, error) {
	w := &itemWriter{target: t}
	contents := modelapi.EndWithUser(req.Contents)
	thoughts := modelapi.FirstThoughtIndex(contents, cmp.Or(t.thoughts, modelapi.ThoughtsAlways))
	for i, c := range contents {
		var err error
		if c.Role == genai.RoleModel {
			err = w.addAnswer(c, i >= thoughts)
		} else {
			err = w.addInput(c)
		}
		if err != nil {
			return nil, err
		}
	}
	return w.items, nil
}

// An itemWriter converts contents to items.
type itemWriter struct {
	target *chatTarget
	items  []any
}

// addAnswer adds what the model wrote. Items have their IDs only with the reasoning that
// led to them: the service refuses either without the other.
func (w *itemWriter) addAnswer(c *genai.Content, thoughts bool) error {
	withIDs := false
	for i := 0; i < len(c.Parts); i++ {
		p := c.Parts[i]
		switch {
		case p == nil:
		case p.Thought:
			group := w.reasoningGroup(c.Parts[i:])
			i += len(group) - 1
			next := i + 1
			if withIDs = thoughts && w.isOwnReasoning(group) && next < len(c.Parts) && w.ownItemID(c.Parts[next]) != ""; withIDs {
				w.items = append(w.items, encodeReasoning(group))
			}
		case p.FunctionCall != nil:
			arguments, err := modelapi.EncodeArguments(p.FunctionCall)
			if err != nil {
				return err
			}
			item := map[string]any{"type": "function_call", "call_id": p.FunctionCall.ID, "name": p.FunctionCall.Name, "arguments": string(arguments)}
			if id := w.ownItemID(p); id != "" && withIDs {
				item["id"] = id
			}
			w.items = append(w.items, item)
		default:
			w.addText(p, withIDs)
		}
	}
	return nil
}

// addText adds model text.
func (w *itemWriter) addText(p *genai.Part, withIDs bool) {
	text := modelapi.AnswerText(p)
	if text == "" {
		return
	}
	id := w.ownItemID(p)
	if id == "" || !withIDs {
		w.items = append(w.items, map[string]any{"type": "message", "role": "assistant", "content": text})
		return
	}
	content := map[string]any{"type": "output_text", "text": text, "annotations": []any{}}
	if n := len(w.items); n > 0 {
		last, _ := w.items[n-1].(map[string]any)
		if texts, ok := last["content"].([]any); ok && last["id"] == id {
			last["content"] = append(texts, content)
			return
		}
	}
	item := map[string]any{"type": "message", "role": "assistant", "id": id, "status": "completed", "content": []any{content}}
	if phase, _ := p.PartMetadata[itemPhaseKey].(string); phase != "" {
		item["phase"] = phase
	}
	w.items = append(w.items, item)
}

// ownItemID returns the ID of a part's item, if this model wrote it.
func (w *itemWriter) ownItemID(p *genai.Part) string {
	if p == nil {
		return ""
	}
	vendor, name := modelapi.PartVendor(p)
	if vendor != w.target.vendor || name != w.target.model {
		return ""
	}
	id, _ := p.PartMetadata[itemIDKey].(string)
	return id
}

// reasoningGroup returns the thoughts at the beginning of parts that belong to one item.
func (w *itemWriter) reasoningGroup(parts []*genai.Part) []*genai.Part {
	id := w.ownItemID(parts[0])
	n := 1
	for id != "" && n < len(parts) && parts[n] != nil && parts[n].Thought && w.ownItemID(parts[n]) == id {
		n++
	}
	return parts[:n]
}

// isOwnReasoning reports whether thoughts are an item with this model's encrypted reasoning.
func (w *itemWriter) isOwnReasoning(group []*genai.Part) bool {
	return w.ownItemID(group[0]) != "" && len(group[0].ThoughtSignature) > 0 && group[0].PartMetadata[thoughtFieldKey] == fieldEncrypted
}

func encodeReasoning(group []*genai.Part) map[string]any {
	summary := []any{}
	for _, p := range group {
		if p.Text != "" {
			summary = append(summary, map[string]any{"type": "summary_text", "text": p.Text})
		}
	}
	return map[string]any{
		"type": "reasoning", "id": group[0].PartMetadata[itemIDKey], "summary": summary, "encrypted_content": string(group[0].ThoughtSignature),
	}
}

// addInput adds the tool responses with their files, and then the rest of the content.
func (w *itemWriter) addInput(c *genai.Content) error {
	for _, r := range model.ResponsesOf(c) {
		raw, err := modelapi.EncodeResponse(r)
		if err != nil {
			return err
		}
		files := inputParts(modelapi.FilesOfResponse(r))
		var output any = string(raw)
		if len(files) > 0 {
			output = append([]any{inputText(string(raw))}, files...)
		}
		w.items = append(w.items, map[string]any{"type": "function_call_output", "call_id": r.ID, "output": output})
	}
	if content := inputParts(c.Parts); len(content) > 0 {
		w.items = append(w.items, map[string]any{"type": "message", "role": "user", "content": content})
	}
	return nil
}

func inputText(text string) map[string]any { return map[string]any{"type": "input_text", "text": text} }

// inputParts converts texts, images and files. It skips tool responses.
func inputParts(parts []*genai.Part) []any {
	var content []any
	for _, p := range parts {
		switch {
		case p == nil || p.FunctionResponse != nil:
		case p.InlineData != nil:
			content = append(content, inputData(p.InlineData))
		case p.FileData != nil:
			content = append(content, inputFile(p.FileData))
		case p.Text != "":
			content = append(content, inputText(p.Text))
		}
	}
	return content
}

// inputData converts data to text, an image or a file. The service reads text from PDF and office
// documents.
func inputData(b *genai.Blob) map[string]any {
	kind := modelapi.BaseType(b.MIMEType)
	dataURL := "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(b.Data)
	switch {
	case strings.HasPrefix(kind, "image/"):
		return map[string]any{"type": "input_image", "image_url": dataURL, "detail": "auto"}
	case modelapi.IsTextData(b):
		return inputText(modelapi.DataText(b))
	}
	return map[string]any{"type": "input_file", "filename": cmp.Or(b.DisplayName, "file"+documentSuffixes[kind]), "file_data": dataURL}
}

// inputFile converts a file by its address on the web or its ID.
func inputFile(f *genai.FileData) map[string]any {
	image := strings.HasPrefix(f.MIMEType, "image/")
	uploaded := strings.HasPrefix(f.FileURI, "file-")
	switch {
	case uploaded && image:
		return map[string]any{"type": "input_image", "file_id": f.FileURI, "detail": "auto"}
	case uploaded:
		return map[string]any{"type": "input_file", "file_id": f.FileURI}
	case image:
		return map[string]any{"type": "input_image", "image_url": f.FileURI, "detail": "auto"}
	}
	return map[string]any{"type": "input_file", "file_url": f.FileURI}
}
