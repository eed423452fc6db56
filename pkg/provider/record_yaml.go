package provider

import (
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/session"
)

// The values of a recorded script are JSON, which is YAML too, but for
// characters that YAML does not print or takes for line breaks.

// YAMLText writes a text as YAML, in quotes on one line.
func YAMLText(s string) string {
	text, err := jsonText(s)
	if err != nil {
		return `""`
	}
	return yamlSafe(text)
}

// YAMLPart writes a part as YAML on one line, as it stands in an event: whole
// floats keep their point, so that they are floats when they are read again.
func YAMLPart(p *genai.Part) (string, error) {
	b, err := session.EncodePart(p)
	return yamlSafe(string(b)), err
}

// YAMLMapping writes a mapping as YAML on one line, with the floats of
// [YAMLPart].
func YAMLMapping(args map[string]any) (string, error) {
	b, err := session.EncodePart(&genai.Part{FunctionCall: &genai.FunctionCall{Args: args}})
	if err != nil {
		return "", err
	}
	var part struct {
		FunctionCall struct{ Args json.RawMessage }
	}
	if err := json.Unmarshal(b, &part); err != nil {
		return "", fmt.Errorf("writing arguments: %w", err)
	}
	if len(part.FunctionCall.Args) == 0 {
		return "{}", nil
	}
	return yamlSafe(string(part.FunctionCall.Args)), nil
}

// yamlSafe escapes such characters. In JSON they stand only inside of quotes.
func yamlSafe(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case 0x7f <= r && r <= 0x9f, r == 0x2028, r == 0x2029, r == 0xfeff, r == 0xfffe, r == 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
