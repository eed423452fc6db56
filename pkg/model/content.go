package model

import (
	"strings"

	"google.golang.org/genai"
)

// TextOf returns the content's text: all parts that are text and not thought,
// joined without separator. A nil content has none.
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

// IsEmptyText says whether a part is a text without characters. A part that
// holds no data at all is one: the API's type does not tell them apart.
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

// UserText makes a content of role user with one text part.
func UserText(text string) *genai.Content { return textContent(genai.RoleUser, text) }

// ModelText makes a content of role model with one text part.
func ModelText(text string) *genai.Content { return textContent(genai.RoleModel, text) }

// textContent makes the content, its part and the list of it at one go: there
// are many of them.
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
