package anthropic

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"

	"google.golang.org/genai"

	"agenthost/internal/legalrequest"
	"agenthost/internal/modelapi"
	"agenthost/internal/modelcall"
)

// answerTool is the tool for a response schema on models without structured output.
const answerTool = "structured_output"

// claudeVersion matches the version in a model name, such as 4-5 in claude-sonnet-4-5-20250929.
var claudeVersion = regexp.MustCompile(`claude-(?:[a-z]+-)*(\d+)(?:[-.](\d{1,2}))?(?:[-@.]|$)`)

// hasOutputFormat reports whether a model constrains its response to a schema: since
// Claude 4.5, and on Vertex AI since 4.6. Names without a version count as newer.
func (a *anthropic) hasOutputFormat(name string) bool {
	m := claudeVersion.FindStringSubmatch(modelapi.BareModelName(name))
	if m == nil {
		return true
	}
	major, errMajor := strconv.Atoi(m[1])
	if errMajor != nil || major != 4 {
		return errMajor == nil && major > 4
	}
	minor, err := strconv.Atoi(m[2])
	if a.opts.Vertex != nil {
		return err == nil && minor >= 6
	}
	return err == nil && minor >= 5
}

// addFormat requests JSON that matches the response schema, if there is one. Models without
// structured output get a tool that takes the response, and must call it.
func (c *anthropicCall) addFormat(config *genai.GenerateContentConfig, tools []anthropicBlock) ([]anthropicBlock, error) {
	schema := config.ResponseJsonSchema
	if schema == nil && config.ResponseSchema != nil {
		schema = modelapi.PlainSchema(config.ResponseSchema)
	}
	if schema == nil {
		return tools, nil
	}
	own := modelapi.CopyJSON(schema)
	if c.anthropic.hasOutputFormat(c.model) {
		if path := constrainSchema(own, "schema"); path != "" {
			return nil, modelcall.NewConfigError(http.StatusBadRequest, fmt.Sprintf("%s cannot write objects with any property: list the properties of %s in the schema", c.model, path))
		}
		output, ok := c.body["output_config"].(map[string]any)
		if !ok {
			output = map[string]any{}
			c.body["output_config"] = output
		}
		output["format"] = map[string]any{"type": "json_schema", "schema": own}
		return tools, nil
	}
	fields, ok := own.(map[string]any)
	if !ok || fields["type"] != "object" {
		return nil, modelcall.NewConfigError(http.StatusBadRequest, fmt.Sprintf("the response schema of %s must be an object: newer models accept other types", c.model))
	}
	c.answerTool = answerTool
	if c.allowsThinking() { // the service rejects it with forced calls
		c.body["thinking"] = map[string]any{"type": "disabled"}
	}
	choice := map[string]any{"type": "tool", "name": answerTool}
	if len(config.Tools) > 0 {
		choice = map[string]any{"type": "any"}
	}
	c.body["tool_choice"] = choice
	return append(tools, anthropicBlock{"name": answerTool, "description": "Takes the final answer.", "input_schema": own}), nil
}

// The keywords and formats that constrained decoding does not support; the runtime
// validates them in the response.
var (
	unsupportedKeywords = []string{
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "maxItems",
		"uniqueItems", "minProperties", "maxProperties", "patternProperties", "propertyNames", "propertyOrdering", "nullable", "example", "$schema",
	}
	supportedFormats = []string{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)

// constrainSchema changes a schema to what constrained decoding supports. It returns the path to an
// object without properties, or "": such an object cannot be expressed.
func constrainSchema(v any, path string) string {
	switch v := v.(type) {
	case []any:
		for i, inner := range v {
			if bad := constrainSchema(inner, path+"["+strconv.Itoa(i)+"]"); bad != "" {
				return bad
			}
		}
	case map[string]any:
		return constrainObject(v, path)
	}
	return ""
}

func constrainObject(schema map[string]any, path string) string {
	properties, _ := schema["properties"].(map[string]any)
	if schema["type"] == "object" {
		if len(properties) == 0 {
			return path
		}
		schema["additionalProperties"] = false
	}
	if schema["nullable"] == true {
		if kind, ok := schema["type"].(string); ok {
			schema["type"] = []any{kind, "null"}
		}
	}
	for _, name := range unsupportedKeywords {
		delete(schema, name)
	}
	if format, ok := schema["format"].(string); ok && !slices.Contains(supportedFormats, format) {
		delete(schema, "format")
	}
	if n, ok := schema["minItems"].(int64); ok && n > 1 {
		delete(schema, "minItems")
	}
	for _, name := range []string{"items", "anyOf", "allOf", "oneOf"} {
		if bad := constrainSchema(schema[name], path+"."+name); bad != "" {
			return bad
		}
	}
	for _, list := range []string{"properties", "$defs", "definitions"} {
		inner, _ := schema[list].(map[string]any)
		for _, name := range modelapi.SortedKeys(inner) {
			if bad := constrainSchema(inner[name], path+"."+name); bad != "" {
				return bad
			}
		}
	}
	return ""
}

// anthropicRules apply to the Messages API.
var anthropicRules = legalrequest.Rules{
	Names: legalrequest.NameRule{Legal: regexp.MustCompile(`^[a-zA-Z0-9_-]+$`), Illegal: regexp.MustCompile(`[^a-zA-Z0-9_-]`), Max: 128, Reserved: []string{answerTool}, Parameters: regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)},
	Ids:   legalrequest.IDRule{Legal: regexp.MustCompile(`^[a-zA-Z0-9_-]+$`), Max: 64, Prefix: "toolu_fallback_"},
	Turns: legalrequest.TurnsAlternate,
	Media: legalrequest.MediaRule{
		Inline: slices.Concat(legalrequest.WebImages, []string{"application/pdf"}, legalrequest.TextTypes),
		Files:  []legalrequest.FileRule{{Address: "https://", Kind: "image/*"}, {Address: "http://", Kind: "image/*"}, {Address: "https://", Kind: "application/pdf"}, {Address: "http://", Kind: "application/pdf"}},
	},
}
