package lsp

import (
	"cmp"
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// maxSymbols limits the symbols in a response.
const maxSymbols = 1000

// A documentSymbol is a declaration in a document, with those inside it.
type documentSymbol struct {
	Name           string            `json:"name"`
	Detail         string            `json:"detail,omitempty"`
	Kind           int               `json:"kind"`
	Range          textRange         `json:"range"`
	SelectionRange textRange         `json:"selectionRange"`
	Children       []*documentSymbol `json:"children,omitempty"`
}

// listDocumentSymbols answers textDocument/documentSymbol.
func (s *Server) listDocumentSymbols(ctx context.Context, m *message) (any, error) {
	var p positionParams
	if err := decodeParams(m, &p); err != nil {
		return nil, err
	}
	q, err := s.queryNames(ctx, pathFromURI(p.Document.URI), position{})
	if err != nil || q == nil {
		return nil, err
	}
	uses := slices.DeleteFunc(q.table.InFile(q.file), func(u loader.NameUse) bool { return !isSymbol(u) })
	slices.SortStableFunc(uses, func(a, b loader.NameUse) int {
		return cmp.Or(cmp.Compare(wholeOf(a).Start, wholeOf(b).Start), cmp.Compare(wholeOf(b).End, wholeOf(a).End))
	})
	lines := s.newTextLines(q.table.Text(q.file))
	top, open := []*documentSymbol{}, []loader.NameUse{}
	var parents []*documentSymbol
	for _, u := range uses {
		whole := wholeOf(u)
		for len(open) > 0 && wholeOf(open[len(open)-1]).End < whole.End {
			open, parents = open[:len(open)-1], parents[:len(parents)-1]
		}
		if len(open) > 0 && open[len(open)-1].Name == u.Name && open[len(open)-1].Kind == u.Kind {
			continue // an agent under agents, with its name
		}
		detail, _, _ := strings.Cut(u.Detail, "\n")
		symbol := &documentSymbol{
			Name: u.Name, Detail: detail, Kind: symbolKindOf(u.Kind), Range: lines.rangeOf(whole), SelectionRange: lines.rangeOf(u.Range),
		}
		if len(open) == 0 {
			top = append(top, symbol)
		} else {
			parent := parents[len(parents)-1]
			parent.Children = append(parent.Children, symbol)
		}
		open, parents = append(open, u), append(parents, symbol)
	}
	return top, nil
}

// isSymbol reports whether a place declares a name, or writes a state key in the app.
func isSymbol(u loader.NameUse) bool {
	return u.Exact && (u.Role == loader.NameDeclared || u.Role == loader.NameWritten)
}

// A workspaceSymbol is a declaration in any app of the workspace.
type workspaceSymbol struct {
	Name      string   `json:"name"`
	Kind      int      `json:"kind"`
	Location  location `json:"location"`
	Container string   `json:"containerName"`
}

// listWorkspaceSymbols answers workspace/symbol: the declarations whose names contain the query, in the
// apps of the workspace's folders and in those with an open document.
func (s *Server) listWorkspaceSymbols(ctx context.Context, m *message) (any, error) {
	var p struct {
		Query string `json:"query"`
	}
	if err := decodeParams(m, &p); err != nil {
		return nil, err
	}
	dirs := map[string]bool{}
	for dir := range s.names {
		dirs[dir] = true
	}
	for dir := range s.apps {
		dirs[dir] = true
	}
	for _, folder := range s.client.folders {
		apps, _ := loader.Discover(folder) // a folder that cannot be read has no apps
		for _, dir := range apps {
			dirs[filepath.Clean(dir)] = true
		}
	}
	found := []workspaceSymbol{}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		_, table, err := s.refreshNames(ctx, dir)
		if err != nil {
			continue // the folder is gone
		}
		q := &nameQuery{dir: dir, table: table}
		uses := slices.DeleteFunc(slices.Clone(table.Uses), func(u loader.NameUse) bool {
			return !isSymbol(u) || !strings.Contains(strings.ToLower(u.Name), strings.ToLower(p.Query))
		})
		for _, u := range uses[:min(len(uses), maxSymbols-len(found))] {
			for _, l := range s.listLocations(q, []loader.NameUse{u}) {
				found = append(found, workspaceSymbol{u.Name, symbolKindOf(u.Kind), l, filepath.Base(dir) + "/" + u.File})
			}
		}
	}
	return found, nil
}

// The protocol's kinds of symbols.
const (
	symbolClass    = 5
	symbolMethod   = 6
	symbolProperty = 7
	symbolFunction = 12
	symbolVariable = 13
	symbolConstant = 14
	symbolKey      = 20
	symbolStruct   = 23
)

func symbolKindOf(kind loader.NameKind) int {
	switch kind {
	case loader.AgentNames:
		return symbolClass
	case loader.ToolNames, loader.FunctionNames:
		return symbolFunction
	case loader.StateNames:
		return symbolVariable
	case loader.SchemaNames:
		return symbolStruct
	case loader.ModelNames:
		return symbolConstant
	case loader.ConnectionNames:
		return symbolKey
	case loader.CaseNames:
		return symbolMethod
	}
	return symbolProperty
}

// wholeOf returns the bytes that a symbol consists of.
func wholeOf(u loader.NameUse) spec.Range {
	if u.Whole.End < u.Range.End || u.Whole.Start > u.Range.Start {
		return u.Range
	}
	return u.Whole
}
