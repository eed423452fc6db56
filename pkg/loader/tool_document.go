package loader

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

	"agenthost/internal/limit"
	"agenthost/internal/policy"
	"agenthost/internal/toolhttp"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// reducedFolder is a revision's folder with the document parts that tools use, for documents at
// URLs and for those that are larger than other app files.
const reducedFolder = ".tools/"

// A toolDocument is a tool's document and its problems.
type toolDocument struct {
	doc tool.Document
	ds  spec.Diagnostics
	// at is where the settings are with which the document was read.
	at spec.Pos
}

// hashReduced hashes the part that the tools use.
func (d toolDocument) hashReduced() string {
	if d.doc == nil {
		return ""
	}
	sum := sha256.Sum256(d.doc.Reduced())
	return hex.EncodeToString(sum[:])
}

// listAddresses returns the addresses that the document names.
func (d toolDocument) listAddresses() []spec.Text {
	if d.doc == nil {
		return nil
	}
	return d.doc.Addresses()
}

// A toolDocumentKey identifies what a tool reads in a document. Settings are the same wherever they
// are in their file: an edit to other lines does not read the document again.
type toolDocumentKey struct {
	kind      string
	settings  resourceKey
	file, sum string
	// node is set if the settings contain the document: its positions are absolute.
	node *spec.Node
}

// writeLayout writes a tree's values, with their positions relative to the first line.
func writeLayout(b *strings.Builder, n *spec.Node, origin spec.Pos) {
	pos := n.Pos
	if pos.File == origin.File {
		pos.Line -= origin.Line
	}
	fmt.Fprintf(b, "%d %q %d %d %s %q\n", n.Kind, pos.File, pos.Line, pos.Col, n.Tag, n.Value)
	for _, e := range n.Entries {
		writeLayout(b, e.Key, origin)
		writeLayout(b, e.Value, origin)
	}
	for _, item := range n.Items {
		writeLayout(b, item, origin)
	}
	b.WriteString("end\n")
}

// diagnosticsAt returns the document's problems for settings that begin at a position.
func (d toolDocument) diagnosticsAt(pos spec.Pos) spec.Diagnostics {
	if pos.Line == d.at.Line {
		return d.ds
	}
	ds := slices.Clone(d.ds)
	for i := range ds {
		if ds[i].Pos.File == pos.File {
			ds[i].Pos.Line += pos.Line - d.at.Line
		}
	}
	return ds
}

// readToolDocument reads a tool's document, if its kind has one, and reports its problems. It
// returns false if there are errors.
func (r *resolver) readToolDocument(ctx context.Context, kind string, n *spec.Node, config any) (toolDocument, bool) {
	c, ok := config.(tool.DocumentConfig)
	if !ok {
		return toolDocument{}, true
	}
	from := c.DocumentSource()
	got, ds := r.readDocumentContent(ctx, from)
	if ds.HasErrors() {
		r.report(ds...)
		return toolDocument{}, false
	}
	key := toolDocumentKey{kind: kind, node: n}
	if from.At.Value != "" {
		var layout strings.Builder
		writeLayout(&layout, n, n.Pos)
		key = toolDocumentKey{kind: kind, settings: hashResourceKey("document", layout.String()), file: got.file, sum: got.sum}
	}
	found := getOrMake(r.src.cache, key, func() (toolDocument, bool) {
		content, ds := got.read()
		if ds.HasErrors() {
			return toolDocument{ds: ds, at: n.Pos}, false
		}
		doc, ds := c.ReadDocument(got.file, content)
		return toolDocument{doc, ds, n.Pos}, true
	})
	ds = append(ds, found.diagnosticsAt(n.Pos)...)
	if found.doc != nil {
		r.recordReduced(from, got, found.doc)
		for _, text := range found.doc.Addresses() {
			ds = append(ds, r.checkAddress(text.Value, text)...)
		}
	}
	r.report(ds...)
	return found, found.doc != nil && !ds.HasErrors()
}

// A documentContent is a document that may not be read yet; sum hashes its content.
type documentContent struct {
	file, sum string
	read      func() ([]byte, spec.Diagnostics)
	// isFile is set for an app file that its revision has.
	isFile bool
}

// readDocumentContent finds a tool's document: in the stored revision, at its URL, or in the app
// folder.
func (r *resolver) readDocumentContent(ctx context.Context, from tool.DocumentSource) (documentContent, spec.Diagnostics) {
	if from.At.Value == "" {
		return documentContent{read: func() ([]byte, spec.Diagnostics) { return nil, nil }}, nil
	}
	if strings.Contains(from.At.Value, "://") {
		return documentContent{file: from.At.Value, sum: "url " + strings.ToLower(from.SHA256.Value), read: func() ([]byte, spec.Diagnostics) {
			return r.readURLDocument(ctx, from)
		}}, nil
	}
	file := from.At.Value
	if rev := r.src.storedRevision; rev != nil {
		if b, ok := rev.Files[reducedFile(from)]; ok {
			return newDocumentContent(r.src.displayPath(file), b), nil
		}
	}
	b, err := r.src.readDocumentFile(file)
	if err != nil {
		if isLimitError(err) { // reported when the load ends
			return documentContent{}, spec.Diagnostics{r.src.budget.exceeded.toDiagnostic(r.src.displayDir)}
		}
		return documentContent{}, spec.Diagnostics{from.At.Errorf(0, "file", "%s", err)}
	}
	got := newDocumentContent(r.src.displayPath(file), b)
	got.isFile = len(b) <= limit.AppFile.Bytes
	return got, nil
}

