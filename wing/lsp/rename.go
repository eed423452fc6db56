package lsp

import (
	"context"
	"path/filepath"
)

// prepareRename answers textDocument/prepareRename: the name's range, or why it cannot be renamed.
func (s *Server) prepareRename(ctx context.Context, m *message) (any, error) {
	var p positionParams
	if err := decodeParams(m, &p); err != nil {
		return nil, err
	}
	q, err := s.queryNames(ctx, pathFromURI(p.Document.URI), p.Position)
	if err != nil || q == nil || !q.found {
		return nil, err
	}
	if err := q.table.CheckRename(q.use.Kind, q.use.Name); err != nil {
		return nil, &rpcError{codeRequestFailed, err.Error()}
	}
	return map[string]any{"range": s.newTextLines(q.table.Text(q.file)).rangeOf(q.use.Range), "placeholder": q.use.Name}, nil
}

// A documentEdit changes a document. Its version is null if the document is not open.
type documentEdit struct {
	Document struct {
		URI     string `json:"uri"`
		Version *int   `json:"version"`
	} `json:"textDocument"`
	Edits []textEdit `json:"edits"`
}

// renameName answers textDocument/rename: the edits in all files of the app. They are for the versions
// that the editor has sent, so that it rejects them if it has newer ones.
func (s *Server) renameName(ctx context.Context, m *message) (any, error) {
	var p struct {
		positionParams
		NewName string `json:"newName"`
	}
	if err := decodeParams(m, &p); err != nil {
		return nil, err
	}
	q, err := s.queryNames(ctx, pathFromURI(p.Document.URI), p.Position)
	switch {
	case err != nil:
		return nil, err
	case q == nil:
		return nil, &rpcError{codeRequestFailed, "cannot rename: the document is not in the folder of an app"}
	case !q.found:
		return nil, &rpcError{codeRequestFailed, "cannot rename: there is no name at the cursor"}
	case p.NewName == q.use.Name:
		return map[string]any{"changes": map[string]any{}}, nil
	}
	edits, err := q.index.Rename(q.table, q.use.Kind, q.use.Name, p.NewName)
	if err != nil {
		return nil, &rpcError{codeRequestFailed, err.Error()}
	}
	documents := []*documentEdit{}
	var lines *textLines
	for i, e := range edits {
		if i == 0 || edits[i-1].File != e.File {
			path := filepath.Join(q.dir, filepath.FromSlash(e.File))
			d := &documentEdit{}
			d.Document.URI, d.Document.Version = s.uriOf(path), s.files.versionOf(path)
			documents, lines = append(documents, d), s.newTextLines(q.table.Text(e.File))
		}
		d := documents[len(documents)-1]
		d.Edits = append(d.Edits, textEdit{lines.rangeOf(e.Range), p.NewName})
	}
	if s.client.documentChanges {
		return map[string]any{"documentChanges": documents}, nil
	}
	changes := map[string][]textEdit{}
	for _, d := range documents {
		changes[d.Document.URI] = d.Edits
	}
	return map[string]any{"changes": changes}, nil
}
