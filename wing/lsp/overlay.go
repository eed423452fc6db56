package lsp

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// overlay holds the files that are open in the editor; their unsaved text takes
// precedence over the files on disk.
type overlay struct {
	mu   sync.Mutex
	open map[string]document
	// replaced are the broken files during a check.
	replaced substitutes
}

func newFileOverlay() *overlay { return &overlay{open: map[string]document{}} }

func (f *overlay) set(path string, d document) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[path] = d
}

// versionOf returns the version of an open document, or nil if it is not open.
func (f *overlay) versionOf(path string) *int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d, ok := f.open[path]; ok {
		return &d.Version
	}
	return nil
}

func (f *overlay) remove(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, path)
}

// read returns an open file's text; see [loader.Options].
func (f *overlay) read(path string) ([]byte, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, ok := f.open[path]
	return []byte(d.Text), ok
}

// readForCheck is read, but returns the substitute for a broken file; see [loader.Options].
func (f *overlay) readForCheck(path string) ([]byte, bool) {
	f.mu.Lock()
	r, ok := f.replaced[path]
	f.mu.Unlock()
	if ok {
		return []byte(r.text), true
	}
	return f.read(path)
}

func (f *overlay) setSubstitutes(replaced substitutes) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replaced = replaced
}

// listOpen returns the open files' texts.
func (f *overlay) listOpen() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	texts := make(map[string]string, len(f.open))
	for path, d := range f.open {
		texts[path] = d.Text
	}
	return texts
}

// readText returns a file's text, from the editor if open, else from disk.
func (f *overlay) readText(path string) (string, bool) {
	if b, ok := f.read(path); ok {
		return string(b), true
	}
	b, err := os.ReadFile(path)
	return string(b), err == nil
}

// findAppFolder returns the folder of the app that a file belongs to: the nearest parent
// folder with a root agent or an app.yaml. It is empty if there is none.
func (f *overlay) findAppFolder(path string) string {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		for _, name := range []string{"app.yaml", "root_agent.yaml"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				return dir
			}
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}

// pathFromURI returns a file: URI's path; other URIs are returned unchanged.
func pathFromURI(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" {
		return uri
	}
	return filepath.FromSlash(u.Path)
}

// uriOf returns a document's URI as the editor writes it, or a file URI if it is not open.
func (s *Server) uriOf(path string) string {
	s.files.mu.Lock()
	defer s.files.mu.Unlock()
	if d, ok := s.files.open[path]; ok {
		return d.URI
	}
	return uriFromPath(path)
}

func uriFromPath(path string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
}

func splitIntoLines(text string) []string {
	return strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
}

// hasFile reports whether the file is open or on disk.
func (f *overlay) hasFile(path string) bool {
	_, ok := f.readText(path)
	return ok
}
