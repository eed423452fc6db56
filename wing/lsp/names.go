package lsp

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// The requests about names read the kernel's [loader.NameIndex]: a changed file costs its own parsing,
// not a check of the app, so that they are answered while the app is being edited and has errors.

// A nameQuery is a request about the name at a position.
type nameQuery struct {
	// dir is the app folder, file the document's path in it.
	dir, file string
	index     *loader.NameIndex
	table     *loader.NameTable
	// use is the name at the position, if found is set.
	use   loader.NameUse
	found bool
}

// queryNames reads the changed files in a document's app and finds the name at a position. It returns
// nil if the document belongs to no app.
func (s *Server) queryNames(ctx context.Context, path string, at position) (*nameQuery, error) {
	dir := s.files.findAppFolder(path)
	if dir == "" {
		return nil, nil
	}
	index, table, err := s.refreshNames(ctx, dir)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(dir, path)
	if err != nil {
		return nil, nil //nolint:nilerr // a document on another volume has no names
	}
	q := &nameQuery{dir: dir, file: filepath.ToSlash(rel), index: index, table: table}
	q.use, q.found = table.At(q.file, s.newTextLines(table.Text(q.file)).offsetOf(at))
	return q, nil
}

// refreshNames returns the current names in an app.
func (s *Server) refreshNames(ctx context.Context, dir string) (*loader.NameIndex, *loader.NameTable, error) {
	index := s.names[dir]
	if index == nil {
		index = s.loader.NewNameIndex(dir)
		s.names[dir] = index
	}
	table, err := index.Refresh(ctx)
	if err != nil {
		return nil, nil, &rpcError{codeRequestFailed, err.Error()}
	}
	return index, table, nil
}

// atName decodes a request about a position and calls answer with its name. Without a name, the
// response is null.
func (s *Server) atName(answer func(*nameQuery) any) func(context.Context, *message) (any, error) {
	return func(ctx context.Context, m *message) (any, error) {
		var p positionParams
		if err := decodeParams(m, &p); err != nil {
			return nil, err
		}
		q, err := s.queryNames(ctx, pathFromURI(p.Document.URI), p.Position)
		if err != nil || q == nil || !q.found {
			return nil, err
		}
		return answer(q), nil
	}
}

// listLocations returns the places of uses.
func (s *Server) listLocations(q *nameQuery, uses []loader.NameUse) []location {
	lines := map[string]*textLines{}
	found := []location{}
	for _, u := range uses {
		if lines[u.File] == nil {
			lines[u.File] = s.newTextLines(q.table.Text(u.File))
		}
		l := location{s.uriOf(filepath.Join(q.dir, filepath.FromSlash(u.File))), lines[u.File].rangeOf(u.Range)}
		if !slices.Contains(found[max(0, len(found)-3):], l) { // a file may be read in two forms
			found = append(found, l)
		}
	}
	return found
}

// defineName answers textDocument/definition: the declarations of a name, the parts that write a state
// key, or the document that a path names.
func (s *Server) defineName(ctx context.Context, m *message) (any, error) {
	var p positionParams
	if err := decodeParams(m, &p); err != nil {
		return nil, err
	}
	path := pathFromURI(p.Document.URI)
	q, err := s.queryNames(ctx, path, p.Position)
	if err != nil {
		return nil, err
	}
	if q != nil && q.found {
		if uses := findDefinitions(q.table, q.use); len(uses) > 0 {
			return s.listLocations(q, uses), nil
		}
	}
	text, ok := s.files.readText(path)
	if !ok {
		return nil, nil
	}
	c := newCursorAt(path, text, p.Position, s)
	c.dir = s.files.findAppFolder(path)
	if found := s.defineFile(c); found != nil || q == nil || len(q.table.InFile(q.file)) > 0 {
		return found, nil
	}
	return s.defineWord(q, c), nil
}

// defineWord returns the declarations of the word at the cursor, whatever it is, for a document that has
// never been valid. They may be of several kinds.
func (s *Server) defineWord(q *nameQuery, c *cursor) any {
	word, _ := c.wordAtCursor()
	var uses []loader.NameUse
	for kind := loader.AgentNames; kind <= loader.ConnectionNames; kind++ {
		uses = append(uses, findDefinitions(q.table, loader.NameUse{Kind: kind, Name: word})...)
	}
	if word == "" || len(uses) == 0 {
		return nil
	}
	return s.listLocations(q, uses)
}

