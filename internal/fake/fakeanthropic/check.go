package fakeanthropic

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

func newInvalid(format string, args ...any) *Reply {
	return &Reply{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...)}
}

// object is a JSON object.
type object = map[string]any

// requestFields are a request's known fields.
var requestFields = strings.Fields("model max_tokens messages system stream stop_sequences temperature top_p top_k tools " +
	"tool_choice thinking metadata service_tier output_config container cache_control inference_geo")

// blockFields are each block type's known fields.
var blockFields = map[string][]string{
	"text":              strings.Fields("type text cache_control citations"),
	"image":             strings.Fields("type source cache_control"),
	"document":          strings.Fields("type source title context citations cache_control"),
	"tool_use":          strings.Fields("type id name input cache_control"),
	"tool_result":       strings.Fields("type tool_use_id content is_error cache_control"),
	"thinking":          strings.Fields("type thinking signature"),
	"redacted_thinking": strings.Fields("type data"),
	"server_tool_use":   strings.Fields("type id name input cache_control"),
}

var (
	toolName  = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
	toolUseID = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	// propertyKey matches a tool's parameter names.
	propertyKey = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)
)

// A checker checks one request.
type checker struct {
	server   *Server
	body     object
	thinking string // the type
	cached   int    // blocks with cache_control
	usedIDs  map[string]bool
}

// checkRequest rejects what the service rejects. It returns nil for a valid request.
func (s *Server) checkRequest(body object, vertex bool) *Reply {
	c := &checker{server: s, body: body, usedIDs: map[string]bool{}}
	fields := requestFields
	if vertex {
		fields = append(slices.Clone(fields[1:]), "anthropic_version")
		if body["anthropic_version"] != "vertex-2023-10-16" {
			return newInvalid("anthropic_version: Field required")
		}
	} else if model, _ := body["model"].(string); model == "" {
		return newInvalid("model: Field required")
	}
	if failure := checkFields("", body, fields); failure != nil {
		return failure
	}
	for _, check := range []func() *Reply{c.checkSettings, c.checkTools, c.checkSystem, c.checkMessages} {
		if failure := check(); failure != nil {
			return failure
		}
	}
	if c.cached > 4 {
		return newInvalid("A maximum of 4 blocks with cache_control may be provided. Found %d.", c.cached)
	}
	return nil
}

func checkFields(path string, o object, known []string) *Reply {
	for name := range o {
		if !slices.Contains(known, name) {
			return newInvalid("%s%s: Extra inputs are not permitted", path, name)
		}
	}
	return nil
}

func (c *checker) checkSettings() *Reply {
	limit, ok := c.body["max_tokens"].(float64)
	if !ok || limit < 1 {
		return newInvalid("max_tokens: Field required")
	}
	thinking, _ := c.body["thinking"].(object)
	c.thinking, _ = thinking["type"].(string)
	budget, _ := thinking["budget_tokens"].(float64)
	choice, _ := c.body["tool_choice"].(object)
	switch {
	case thinking != nil && !slices.Contains([]string{"enabled", "adaptive", "disabled"}, c.thinking):
		return newInvalid("thinking.type: Input should be 'enabled', 'adaptive' or 'disabled'")
	case c.thinking == "enabled" && budget < 1024:
		return newInvalid("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
	case c.thinking == "enabled" && budget >= limit:
		return newInvalid("`max_tokens` must be greater than `thinking.budget_tokens`.")
	case c.allowsThinking() && c.body["temperature"] != nil && c.body["temperature"] != 1.0:
		return newInvalid("`temperature` may only be set to 1 when thinking is enabled.")
	case c.body["temperature"] != nil && c.body["top_p"] != nil:
		return newInvalid("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")
	case c.allowsThinking() && c.body["top_k"] != nil:
		return newInvalid("`top_k` must be unset when thinking is enabled.")
	case c.allowsThinking() && (choice["type"] == "any" || choice["type"] == "tool"):
		return newInvalid("Thinking may not be enabled when tool_choice forces tool use.")
	}
	return c.checkOutput()
}

// allowsThinking reports whether the request allows the model to think.
func (c *checker) allowsThinking() bool { return c.thinking == "enabled" || c.thinking == "adaptive" }

func (c *checker) checkOutput() *Reply {
	output, ok := c.body["output_config"].(object)
	if !ok {
		return nil
	}
	if failure := checkFields("output_config.", output, []string{"effort", "format"}); failure != nil {
		return failure
	}
	if effort := output["effort"]; effort != nil && !slices.Contains([]any{"low", "medium", "high", "xhigh", "max"}, effort) {
		return newInvalid("output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'")
	}
	format, ok := output["format"].(object)
	if !ok {
		return nil
	}
	schema, ok := format["schema"].(object)
	if format["type"] != "json_schema" || !ok {
		return newInvalid("output_config.format.schema: Field required")
	}
	return checkSchema(schema)
}

// checkSchema rejects schemas that constrained decoding does not support.
func checkSchema(v any) *Reply {
	switch v := v.(type) {
	case []any:
		for _, inner := range v {
			if failure := checkSchema(inner); failure != nil {
				return failure
			}
		}
	case object:
		if v["type"] == "object" && v["additionalProperties"] != false {
			return newInvalid("output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false")
		}
		for name, inner := range v {
			if _, isNumber := inner.(float64); isNumber && slices.Contains(strings.Fields("minimum maximum minLength maxLength maxItems multipleOf"), name) {
				return newInvalid("output_config.format.schema: property '%s' is not supported", name)
			}
			if failure := checkSchema(inner); failure != nil {
				return failure
			}
		}
	}
	return nil
}

func (c *checker) checkTools() *Reply {
	tools, _ := c.body["tools"].([]any)
	seen := map[string]bool{}
	for i, t := range tools {
		tool, _ := t.(object)
		if failure := checkFields(fmt.Sprintf("tools.%d.custom.", i), tool, strings.Fields("type name description input_schema cache_control strict")); failure != nil {
			return failure
		}
		name, _ := tool["name"].(string)
		schema, _ := tool["input_schema"].(object)
		switch {
		case !toolName.MatchString(name):
			return newInvalid("tools.%d.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", i)
		case seen[name]:
			return newInvalid("tools: Tool names must be unique.")
		case schema["type"] != "object":
			return newInvalid("tools.%d.custom.input_schema.type: Field required", i)
		case schema["oneOf"] != nil || schema["allOf"] != nil || schema["anyOf"] != nil:
			return newInvalid("tools.%d.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level", i)
		}
		properties, _ := schema["properties"].(object)
		for key := range properties {
			if !propertyKey.MatchString(key) {
				return newInvalid("tools.%d.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'", i)
			}
		}
		seen[name] = true
		c.countCached(tool)
	}
	if choice, ok := c.body["tool_choice"].(object); ok {
		name, _ := choice["name"].(string)
		switch {
		case len(tools) == 0:
			return newInvalid("tool_choice may only be specified while providing tools.")
		case choice["type"] == "tool" && !seen[name]:
			return newInvalid("Tool '%s' not found in provided tools", name)
		}
	}
	return nil
}

func (c *checker) countCached(o object) {
	if o["cache_control"] != nil {
		c.cached++
	}
}

func (c *checker) checkSystem() *Reply {
	blocks, _ := c.body["system"].([]any)
	for i, b := range blocks {
		if failure := c.checkBlock(fmt.Sprintf("system.%d", i), b, "text"); failure != nil {
			return failure
		}
	}
	return nil
}
