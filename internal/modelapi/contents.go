package modelapi

import (
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// DropEmptyContents drops empty parts, and contents without parts. It keeps a part with
// a thought signature and its empty text.
func DropEmptyContents(contents []*genai.Content) []*genai.Content {
	if !slices.ContainsFunc(contents, hasEmpty) {
		return contents
	}
	kept := make([]*genai.Content, 0, len(contents))
	for _, c := range contents {
		if c = DropEmptyParts(c); c != nil {
			kept = append(kept, c)
		}
	}
	return kept
}

// DropEmptyParts returns nil if no part remains.
func DropEmptyParts(c *genai.Content) *genai.Content {
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

// AnswerText returns the text of an answer part other than a call. Code is text.
func AnswerText(p *genai.Part) string {
	switch {
	case p.ExecutableCode != nil:
		return p.ExecutableCode.Code
	case p.CodeExecutionResult != nil:
		return p.CodeExecutionResult.Output
	}
	return p.Text
}

// IsTextData reports whether data is sent as text.
func IsTextData(b *genai.Blob) bool {
	return IsTextType(BaseType(b.MIMEType))
}

// DataText returns data as valid UTF-8.
func DataText(b *genai.Blob) string { return strings.ToValidUTF8(string(b.Data), "\uFFFD") }

// IsTextType reports whether data with a type is sent as text.
func IsTextType(base string) bool {
	return strings.HasPrefix(base, "text/") || base == "application/json"
}

// BaseType returns a media type without its parameters, in lower case.
func BaseType(kind string) string {
	base, _, _ := strings.Cut(kind, ";")
	return strings.ToLower(strings.TrimSpace(base))
}

// BeginText begins a conversation that the model began.
const BeginText = "Continue the conversation."

// EndWithUser appends a user message if the last content is not a user's, because the
// service requires one. An agent that continues after its own response, as in a loop,
// has none (adk-python models/google_llm.py _maybe_append_user_content).
func EndWithUser(contents []*genai.Content) []*genai.Content {
	switch n := len(contents); {
	case n == 0:
		return []*genai.Content{model.UserText("Do what your instructions ask of you.")}
	case contents[n-1].Role != genai.RoleUser:
		return append(slices.Clip(contents), model.UserText("Continue with the previous request. If nothing is left to do, provide a summary."))
	}
	return contents
}
