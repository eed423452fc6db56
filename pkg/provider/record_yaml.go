package provider

import (
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/session"
)

// Recorded values are JSON, which is also YAML except for some characters that YAML
// forbids or treats as line breaks.

// YAMLText returns a string as YAML, quoted on one line.
func YAMLText(s string) string {
	text, err := jsonText(s)
	if err != nil {
		return `""`
	}
	return yamlSafe(text)
}

// YAMLPart returns a part as YAML on one line, as in an event: whole floats keep their
// decimal point, so that they remain floats.
func YAMLPart(p *genai.Part) (string, error) {
	b, err := session.EncodePart(p)
	return yamlSafe(string(b)), err
}

// YAMLMapping returns a mapping as YAML on one line, with floats as in [YAMLPart].
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

// yamlSafe escapes such characters, which JSON contains only in strings.
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
