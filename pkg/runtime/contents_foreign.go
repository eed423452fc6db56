package runtime

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// isForeign reports whether an event belongs to another agent, so that this
// agent's model gets it as user content. A response to another agent's call is
// foreign too, regardless of its author.
func (v *contentsView) isForeign(ev *session.Event) bool {
	if ev.Author != session.UserAuthor && (ev.Author != v.agent || isLive(ev)) {
		return true
	}
	for _, r := range model.ResponsesOf(ev.Content) {
		if i, ok := v.calls[r.ID]; ok && v.sites[i].at < 0 {
			return true
		}
	}
	return false
}

// presentForeign returns another agent's event as user content, or nil if it
// has nothing to present (adk-python contents.py
// _present_other_agent_message).
func presentForeign(ev *session.Event) *genai.Content {
	content := model.UserText("For context:")
	content.Parts = slices.Grow(content.Parts, len(ev.Content.Parts))
	for _, p := range ev.Content.Parts {
		if q := presentPart(ev.Author, p); q != nil {
			content.Parts = append(content.Parts, q)
		}
	}
	if len(content.Parts) == 1 {
		return nil
	}
	return content
}

func presentPart(author string, p *genai.Part) *genai.Part {
	switch {
	case p.Thought:
		return nil
	case strings.TrimSpace(p.Text) != "":
		return &genai.Part{Text: "[" + author + "] said: " + p.Text}
	case p.FunctionCall != nil:
		return &genai.Part{Text: fmt.Sprintf("[%s] called tool `%s` with parameters: %s", author, p.FunctionCall.Name, compactJSON(p.FunctionCall.Args))}
	case p.FunctionResponse != nil:
		return &genai.Part{Text: fmt.Sprintf("[%s] `%s` tool returned result: %s", author, p.FunctionResponse.Name, compactJSON(p.FunctionResponse.Response))}
	case p.InlineData != nil, p.FileData != nil, p.ExecutableCode != nil, p.CodeExecutionResult != nil:
		return p
	}
	return nil
}

// compactJSON returns a value as JSON for the model, or in Go's format if JSON
// cannot represent it.
func compactJSON(m map[string]any) string {
	if m == nil {
		return "{}"
	}
	return jsonText(m)
}

func jsonText(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
