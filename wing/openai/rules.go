package openai

import (
	"maps"
	"regexp"
	"slices"

	"agenthost/internal/legalrequest"
)

// The tool names in OpenAI's APIs, which compatible services copy.
var openAINames = legalrequest.NameRule{Legal: regexp.MustCompile(`^[a-zA-Z0-9_-]+$`), Illegal: regexp.MustCompile(`[^a-zA-Z0-9_-]`), Max: 64}

// chatRules apply to chat completions; see [chatTarget.requestRules].
var chatRules = legalrequest.Rules{
	Names: openAINames, Ids: legalrequest.IDRule{Legal: legalrequest.AnyID, Max: 40, Prefix: "call_"}, BlankText: true,
	Media: legalrequest.MediaRule{
		Inline: slices.Concat(legalrequest.WebImages, legalrequest.TextTypes, []string{"audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp3", "application/pdf"}),
		Files:  []legalrequest.FileRule{{Address: "https://", Kind: "image/*"}, {Address: "http://", Kind: "image/*"}},
	},
}

// shortIDRule applies to services whose IDs have exactly 9 alphanumeric characters.
var shortIDRule = legalrequest.IDRule{Legal: regexp.MustCompile(`^[a-zA-Z0-9]{9}$`), Max: 9, Prefix: "call_", Hashed: true}

// responsesRules apply to OpenAI's Responses API.
var responsesRules = legalrequest.Rules{
	Names: openAINames, Ids: legalrequest.IDRule{Legal: legalrequest.AnyID, Max: 40, Prefix: "call_"}, BlankText: true,
	Media: legalrequest.MediaRule{
		Inline: slices.Concat(legalrequest.WebImages, legalrequest.TextTypes, slices.Sorted(maps.Keys(documentSuffixes))),
		Files: []legalrequest.FileRule{
			{Address: "https://", Kind: ""},
			{Address: "https://", Kind: "image/*"},
			{Address: "https://", Kind: "text/*"},
			{Address: "https://", Kind: "application/*"},
			{Address: "http://", Kind: ""},
			{Address: "http://", Kind: "image/*"},
			{Address: "http://", Kind: "text/*"},
			{Address: "http://", Kind: "application/*"},
			{Address: "file-", Kind: ""},
			{Address: "file-", Kind: "image/*"},
			{Address: "file-", Kind: "text/*"},
			{Address: "file-", Kind: "application/*"},
		},
	},
}

// requestRules returns the chat completions rules, and what else the service takes.
func (t *chatTarget) requestRules() *legalrequest.Rules {
	r := chatRules
	r.Media.Inline, r.Media.Files = slices.Clip(r.Media.Inline), slices.Clip(r.Media.Files)
	if t.shortIDs {
		r.Ids = shortIDRule
	}
	if t.video {
		r.Media.Inline = append(r.Media.Inline, "video/*")
		r.Media.Files = append(r.Media.Files, legalrequest.FileRule{Address: "https://", Kind: "video/*"}, legalrequest.FileRule{Address: "http://", Kind: "video/*"})
	}
	if t.fileURLs {
		r.Media.Files = append(r.Media.Files, legalrequest.FileRule{Address: "https://", Kind: "*"}, legalrequest.FileRule{Address: "http://", Kind: "*"})
	}
	if t.fileIDs {
		r.Media.Files = append(r.Media.Files, legalrequest.FileRule{Address: "file-", Kind: "*"})
	}
	if t.format == formatLiteLLM {
		r.Media.Files = append(r.Media.Files, legalrequest.FileRule{Address: "gs://", Kind: "*"})
		r.Media.Inline, r.Media.AnyImage = append(r.Media.Inline, "image/*"), true
	}
	return &r
}

// documentSuffixes are the document names' suffixes by type. The service reads the type from the
// name.
var documentSuffixes = map[string]string{
	"application/pdf": ".pdf",
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document":   ".docx",
	"application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
	"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":         ".xlsx",
}
