package gemini

import (
	"regexp"
	"slices"

	"agenthost/internal/legalrequest"
)

// geminiRules apply to the Gemini API and the Live API; see [gemini.requestRules].
var geminiRules = legalrequest.Rules{
	Names: legalrequest.NameRule{Legal: regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]*$`), Illegal: regexp.MustCompile(`[^a-zA-Z0-9_.:-]`), Max: 64},
	Ids:   legalrequest.IDRule{Legal: legalrequest.AnyID, Max: 128, Prefix: "call_", Optional: true},
	Turns: legalrequest.TurnsOfModel, BlankText: true,
	Media: legalrequest.MediaRule{
		Inline: slices.Concat([]string{"image/*", "audio/*", "video/*", "application/pdf", "application/rtf"}, legalrequest.TextTypes, []string{
			"application/x-javascript", "application/x-typescript", "application/x-python-code", "application/xml", "application/yaml",
		}),
		Files:   []legalrequest.FileRule{{Address: "https://", Kind: "*"}, {Address: "gs://", Kind: "*"}},
		OfModel: true, AnyImage: true,
	},
}

// vertexFiles apply to Vertex AI, which requires a type.
var vertexFiles = []legalrequest.FileRule{{Address: "https://", Kind: "*/*"}, {Address: "http://", Kind: "*/*"}, {Address: "gs://", Kind: "*/*"}}

// requestRules returns what the service accepts.
func (g *gemini) requestRules() *legalrequest.Rules {
	r := geminiRules
	if g.geminiAccess().usesVertex(g.newVariables()) {
		r.Media.Files = vertexFiles
	}
	return &r
}
