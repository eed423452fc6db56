package provider

import (
	"maps"
	"regexp"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// Services reject a whole request for one odd thing in it: a tool name with a dot, a call
// ID that appears twice, an empty image. Stored events are sent with every later
// turn, so one such event would end the session. Each request therefore passes
// through [newLegalRequest], which changes what the service does not take:
//
//   - names of tools are mapped to legal ones, and mapped back in responses (legal_names.go);
//   - each call gets a unique ID and is followed by its response (legal_calls.go);
//   - files that the service does not take become a note that the model reads (legal_parts.go);
//   - schemas of parameters become plain objects at their root (legal_schema.go).
//
// Legal parts of a request stay as they are. The result for a content depends only on the tools and on
// the contents before it, so the beginning of a growing conversation stays the same and
// prompt caches work.

// requestRules are what a service accepts in a request.
type requestRules struct {
	names nameRule
	ids   idRule
	turns turnRule
	media mediaRule
	// blankText is set if texts may have only white space.
	blankText bool
}

// The types of files that several services accept.
var (
	webImages = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}
	textTypes = []string{"text/*", "application/json"}
)

// The names of tools in OpenAI's APIs, which compatible services copy.
var openAINames = nameRule{legal: regexp.MustCompile(`^[a-zA-Z0-9_-]+$`), illegal: regexp.MustCompile(`[^a-zA-Z0-9_-]`), max: 64}

