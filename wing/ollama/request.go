package ollama

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/legalrequest"
	"agenthost/internal/modelapi"
	"agenthost/pkg/model"
)

// encodeRequest returns a call's body. It always has stream, because the server's default is true.
func (o *ollama) encodeRequest(ctx context.Context, req *model.Request) (map[string]any, error) {
	config := req.Config
	if config == nil {
		config = &genai.GenerateContentConfig{}
	}
	messages, err := o.encodeMessages(req)
	if err != nil {
		return nil, err
	}
	name := cmp.Or(req.Model, o.name)
	body := map[string]any{"model": name, "messages": messages, "stream": req.Stream}
	tools, err := ollamaTools(name, config)
	if err != nil {
		return nil, err
	}
	if len(tools) > 0 {
		body["tools"] = tools
	}
	if options := o.encodeOptions(config); len(options) > 0 {
		body["options"] = options
	}
	if think := o.thinkValue(name, config.ThinkingConfig); think != nil {
		body["think"] = think
	}
	if keep, _ := parseKeepAlive(o.opts.KeepAlive); keep != nil {
		body["keep_alive"] = keep
	}
	if schema := modelapi.ResponseSchema(config); schema != nil {
		body["format"] = schema
	} else if config.ResponseMIMEType == "application/json" {
		body["format"] = "json"
	}
	if config.HTTPOptions != nil {
		maps.Copy(body, config.HTTPOptions.ExtraBody)
	}
	o.logUnsupported(ctx, config)
	return body, nil
}

// encodeOptions returns the model's settings with the request's.
func (o *ollama) encodeOptions(c *genai.GenerateContentConfig) map[string]any {
	options := maps.Clone(o.opts.Options)
	if options == nil {
		options = map[string]any{}
	}
	set := func(name string, is bool, value any) {
		if is {
			options[name] = value
		}
	}
	set("num_predict", c.MaxOutputTokens > 0, c.MaxOutputTokens)
	set("temperature", c.Temperature != nil, c.Temperature)
	set("top_p", c.TopP != nil, c.TopP)
	if c.TopK != nil {
		options["top_k"] = int(*c.TopK)
	}
	set("stop", len(c.StopSequences) > 0, c.StopSequences)
	set("presence_penalty", c.PresencePenalty != nil, c.PresencePenalty)
	set("frequency_penalty", c.FrequencyPenalty != nil, c.FrequencyPenalty)
	set("seed", c.Seed != nil, c.Seed)
	return options
}

// thinkValue returns whether and how much the model thinks, or nil to leave it to the
// model. Only gpt-oss has levels; the server refuses them for other models.
func (o *ollama) thinkValue(name string, t *genai.ThinkingConfig) any {
	if t != nil && t.ThinkingLevel != "" && t.ThinkingLevel != genai.ThinkingLevelUnspecified {
		if !strings.Contains(name, "gpt-oss") {
			return true
		}
		if t.ThinkingLevel == genai.ThinkingLevelMinimal {
			return "low"
		}
		return strings.ToLower(string(t.ThinkingLevel))
	}
	if t != nil && t.ThinkingBudget != nil {
		return *t.ThinkingBudget != 0
	}
	switch o.opts.Think {
	case "":
		return nil
	case "true", "false":
		return o.opts.Think == "true"
	}
	return o.opts.Think
}

// ollamaTools returns declarations for the functions that the model may call. The server has no
// tool choice: the others are left out.
func ollamaTools(name string, c *genai.GenerateContentConfig) ([]any, error) {
	declared, err := modelapi.FunctionDeclarations(name, c.Tools)
	if err != nil {
		return nil, err
	}
	choice := &genai.FunctionCallingConfig{}
	if c.ToolConfig != nil && c.ToolConfig.FunctionCallingConfig != nil {
		choice = c.ToolConfig.FunctionCallingConfig
	}
	if choice.Mode == genai.FunctionCallingConfigModeNone {
		return nil, nil
	}
	var tools []any
	for _, d := range declared {
		if len(choice.AllowedFunctionNames) == 0 || slices.Contains(choice.AllowedFunctionNames, d.Name) {
			tools = append(tools, map[string]any{"type": "function", "function": modelapi.ChatDeclaration(d)})
		}
	}
	return tools, nil
}

// logUnsupported logs settings that Ollama lacks.
func (o *ollama) logUnsupported(ctx context.Context, c *genai.GenerateContentConfig) {
	left := *c
	left.ThinkingConfig, left.TopK = nil, nil
	if t := left.ToolConfig; t != nil && t.FunctionCallingConfig != nil && t.FunctionCallingConfig.Mode != genai.FunctionCallingConfigModeAny {
		left.ToolConfig = nil
	}
	names := modelapi.UnsupportedSettings(&left)
	if left.ToolConfig != nil {
		names = append(names, "toolConfig") // a call cannot be forced
	}
	if len(names) > 0 {
		o.opts.Logger.WarnContext(ctx, "ignoring Gemini settings that this provider does not support", "model", o.name, "settings", names)
	}
}

