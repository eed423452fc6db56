package modelapi

import (
	"regexp"
	"strings"

	"google.golang.org/genai"
)

// AnthropicVendor is Anthropic's name in the marks on parts.
const AnthropicVendor = "anthropic"

// MarkClaudeThoughts marks Claude's signed thoughts in adk-python content, which does not mark
// them, with the model version that wrote them: only this model gets them back, and no other vendor
// gets its signatures. It does nothing if the version is not Claude's, and modifies c's parts
// otherwise.
func MarkClaudeThoughts(c *genai.Content, version string) {
	name := strings.TrimPrefix(BareModelName(version), "anthropic/")
	if c == nil || !strings.HasPrefix(name, "claude-") {
		return
	}
	for _, p := range c.Parts {
		if p == nil || !p.Thought || len(p.ThoughtSignature) == 0 || p.PartMetadata != nil {
			continue
		}
		p.PartMetadata = VendorMetadata(AnthropicVendor, name)
		if p.Text == "" { // as adk-python stores encrypted thoughts
			p.PartMetadata[RedactedKey] = true
		}
	}
}

// VertexName matches a Claude model's full name on Vertex AI.
var VertexName = regexp.MustCompile(`^projects/([^/]+)/locations/([^/]+)/publishers/anthropic/models/([^/]+)$`)

// BareModelName returns a name without the Vertex AI project.
func BareModelName(name string) string {
	if m := VertexName.FindStringSubmatch(name); m != nil {
		return m[3]
	}
	return strings.TrimPrefix(strings.TrimPrefix(name, "publishers/"), "anthropic/models/")
}
