package provider

import (
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// normalizeContents returns a conversation that services accept: every part has data,
// and every call has a response. Both must hold for the whole session, otherwise one odd
// event would make every later turn fail. It does not modify contents; unchanged ones
// are shared.
func normalizeContents(contents []*genai.Content) []*genai.Content {
	return fillOpenCalls(dropEmptyContents(contents))
}

// normalizeRequest returns the request with normalized contents.
func normalizeRequest(req *model.Request) *model.Request {
	whole := *req
	whole.Contents = normalizeContents(req.Contents)
	return &whole
}

// dropEmptyContents drops empty parts, and contents without parts. It keeps a part with
// a thought signature and its empty text.
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

// dropEmptyParts returns nil if no part remains.
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