// An ollamaMessage is a message in a request or a response.
type ollamaMessage struct {
	Role       string       `json:"role"`
	Content    string       `json:"content"`
	Thinking   string       `json:"thinking,omitempty"`
	Images     []string     `json:"images,omitempty"` // base64
	ToolCalls  []ollamaCall `json:"tool_calls,omitempty"`
	ToolName   string       `json:"tool_name,omitempty"`
	ToolCallID string       `json:"tool_call_id,omitempty"`
}

type ollamaCall struct {
	ID       string `json:"id,omitempty"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// UnmarshalJSON reads the fields in the types that servers write.
func (c *ollamaCall) UnmarshalJSON(data []byte) error {
	type plain ollamaCall
	own := struct {
		*plain
		ID modelapi.LooseText `json:"id"`
	}{plain: (*plain)(c)}
	if err := json.Unmarshal(data, &own); err != nil {
		return err
	}
	c.ID = string(own.ID)
	return nil
}

// encodeMessages converts the conversation: the system instruction first, and the tool responses
// after the message with the calls.
func (o *ollama) encodeMessages(req *model.Request) ([]ollamaMessage, error) {
	var messages []ollamaMessage
	if instruction := req.Instruction(); instruction != "" {
		messages = append(messages, ollamaMessage{Role: "system", Content: instruction})
	}
	contents := modelapi.EndWithUser(req.Contents)
	thoughts := modelapi.FirstThoughtIndex(contents, o.opts.Thoughts)
	for i, c := range contents {
		var own []ollamaMessage
		var err error
		if c.Role == genai.RoleModel {
			own, err = encodeOllamaAnswer(c, i >= thoughts)
		} else {
			own, err = encodeOllamaInput(c)
		}
		if err != nil {
			return nil, err
		}
		messages = append(messages, own...)
	}
	return messages, nil
}

// encodeOllamaAnswer converts what the model wrote.
func encodeOllamaAnswer(c *genai.Content, thoughts bool) ([]ollamaMessage, error) {
	m := ollamaMessage{Role: "assistant"}
	if thoughts {
		m.Thinking = modelapi.ThoughtText(c.Parts, ollamaName)
	}
	for _, p := range c.Parts {
		switch {
		case p == nil || p.Thought:
		case p.FunctionCall != nil:
			raw, err := modelapi.EncodeArguments(p.FunctionCall)
			if err != nil {
				return nil, err
			}
			call := ollamaCall{ID: p.FunctionCall.ID}
			call.Function.Name, call.Function.Arguments = p.FunctionCall.Name, raw
			m.ToolCalls = append(m.ToolCalls, call)
		default:
			m.Content += modelapi.AnswerText(p)
		}
	}
	if m.Content == "" && m.Thinking == "" && len(m.ToolCalls) == 0 {
		return nil, nil
	}
	return []ollamaMessage{m}, nil
}

// encodeOllamaInput converts a user message and the tool responses. Their files follow in a user
// message.
func encodeOllamaInput(c *genai.Content) ([]ollamaMessage, error) {
	var messages []ollamaMessage
	user := ollamaMessage{Role: "user"}
	var texts []string
	for _, r := range model.ResponsesOf(c) {
		raw, err := modelapi.EncodeResponse(r)
		if err != nil {
			return nil, err
		}
		messages = append(messages, ollamaMessage{Role: "tool", Content: string(raw), ToolName: r.Name, ToolCallID: r.ID})
	}
	for _, p := range slices.Concat(modelapi.ResponseMedia(model.ResponsesOf(c)), c.Parts) {
		switch {
		case p == nil || p.FunctionResponse != nil:
		case p.InlineData != nil && modelapi.IsTextData(p.InlineData):
			texts = append(texts, modelapi.DataText(p.InlineData))
		case p.InlineData != nil:
			user.Images = append(user.Images, base64.StdEncoding.EncodeToString(p.InlineData.Data))
		case p.Text != "":
			texts = append(texts, p.Text)
		}
	}
	user.Content = strings.Join(texts, "\n")
	if user.Content != "" || len(user.Images) > 0 {
		messages = append(messages, user)
	}
	return messages, nil
}

// The services table: what each one accepts. Sources are
// https://ai.google.dev/api/caching#FunctionDeclaration with the media guides,
// https://docs.claude.com/en/api/messages, https://platform.openai.com/docs/api-reference and
// https://github.com/ollama/ollama/blob/main/docs/api.md.
var (
	// ollamaRules apply to Ollama's API. Its names are free, but models write them.
	ollamaRules = legalrequest.Rules{
		Names: legalrequest.NameRule{Legal: regexp.MustCompile(`^[a-zA-Z0-9_.:/-]+$`), Illegal: regexp.MustCompile(`[^a-zA-Z0-9_.:/-]`), Max: 128},
		Ids:   legalrequest.IDRule{Legal: legalrequest.AnyID, Max: 128, Prefix: "call_", Optional: true}, BlankText: true,
		Media: legalrequest.MediaRule{Inline: slices.Concat([]string{"image/png", "image/jpeg", "image/webp"}, legalrequest.TextTypes)},
	}
)
