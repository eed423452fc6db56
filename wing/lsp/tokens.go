package lsp

import (
	"context"

	"agenthost/pkg/loader"
)

// Editors colour YAML themselves. They cannot see names inside of strings: a state key in an
// instruction, an agent in a transfer, a tool in an expression. Semantic tokens are exactly these names,
// as the kernel's index finds them.

// tokenTypes are the types of semantic tokens, by the kind of name. The protocol's own types are used,
// so that each theme has a colour for them.
var tokenTypes = []struct {
	kind loader.NameKind
	name string
}{
	{loader.AgentNames, "class"},
	{loader.ToolNames, "function"},
	{loader.ModelNames, "enumMember"},
	{loader.StateNames, "variable"},
	{loader.SchemaNames, "type"},
	{loader.FunctionNames, "method"},
	{loader.ConnectionNames, "property"},
}

// The modifiers of semantic tokens, as bits: what declares a name, and what writes a state key.
const (
	declarationBit  = 1 << 0
	modificationBit = 1 << 1
)

// tokenOptions announces the types and modifiers, in the order of their numbers.
func tokenOptions() map[string]any {
	types := make([]string, len(tokenTypes))
	for i, t := range tokenTypes {
		types[i] = t.name
	}
	return map[string]any{
		"legend": map[string]any{"tokenTypes": types, "tokenModifiers": []string{"declaration", "modification"}},
		"full":   true,
		"range":  false,
	}
}

// listTokens answers textDocument/semanticTokens/full. A token is five numbers: lines and characters
// after the last token, length, type and modifiers.
func (s *Server) listTokens(ctx context.Context, m *message) (any, error) {
	var p openParams
	if err := decodeParams(m, &p); err != nil {
		return nil, err
	}
	data := []int{}
	q, err := s.queryNames(ctx, pathFromURI(p.Document.URI), position{})
	if err != nil || q == nil {
		return map[string]any{"data": data}, err
	}
	lines := s.newTextLines(q.table.Text(q.file))
	var last, end position
	for _, u := range q.table.InFile(q.file) {
		number := tokenType(u.Kind)
		if !u.Exact || number < 0 {
			continue
		}
		at := lines.rangeOf(u.Range)
		start, length := at.Start, at.End.Character-at.Start.Character
		// A file may be read in two forms, which find the same names. Tokens do not overlap.
		if at.End.Line != start.Line || length <= 0 || isAfter(end, start) {
			continue
		}
		line, character := start.Line-last.Line, start.Character
		if line == 0 && len(data) > 0 {
			character -= last.Character
		}
		data = append(data, line, character, length, number, tokenModifiers(u.Role))
		last, end = start, at.End
	}
	return map[string]any{"data": data}, nil
}

// isAfter reports whether a position follows another one.
func isAfter(p, other position) bool {
	return p.Line > other.Line || p.Line == other.Line && p.Character > other.Character
}

// tokenType returns a kind's number in tokenTypes, or -1.
func tokenType(kind loader.NameKind) int {
	for i, t := range tokenTypes {
		if t.kind == kind {
			return i
		}
	}
	return -1
}

func tokenModifiers(role loader.NameRole) int {
	switch role {
	case loader.NameDeclared:
		return declarationBit
	case loader.NameWritten, loader.NameSupplied:
		return modificationBit
	}
	return 0
}
