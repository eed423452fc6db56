package lsp

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"agenthost/internal/toolconfig"
	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// An inlayHint is text that an editor shows inside a line.
type inlayHint struct {
	Position    position `json:"position"`
	Label       string   `json:"label"`
	Tooltip     *markup  `json:"tooltip,omitempty"`
	PaddingLeft bool     `json:"paddingLeft"`
}

// maxHintLength limits a value in a hint, in characters.
const maxHintLength = 60

// listInlayHints answers textDocument/inlayHint: the values of strings with ${…}, without secrets, the
// types of the state keys that are written, and the model of an agent that names none.
//
// The values are those of the last check. A line that has changed since then has no hint.
func (s *Server) listInlayHints(ctx context.Context, m *message) (any, error) {
	var p struct {
		Document document  `json:"textDocument"`
		Range    textRange `json:"range"`
	}
	if err := decodeParams(m, &p); err != nil {
		return nil, err
	}
	path := pathFromURI(p.Document.URI)
	text, ok := s.files.readText(path)
	dir := s.files.findAppFolder(path)
	hints := []inlayHint{}
	if !ok || dir == "" {
		return hints, nil
	}
	if err := s.checkIfNeeded(ctx, dir); err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(dir, path)
	if err != nil {
		return hints, nil //nolint:nilerr // on another volume
	}
	outline := s.apps[dir].outline
	root := outline.Documents[filepath.ToSlash(rel)]
	if root == nil {
		return hints, nil
	}
	h := &hintCollector{server: s, lines: splitIntoLines(text), wanted: p.Range, types: map[string]string{}}
	for _, k := range outline.State {
		h.types[k.Name] = k.Type
	}
	h.collectHints(root)
	for _, model := range outline.ImplicitModels {
		if model.Pos.File == path {
			h.addModel(model)
		}
	}
	return append(hints, h.hints...), nil
}

// A hintCollector collects a document's hints in the wanted lines.
type hintCollector struct {
	server *Server
	lines  []string
	wanted textRange
	types  map[string]string
	hints  []inlayHint
}

// addAtEnd adds a hint at the end of a position's line, before a comment, if the line still has the
// text.
func (h *hintCollector) addAtEnd(at spec.Pos, has, label string, tooltip *markup) {
	n := at.Line - 1
	if n < h.wanted.Start.Line || n > h.wanted.End.Line || n >= len(h.lines) || !strings.Contains(h.lines[n], has) {
		return
	}
	line := h.lines[n]
	end := len(strings.TrimRight(line, " \t"))
	if comment := strings.Index(line, " #"); comment > strings.LastIndex(line, has) {
		end = len(strings.TrimRight(line[:comment], " \t"))
	}
	h.hints = append(h.hints, inlayHint{position{n, h.server.encoding.countUnits(line, utf8.RuneCountInString(line[:end]))}, label, tooltip, true})
}

func (h *hintCollector) collectHints(n *spec.Node) {
	for _, e := range n.Entries {
		switch {
		case e.Key.Value == "output_key" && e.Value.Kind == spec.Scalar:
			h.addType(e.Value)
		case isWriteVerb(e.Key.Value):
			for _, written := range e.Value.Entries {
				h.addType(written.Key)
			}
		}
		h.collectHints(e.Value)
	}
	for _, item := range n.Items {
		h.collectHints(item)
	}
	written, ok := n.BeforeInterpolation()
	if !ok || strings.Contains(written, "${secret:") {
		return
	}
	value := strings.Join(strings.Fields(n.RedactedValue()), " ")
	if utf8.RuneCountInString(value) > maxHintLength {
		value = string([]rune(value)[:maxHintLength]) + "…"
	}
	first, _, _ := strings.Cut(written, "\n")
	if strings.Contains(first, "${") {
		h.addAtEnd(n.Pos, "${", "= "+value, nil)
	}
}

// isWriteVerb reports whether the keys below a field are state keys that it writes.
func isWriteVerb(key string) bool {
	return slices.Contains(toolconfig.WriteVerbs(), key)
}

// addType adds a state key's type after the key.
func (h *hintCollector) addType(key *spec.Node) {
	n, kind := key.Pos.Line-1, h.types[key.Value]
	if kind == "" || n < h.wanted.Start.Line || n > h.wanted.End.Line || n >= len(h.lines) {
		return
	}
	line := []rune(h.lines[n])
	start := key.Pos.Col - 1
	if start > len(line) || !strings.HasPrefix(string(line[start:]), key.Value) {
		return // quoted, or changed since the check
	}
	end := start + utf8.RuneCountInString(key.Value)
	h.hints = append(h.hints, inlayHint{position{n, h.server.encoding.countUnits(h.lines[n], end)}, "(" + kind + ")", nil, true})
}

// addModel adds an agent's model after its name.
func (h *hintCollector) addModel(m loader.ImplicitModel) {
	tooltip := newMarkdown("The default model: the agent names none.")
	if m.From != "" {
		tooltip = newMarkdown("Inherited from the agent **" + m.From + "**.")
	}
	h.addAtEnd(m.Pos, "name", "model: "+m.Name, tooltip)
}
