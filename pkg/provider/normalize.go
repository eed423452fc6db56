package provider

import (
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// A conversation as services accept it differs from what is stored: a call must
// have an answer, and a part must hold something. Both hold for as long as the
// session lives, so that one odd event would make every later turn fail. The
// contents themselves are only read; one that needs no change is shared.

// normalizeContents is the conversation without empty texts, and with an answer to each
// call.
func normalizeContents(contents []*genai.Content) []*genai.Content {
	return fillOpenCalls(dropEmptyContents(contents))
}

// normalizeRequest is the request with an acceptable conversation.
func normalizeRequest(req *model.Request) *model.Request {
	whole := *req
	whole.Contents = normalizeContents(req.Contents)
	return &whole
}

// dropEmptyContents drops empty parts, and contents without parts. A part with a
// thought signature is kept, with its empty text.
func dropEmptyContents(contents []*genai.Content) []*genai.Content {
	if !slices.ContainsFunc(contents, hasEmpty) {
		return contents
	}
	kept := make([]*genai.Content, 0, len(contents))
	for _, c := range contents {
		if c = dropEmptyParts(c); c != nil {
			kept = append(kept, c)
		}
	}
	return kept
}

// dropEmptyParts is nil for a content that has nothing left.
func dropEmptyParts(c *genai.Content) *genai.Content {
	if !hasEmpty(c) {
		return c
	}
	if c == nil {
		return nil
	}
	parts := slices.DeleteFunc(slices.Clone(c.Parts), isEmptyPart)
	if len(parts) == 0 {
		return nil
	}
	return &genai.Content{Role: c.Role, Parts: parts}
}

func hasEmpty(c *genai.Content) bool {
	return c == nil || len(c.Parts) == 0 || slices.ContainsFunc(c.Parts, isEmptyPart)
}

func isEmptyPart(p *genai.Part) bool {
	return p == nil || model.IsEmptyText(p) && len(p.ThoughtSignature) == 0
}
