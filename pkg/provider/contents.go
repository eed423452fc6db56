package provider

import (
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

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

// copyPart copies the fields that the runtime modifies: the IDs of calls.
func copyPart(p *genai.Part) *genai.Part {
	own := *p
	if p.FunctionCall != nil {
		call := *p.FunctionCall
		own.FunctionCall = &call
	}
	return &own
}

func modelContent(parts ...*genai.Part) *genai.Content {
	return &genai.Content{Role: genai.RoleModel, Parts: parts}
}

// finishMessage returns the error message of a finish reason; ADK has only that of
// MAX_TOKENS.
func finishMessage(reason genai.FinishReason) string {
	switch reason {
	case genai.FinishReasonMaxTokens:
		return "Maximum tokens reached"
	case genai.FinishReasonSafety:
		return "The service filtered the response for its content"
	}
	return ""
}
