package model

import (
	"strings"

	"google.golang.org/genai"
)

// TextOf returns the text of a content: all text parts except thoughts, joined without a
// separator. It accepts nil.
func TextOf(c *genai.Content) string {
	if c == nil {
		return ""
	}
	if len(c.Parts) == 1 && !c.Parts[0].Thought {
		return c.Parts[0].Text
	}
	var b strings.Builder
	for _, p := range c.Parts {
		if !p.Thought {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// IsEmptyText reports whether a part is an empty text. That includes a part without any
// data: the API's type does not distinguish the two.
func IsEmptyText(p *genai.Part) bool { return p.Text == "" && isText(p) }

// CallsOf returns the content's function calls in order.
func CallsOf(c *genai.Content) []*genai.FunctionCall {
	if c == nil {
		return nil
	}
	var calls []*genai.FunctionCall
	for _, p := range c.Parts {
		if p.FunctionCall != nil {
			calls = append(calls, p.FunctionCall)
		}
	}
	return calls
}

// ResponsesOf returns the content's function responses in order.
func ResponsesOf(c *genai.Content) []*genai.FunctionResponse {
	if c == nil {
		return nil
	}
	var rs []*genai.FunctionResponse
	for _, p := range c.Parts {
		if p.FunctionResponse != nil {
			rs = append(rs, p.FunctionResponse)
		}
	}
	return rs
}

// UserText returns a content of role user with one text part.
func UserText(text string) *genai.Content { return textContent(genai.RoleUser, text) }

// ModelText returns a content of role model with one text part.
func ModelText(text string) *genai.Content { return textContent(genai.RoleModel, text) }

// textContent allocates the content, its part and their list at once.
func textContent(role, text string) *genai.Content {
	all := &struct {
		content genai.Content
		part    genai.Part
		parts   [1]*genai.Part
	}{}
	all.part.Text = text
	all.parts[0] = &all.part
	all.content.Role, all.content.Parts = role, all.parts[:]
	return &all.content
}
