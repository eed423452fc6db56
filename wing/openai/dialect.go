package openai

import (
	"regexp"
	"strings"

	"google.golang.org/genai"
)

// A chatDialect is what a service does differently from OpenAI's chat completions
// API. The zero value is a service that has OpenAI's settings with their first names.
type chatDialect struct {
	// format is how the service takes a response schema.
	format formatForm
	// effort is how the service takes the thinking config.
	effort effortForm
	// thoughts is the default for `thoughts`; empty sends back the current turn's signed thoughts.
	thoughts string
	// seed is the seed's field name; empty is seed.
	seed string
	// topK and video mark services that accept top_k and video_url.
	topK, video bool
	// fileIDs marks services that keep uploaded files; fileURLs those that load any file type from
	// the web.
	fileIDs, fileURLs bool
	// shortIDs marks services whose call IDs have exactly 9 alphanumeric characters.
	shortIDs bool
	// answersTools marks services that reject a user message after a tool message.
	answersTools bool
}

// A formatForm is how a response schema is sent.
type formatForm int

const (
	formatSchema  formatForm = iota // json_schema
	formatObject                    // json_object, and the schema in the instruction
	formatLiteLLM                   // json_object with response_schema: LiteLLM's form for Gemini
)

// An effortForm is how a thinking config is sent.
type effortForm int

const (
	effortLevel      effortForm = iota // reasoning_effort
	effortOpenRouter                   // reasoning: {effort, max_tokens or enabled}
	effortSwitch                       // thinking: {type: enabled or disabled}
	effortGoogle                       // extra_body.google.thinking_config
)

// A chatTarget is a call's model, with what is known about it.
type chatTarget struct {
	chatDialect
	vendor string // in the marks on parts
	model  string
	// openAI is set for OpenAI and Azure OpenAI, which use newer setting names.
	openAI bool
	// reasoning is set for OpenAI's reasoning models, which refuse sampling settings;
	// plain, for those that refuse an effort.
	reasoning, plain bool
	// gemini is set if the server passes thought signatures on to Gemini; google, if the
	// server is Google's own, which refuses LiteLLM's fields.
	gemini, google bool
}

// reasoningModels matches OpenAI's models that reason: o1, o3, gpt-5 and later, but not
// gpt-5-chat.
var reasoningModels = regexp.MustCompile(`^(o[1-9]|gpt-([5-9]|[1-9][0-9])|codex-)`)

// plainModels matches OpenAI's models that do not reason. Other names may be deployments.
var plainModels = regexp.MustCompile(`^(gpt-[34]|chatgpt-)`)

// isReasoningModel reports whether a name is an OpenAI reasoning model's.
func isReasoningModel(name string) bool {
	return reasoningModels.MatchString(name) && !strings.Contains(name, "-chat")
}

// assumeOpenAI sets what is known about OpenAI's models.
func (t *chatTarget) assumeOpenAI() {
	t.openAI, t.fileIDs = true, true
	t.reasoning, t.plain = isReasoningModel(t.model), plainModels.MatchString(t.model)
}

// addThinking adds the thinking settings in the service's form.
func (t *chatTarget) addThinking(body map[string]any, c *genai.ThinkingConfig) {
	level := t.effortOf(c)
	switch {
	case c == nil:
	case t.effort == effortGoogle:
		if thinking := googleThinking(c); len(thinking) > 0 {
			body["extra_body"] = map[string]any{"google": map[string]any{"thinking_config": thinking}}
		}
	case level == "", t.plain:
	case t.effort == effortOpenRouter:
		body["reasoning"] = openRouterReasoning(c, level)
	case t.effort == effortSwitch:
		kind := "enabled"
		if level == "minimal" || level == "none" {
			kind = "disabled"
		}
		body["thinking"] = map[string]any{"type": kind}
	default:
		body["reasoning_effort"] = level
	}
}

// newerMinors matches OpenAI's models that can turn reasoning off: gpt-5.1 and later.
var newerMinors = regexp.MustCompile(`^gpt-(5\.[1-9]|[6-9]|[1-9][0-9])`)

// effortOf returns the level in a thinking config, or "" if it has none. A budget of 0 is the
// model's lowest level, -1 is medium, and others are levels by the budgets that Google documents
// for them: 1024, 8192 and 24576 tokens.
func (t *chatTarget) effortOf(c *genai.ThinkingConfig) string {
	level := ""
	switch {
	case c == nil:
	case c.ThinkingLevel != "" && c.ThinkingLevel != genai.ThinkingLevelUnspecified:
		level = strings.ToLower(string(c.ThinkingLevel))
	case c.ThinkingBudget == nil:
	case *c.ThinkingBudget < 0:
		level = "medium"
	case *c.ThinkingBudget == 0:
		level = "minimal"
	case *c.ThinkingBudget <= 1024:
		level = "low"
	case *c.ThinkingBudget <= 8192:
		level = "medium"
	default:
		level = "high"
	}
	if level == "minimal" && t.openAI {
		switch {
		case newerMinors.MatchString(t.model):
			return "none"
		case strings.HasPrefix(t.model, "o"):
			return "low"
		}
	}
	return level
}

func googleThinking(c *genai.ThinkingConfig) map[string]any {
	thinking := map[string]any{}
	if c.ThinkingLevel != "" && c.ThinkingLevel != genai.ThinkingLevelUnspecified {
		thinking["thinking_level"] = strings.ToLower(string(c.ThinkingLevel))
	}
	if c.ThinkingBudget != nil {
		thinking["thinking_budget"] = *c.ThinkingBudget
	}
	if c.IncludeThoughts {
		thinking["include_thoughts"] = true
	}
	return thinking
}

func openRouterReasoning(c *genai.ThinkingConfig, level string) map[string]any {
	switch budget := c.ThinkingBudget; {
	case budget != nil && *budget > 0 && c.ThinkingLevel == "":
		return map[string]any{"max_tokens": *budget}
	case budget != nil && c.ThinkingLevel == "":
		return map[string]any{"enabled": *budget != 0}
	}
	return map[string]any{"effort": level}
}
