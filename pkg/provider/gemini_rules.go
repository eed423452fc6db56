package provider

import (
	"regexp"
	"slices"
)

// geminiRules are those of the Gemini API and the Live API; see [gemini.requestRules].
var geminiRules = requestRules{
	names: nameRule{legal: regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]*$`), illegal: regexp.MustCompile(`[^a-zA-Z0-9_.:-]`), max: 64},
	ids:   idRule{legal: anyID, max: 128, prefix: "call_", optional: true},
	turns: turnsOfModel, blankText: true,
	media: mediaRule{
		inline: slices.Concat([]string{"image/*", "audio/*", "video/*", "application/pdf", "application/rtf"}, textTypes, []string{
			"application/x-javascript", "application/x-typescript", "application/x-python-code", "application/xml", "application/yaml",
		}),
		files:   []fileRule{{"https://", "*"}, {"gs://", "*"}},
		ofModel: true, anyImage: true,
	},
}

// vertexFiles are those of Vertex AI, which requires a type.
var vertexFiles = []fileRule{{"https://", "*/*"}, {"http://", "*/*"}, {"gs://", "*/*"}}

// requestRules returns what the service accepts.
func (g *gemini) requestRules() *requestRules {
	r := geminiRules
	if g.geminiAccess().usesVertex(g.newVariables()) {
		r.media.files = vertexFiles
	}
	return &r
}
