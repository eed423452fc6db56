package lsp

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode/utf16"
)

// files are those that are open in the editor, over those on the disk.
type files struct {
	mu   sync.Mutex
	open map[string]string
}

func newFiles() *files { return &files{open: map[string]string{}} }

func (f *files) put(path, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[path] = text
}

func (f *files) drop(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, path)
}

// read is a file that is open; see [loader.Options].
func (f *files) read(path string) ([]byte, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, ok := f.open[path]
	return []byte(text), ok
}

// text is a file as the editor has it, or as it is on the disk.
func (f *files) text(path string) (string, bool) {
	if b, ok := f.read(path); ok {
		return string(b), true
	}
	b, err := os.ReadFile(path)
	return string(b), err == nil
}

// appOf is the folder of the app that a file belongs to: the nearest one above
// that has a root agent or an app.yaml. It is empty when there is none.
func (f *files) appOf(path string) string {
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

// pathOf is the path of a file's URI; that of anything else is the URI.
func pathOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" {
		return uri
	}
	return filepath.FromSlash(u.Path)
}

func uriOf(path string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
}

// units is the count of UTF-16 units that the protocol takes for the first n
// characters of a line.
func units(line string, n int) int {
	count := 0
	for _, r := range line {
		if n--; n < 0 {
			break
		}
		count += utf16.RuneLen(r)
	}
	return count
}

// bytesOf is the offset of a count of UTF-16 units in a line.
func bytesOf(line string, count int) int {
	for i, r := range line {
		if count <= 0 {
			return i
		}
		count -= max(1, utf16.RuneLen(r))
	}
	return len(line)
}

func linesOf(text string) []string {
	return strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
}

// exists says whether there is a file of this path, open or on the disk.
func (f *files) exists(path string) bool {
	_, ok := f.text(path)
	return ok
}
