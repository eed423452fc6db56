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
	open map[string]string
}

func newFileOverlay() *overlay { return &overlay{open: map[string]string{}} }

func (f *overlay) set(path, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[path] = text
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
	text, ok := f.open[path]
	return []byte(text), ok
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