// The table of the services: what each one accepts. Sources are
// https://ai.google.dev/api/caching#FunctionDeclaration with the guides of media,
// https://docs.claude.com/en/api/messages, https://platform.openai.com/docs/api-reference
// and https://github.com/ollama/ollama/blob/main/docs/api.md.
var (
	// geminiRules are those of the Gemini API and the Live API; see [gemini.requestRules].
	geminiRules = requestRules{
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
	vertexFiles = []fileRule{{"https://", "*/*"}, {"http://", "*/*"}, {"gs://", "*/*"}}
	// anthropicRules are those of the Messages API.
	anthropicRules = requestRules{
		names: nameRule{legal: regexp.MustCompile(`^[a-zA-Z0-9_-]+$`), illegal: regexp.MustCompile(`[^a-zA-Z0-9_-]`), max: 128, reserved: []string{answerTool}, parameters: regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)},
		ids:   idRule{legal: regexp.MustCompile(`^[a-zA-Z0-9_-]+$`), max: 64, prefix: "toolu_fallback_"},
		turns: turnsAlternate,
		media: mediaRule{
			inline: slices.Concat(webImages, []string{"application/pdf"}, textTypes),
			files:  []fileRule{{"https://", "image/*"}, {"http://", "image/*"}, {"https://", "application/pdf"}, {"http://", "application/pdf"}},
		},
	}
	// chatRules are those of chat completions; see [chatTarget.requestRules].
	chatRules = requestRules{
		names: openAINames, ids: idRule{legal: anyID, max: 40, prefix: "call_"}, blankText: true,
		media: mediaRule{
			inline: slices.Concat(webImages, textTypes, []string{"audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp3", "application/pdf"}),
			files:  []fileRule{{"https://", "image/*"}, {"http://", "image/*"}},
		},
	}
	// shortIDRule is that of services whose IDs have exactly 9 alphanumeric characters.
	shortIDRule = idRule{legal: regexp.MustCompile(`^[a-zA-Z0-9]{9}$`), max: 9, prefix: "call_", hashed: true}
	// responsesRules are those of OpenAI's Responses API.
	responsesRules = requestRules{
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
	// ollamaRules are those of Ollama's API. Its names are free, but models write them.
	ollamaRules = requestRules{
		names: nameRule{legal: regexp.MustCompile(`^[a-zA-Z0-9_.:/-]+$`), illegal: regexp.MustCompile(`[^a-zA-Z0-9_.:/-]`), max: 128},
		ids:   idRule{legal: anyID, max: 128, prefix: "call_", optional: true}, blankText: true,
		media: mediaRule{inline: slices.Concat([]string{"image/png", "image/jpeg", "image/webp"}, textTypes)},
	}
)

// anyID matches all IDs but the empty one.
var anyID = regexp.MustCompile(`^(?s:.+)$`)

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

// A legalRequest is a request that the service accepts.
type legalRequest struct {
	*model.Request
	names *nameMap
	// used are the IDs of the calls in the conversation, as they are stored.
	used map[string]bool
}

// newLegalRequest returns a request that a service accepts. vendor is the one whose
// signatures the service verifies. It does not modify req; what is legal is shared.
func newLegalRequest(rules *requestRules, vendor string, req *model.Request) *legalRequest {
	own := *req
	l := &legalRequest{Request: &own, names: newNameMap(&rules.names), used: map[string]bool{}}
	own.Config = l.legalConfig(req.Config)
	own.Contents = rules.legalContents(vendor, req.Contents, l.names, l.used)
	return l
}

// legalContents returns a conversation that the service accepts. used receives the IDs of
// its calls, as they are stored.
func (r *requestRules) legalContents(vendor string, contents []*genai.Content, names *nameMap, used map[string]bool) []*genai.Content {
	contents = r.legalParts(withoutForeignParts(contents, vendor))
	contents = splitRoles(dropEmptyContents(contents))
	pairer := &callPairer{ids: newCallIDs(&r.ids), names: names, used: used}
	return r.turns.orderTurns(pairer.pairCalls(contents))
}

// legalConfig returns the config with legal declarations.
func (l *legalRequest) legalConfig(c *genai.GenerateContentConfig) *genai.GenerateContentConfig {
	if c == nil || len(c.Tools) == 0 && c.ToolConfig == nil {
		return c
	}
	own := *c
	own.Tools = legalTools(l.names, c.Tools)
	if c.ToolConfig != nil && c.ToolConfig.FunctionCallingConfig != nil && len(c.ToolConfig.FunctionCallingConfig.AllowedFunctionNames) > 0 {
		config, calling := *c.ToolConfig, *c.ToolConfig.FunctionCallingConfig
		calling.AllowedFunctionNames = nil
		for _, name := range c.ToolConfig.FunctionCallingConfig.AllowedFunctionNames {
			calling.AllowedFunctionNames = append(calling.AllowedFunctionNames, l.names.mapName(name))
		}
		config.FunctionCallingConfig = &calling
		own.ToolConfig = &config
	}
	return &own
}

// legalTools returns the tools with legal names and schemas. Of two functions of one name
// it keeps the first: services reject both.
func legalTools(names *nameMap, tools []*genai.Tool) []*genai.Tool {
	for _, t := range tools {
		if t != nil {
			names.declareLegal(t.FunctionDeclarations)
		}
	}
	seen := map[string]bool{}
	own := slices.Clone(tools)
	for i, t := range tools {
		if t == nil || len(t.FunctionDeclarations) == 0 {
			continue
		}
		changed := false
		var declared []*genai.FunctionDeclaration
		for _, d := range t.FunctionDeclarations {
			if d == nil || seen[d.Name] {
				changed = true
				continue
			}
			seen[d.Name] = true
			legal := legalDeclaration(names, d)
			changed = changed || legal != d
			declared = append(declared, legal)
		}
		if changed {
			bare := *t
			bare.FunctionDeclarations = declared
			own[i] = &bare
		}
	}
	return own
}

// legalDeclaration returns a declaration with a legal name and root; d itself if it has
// both.
func legalDeclaration(names *nameMap, d *genai.FunctionDeclaration) *genai.FunctionDeclaration {
	name := names.mapName(d.Name)
	schema := names.rule.describeParameters(d, plainParameters(d))
	if name == d.Name && schema == nil {
		return d
	}
	own := *d
	own.Name = name
	if schema != nil {
		own.Parameters, own.ParametersJsonSchema = nil, schema
	}
	return &own
}

// restoreCalls returns a function that yields responses with the declared names of tools.
// A call whose ID the conversation or the response already has loses it, so that the
// runtime assigns one: services number calls by turn, or repeat an ID.
func (l *legalRequest) restoreCalls(yield func(*model.Response, error) bool) func(*model.Response, error) bool {
	return func(r *model.Response, err error) bool { return yield(l.restoreResponse(r), err) }
}

func (l *legalRequest) restoreResponse(r *model.Response) *model.Response {
	if r == nil || len(model.CallsOf(r.Content)) == 0 {
		return r
	}
	own, content := *r, *r.Content
	content.Parts = slices.Clone(content.Parts)
	seen := map[string]bool{}
	for i, p := range content.Parts {
		if p == nil || p.FunctionCall == nil {
			continue
		}
		part, call := *p, *p.FunctionCall
		call.Name = l.names.restoreName(call.Name)
		if l.used[call.ID] || seen[call.ID] {
			call.ID = ""
		}
		seen[call.ID] = true
		part.FunctionCall = &call
		content.Parts[i] = &part
	}
	own.Content = &content
	return &own
}