func newDocumentContent(file string, b []byte) documentContent {
	sum := sha256.Sum256(b)
	return documentContent{file: file, sum: string(sum[:]), read: func() ([]byte, spec.Diagnostics) { return b, nil }}
}

// readDocumentFile reads an app document, which may be larger than the app's other files.
func (s *source) readDocumentFile(given string) ([]byte, error) {
	file := path.Clean(given)
	switch {
	case strings.Contains(given, "\\"):
		return nil, fmt.Errorf("%s contains a backslash: %s", given, slashHint)
	case escapesFolder(given):
		return nil, fmt.Errorf("%s is outside of the app folder", given)
	case strings.EqualFold(path.Base(file), dotenvFile):
		return nil, fmt.Errorf("%s contains secrets: it is not a document", given)
	case !s.fileExists(file):
		return nil, errors.New(s.missingFileMessage(file))
	case s.budget.isExceeded():
		return nil, s.budget.exceeded
	}
	b, err := s.readFileUpTo(file, int64(limit.ToolDocument.Bytes))
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read %s: %s", s.displayPath(file), formatOSError(err))
	case len(b) > limit.ToolDocument.Bytes:
		return nil, fmt.Errorf("%s exceeds the limit of %d MiB", s.displayPath(file), limit.ToolDocument.Bytes>>20)
	}
	return b, s.budget.consume(len(b), 0)
}

// reducedFile names the part of a document in a revision.
func reducedFile(from tool.DocumentSource) string {
	sum := hashResourceKey("tool document", from.At.Value, from.SHA256.Value, from.Selection)
	return reducedFolder + hex.EncodeToString(sum[:8]) + ".json"
}

// recordReduced records the part that the tools use from a document that is not an ordinary app
// file, so that the revision has it. It drops a large file, since the revision needs only that
// part.
func (r *resolver) recordReduced(from tool.DocumentSource, got documentContent, doc tool.Document) {
	if from.At.Value == "" || got.isFile {
		return
	}
	r.src.readFiles[reducedFile(from)] = doc.Reduced()
	delete(r.src.readFiles, path.Clean(from.At.Value))
	if strings.Contains(from.At.Value, "://") {
		r.loader.opts.documents.putDocument(reducedFile(from), doc.Reduced())
	}
}

// readURLDocument returns the document at a URL, whose hash the app has: from the revision, the
// last load, or the server. Policy and address checks are the same as for tools.
func (r *resolver) readURLDocument(ctx context.Context, from tool.DocumentSource) ([]byte, spec.Diagnostics) {
	if rev := r.src.storedRevision; rev != nil {
		if b, ok := rev.Files[reducedFile(from)]; ok {
			return b, nil
		}
	}
	if b, ok := r.loader.opts.documents.getDocument(reducedFile(from)); ok {
		return b, nil
	}
	if ds := r.checkAddress(from.At.Value, from.At); ds.HasErrors() {
		return nil, ds
	}
	client, end := r.acquireGuardedClient([]string{"document client", r.src.name, from.At.Value}, func(guard *policy.Guard) {
		_ = guard.Check(from.At.Value)
	})
	defer func() { _ = end() }()
	b, err := downloadDocument(ctx, client, from.At.Value)
	if err != nil {
		return nil, spec.Diagnostics{from.At.Errorf(0, "openapi", "cannot read the document: %s", err)}
	}
	if sum := sha256.Sum256(b); !strings.EqualFold(hex.EncodeToString(sum[:]), from.SHA256.Value) {
		return nil, spec.Diagnostics{from.SHA256.Errorf(0, "openapi", "the document at the URL has another hash: %x", sum).
			WithHint("review what has changed, then set sha256")}
	}
	return b, nil
}

func downloadDocument(ctx context.Context, client *http.Client, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit.AppLoad.Time)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := toolhttp.GuardRedirects(client).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	return io.ReadAll(limit.ToolDocument.NewReader(resp.Body)) // the document scan counts its values
}

// A documentCache keeps the parts that tools use from documents at URLs, for loaders of tests and
// revisions. It is safe for concurrent use; a nil one keeps nothing.
type documentCache struct {
	mu    sync.Mutex
	files map[string][]byte
}

// maxCachedDocuments limits the documents in a cache.
const maxCachedDocuments = 64

func (c *documentCache) getDocument(name string) ([]byte, bool) {
	if c == nil {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.files[name]
	return b, ok
}

func (c *documentCache) putDocument(name string, content []byte) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files == nil || len(c.files) >= maxCachedDocuments {
		c.files = map[string][]byte{}
	}
	c.files[name] = content
}
