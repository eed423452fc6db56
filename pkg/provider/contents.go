package provider

import (
	"slices"
	"strings"

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

// answerText returns the text of a part of an answer other than a call. Code is text.
func answerText(p *genai.Part) string {
	switch {
	case p.ExecutableCode != nil:
		return p.ExecutableCode.Code
	case p.CodeExecutionResult != nil:
		return p.CodeExecutionResult.Output
	}
	return p.Text
}

// isTextData reports whether data is sent as text.
func isTextData(b *genai.Blob) bool {
	return isTextType(baseType(b.MIMEType))
}

func dataText(b *genai.Blob) string { return strings.ToValidUTF8(string(b.Data), "\uFFFD") }

// isTextType reports whether data of a type is sent as text.
func isTextType(base string) bool {
	return strings.HasPrefix(base, "text/") || base == "application/json"
}

// baseType returns a media type without its parameters, in lower case.
func baseType(kind string) string {
	base, _, _ := strings.Cut(kind, ";")
	return strings.ToLower(strings.TrimSpace(base))
}

// beginText begins a conversation that the model began.
const beginText = "Continue the conversation."

// endWithUser appends a user message if the last content is not a user's, because the
// service requires one. An agent that continues after its own response, as in a loop,
// has none (adk-python models/google_llm.py _maybe_append_user_content).
func endWithUser(contents []*genai.Content) []*genai.Content {
	switch n := len(contents); {
	case n == 0:
		return []*genai.Content{model.UserText("Do what your instructions ask of you.")}
	case contents[n-1].Role != genai.RoleUser:
		return append(slices.Clip(contents), model.UserText("Continue with the previous request. If nothing is left to do, provide a summary."))
	}
	return contents
}
