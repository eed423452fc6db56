package provider

import (
	"maps"
	"regexp"
	"slices"
)

// The names of tools in OpenAI's APIs, which compatible services copy.
var openAINames = nameRule{legal: regexp.MustCompile(`^[a-zA-Z0-9_-]+$`), illegal: regexp.MustCompile(`[^a-zA-Z0-9_-]`), max: 64}

// chatRules are those of chat completions; see [chatTarget.requestRules].
var chatRules = requestRules{
	names: openAINames, ids: idRule{legal: anyID, max: 40, prefix: "call_"}, blankText: true,
	media: mediaRule{
		inline: slices.Concat(webImages, textTypes, []string{"audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp3", "application/pdf"}),
		files:  []fileRule{{"https://", "image/*"}, {"http://", "image/*"}},
	},
}

// shortIDRule is that of services whose IDs have exactly 9 alphanumeric characters.
var shortIDRule = idRule{legal: regexp.MustCompile(`^[a-zA-Z0-9]{9}$`), max: 9, prefix: "call_", hashed: true}

// responsesRules are those of OpenAI's Responses API.
var responsesRules = requestRules{
	names: openAINames, ids: idRule{legal: anyID, max: 40, prefix: "call_"}, blankText: true,
	media: mediaRule{
		inline: slices.Concat(webImages, textTypes, slices.Sorted(maps.Keys(documentSuffixes))),
		files: []fileRule{
			{"https://", ""},
			{"https://", "image/*"},
			{"https://", "text/*"},
			{"https://", "application/*"},
			{"http://", ""},
			{"http://", "image/*"},
			{"http://", "text/*"},
			{"http://", "application/*"},
			{"file-", ""},
			{"file-", "image/*"},
			{"file-", "text/*"},
			{"file-", "application/*"},
		},
	},
}

// requestRules returns the rules of chat completions, and what else the service takes.
func (t *chatTarget) requestRules() *requestRules {
	r := chatRules
	r.media.inline, r.media.files = slices.Clip(r.media.inline), slices.Clip(r.media.files)
	if t.shortIDs {
		r.ids = shortIDRule
	}
	if t.video {
		r.media.inline = append(r.media.inline, "video/*")
		r.media.files = append(r.media.files, fileRule{"https://", "video/*"}, fileRule{"http://", "video/*"})
	}
	if t.fileURLs {
		r.media.files = append(r.media.files, fileRule{"https://", "*"}, fileRule{"http://", "*"})
	}
	if t.fileIDs {
		r.media.files = append(r.media.files, fileRule{"file-", "*"})
	}
	if t.format == formatLiteLLM {
		r.media.files = append(r.media.files, fileRule{"gs://", "*"})
		r.media.inline, r.media.anyImage = append(r.media.inline, "image/*"), true
	}
	return &r
}
