package mcptool

import (
	"strings"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/internal/fence"
	"agenthost/pkg/template"
)

// fenceText returns server text for a model: at most limit characters, without characters that a
// person cannot see, and marked as server data.
func fenceText(text string, limit int) string {
	text = strings.TrimSpace(cutText(cleanText(text), limit))
	if text == "" {
		return ""
	}
	return fence.Enclose(text)
}

// cleanText removes invisible characters and the fence itself.
func cleanText(text string) string {
	text = strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	for {
		without := strings.ReplaceAll(strings.ReplaceAll(text, fence.Begin, ""), fence.End, "")
		if without == text {
			return text
		}
		text = without
	}
}

// cutText returns at most limit characters, and marks that there are more.
func cutText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	count := 0
	for i := range text {
		if count == limit {
			return text[:i] + "… (cut)"
		}
		count++
	}
	return text
}

// annotations are the server's hints about a tool, with the MCP defaults.
type annotations struct{ readOnly, destructive, idempotent, openWorld bool }

func readAnnotations(t *mcp.Tool) annotations {
	a := t.Annotations
	if a == nil {
		return annotations{destructive: true, openWorld: true}
	}
	is := func(hint *bool) bool { return hint == nil || *hint }
	return annotations{
		readOnly: a.ReadOnlyHint, destructive: !a.ReadOnlyHint && is(a.DestructiveHint),
		idempotent: a.ReadOnlyHint || a.IdempotentHint, openWorld: is(a.OpenWorldHint),
	}
}

// annotationEnv declares confirm's variable mcp.
func annotationEnv() template.Env {
	return template.Env{"mcp": template.Env{"tool": "", "read_only": false, "destructive": false, "idempotent": false, "open_world": false}}
}

// exprVars returns the variable mcp's value for a tool.
func (a annotations) exprVars(name string) map[string]any {
	return map[string]any{"mcp": map[string]any{
		"tool": name, "read_only": a.readOnly, "destructive": a.destructive, "idempotent": a.idempotent, "open_world": a.openWorld,
	}}
}