// findDefinitions returns the places that define a name: its declarations, and for a state key its
// writers, or else its declaration in the state schema, or its values in tests and eval sets.
func findDefinitions(t *loader.NameTable, u loader.NameUse) []loader.NameUse {
	uses := t.Find(u.Kind, u.Name)
	for _, role := range []loader.NameRole{loader.NameWritten, loader.NameDeclared, loader.NameSupplied} {
		if found := slices.DeleteFunc(slices.Clone(uses), func(u loader.NameUse) bool { return u.Role != role }); len(found) > 0 {
			return found
		}
	}
	return nil
}

// defineFile returns the location of the document that the path at the cursor names, or nil.
func (s *Server) defineFile(c *cursor) any {
	word, _ := c.wordAtCursor()
	if word == "" {
		return nil
	}
	for _, file := range []string{filepath.Join(filepath.Dir(c.path), word), filepath.Join(c.dir, word)} {
		if filepath.Ext(word) != "" && s.files.hasFile(file) {
			return []location{{URI: s.uriOf(file)}}
		}
	}
	return nil
}

// referName answers textDocument/references.
func (s *Server) referName(ctx context.Context, m *message) (any, error) {
	var p struct {
		Context struct {
			IncludeDeclaration bool `json:"includeDeclaration"`
		} `json:"context"`
	}
	if err := decodeParams(m, &p); err != nil {
		return nil, err
	}
	return s.atName(func(q *nameQuery) any {
		uses := slices.DeleteFunc(q.table.Find(q.use.Kind, q.use.Name), func(u loader.NameUse) bool {
			return u.Role == loader.NameDeclared && !p.Context.IncludeDeclaration
		})
		return s.listLocations(q, uses)
	})(ctx, m)
}

// The protocol's kinds of highlights.
const (
	highlightText  = 1
	highlightRead  = 2
	highlightWrite = 3
)

// highlightName answers textDocument/documentHighlight.
func (s *Server) highlightName(q *nameQuery) any {
	type highlight struct {
		Range textRange `json:"range"`
		Kind  int       `json:"kind"`
	}
	lines, found := s.newTextLines(q.table.Text(q.file)), []highlight{}
	for _, u := range q.table.Find(q.use.Kind, q.use.Name) {
		kind := highlightRead
		switch u.Role {
		case loader.NameWritten, loader.NameDeclared, loader.NameSupplied:
			kind = highlightWrite
		case loader.NameMentioned:
			kind = highlightText
		case loader.NameUsed:
		}
		if h := (highlight{lines.rangeOf(u.Range), kind}); u.File == q.file && u.Exact && !slices.Contains(found, h) {
			found = append(found, h)
		}
	}
	return found
}

// textLines converts between the byte offsets in a file and the protocol's positions. The protocol
// has fewer line breaks than YAML: \n, \r\n and \r.
type textLines struct {
	text     string
	starts   []int
	encoding encoding
}

func (s *Server) newTextLines(text []byte) *textLines {
	t := &textLines{text: string(text), starts: []int{0}, encoding: s.encoding}
	for i := 0; i < len(t.text); i++ {
		if c := t.text[i]; c == '\n' || c == '\r' && !strings.HasPrefix(t.text[i+1:], "\n") {
			t.starts = append(t.starts, i+1)
		}
	}
	return t
}

// lineAt returns a line with its line break.
func (t *textLines) lineAt(n int) string {
	if n+1 < len(t.starts) {
		return t.text[t.starts[n]:t.starts[n+1]]
	}
	return t.text[t.starts[n]:]
}

func (t *textLines) offsetOf(p position) int {
	if p.Line < 0 || p.Line >= len(t.starts) {
		return len(t.text)
	}
	line := strings.TrimRight(t.lineAt(p.Line), "\r\n")
	return t.starts[p.Line] + t.encoding.byteOffset(line, p.Character)
}

func (t *textLines) positionOf(offset int) position {
	offset = min(max(offset, 0), len(t.text))
	n, exact := slices.BinarySearch(t.starts, offset)
	if !exact {
		n--
	}
	before := t.text[t.starts[n]:offset]
	return position{n, t.encoding.countUnits(before, len(before))}
}

func (t *textLines) rangeOf(r spec.Range) textRange {
	return textRange{t.positionOf(r.Start), t.positionOf(r.End)}
}
