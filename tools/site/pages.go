package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// The index page, and the pages that are not in docs/.
const indexPage = "docs/README.md"

var otherPages = []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}

// A page is a Markdown file.
type page struct {
	path    string // in the repository
	address string // in the site
	text    []byte
	doc     ast.Node
	title   string
	// headings are those with an anchor, in their order.
	headings []*heading
}

type heading struct {
	level      int
	title, id  string
	start, end int // its text in the page, up to the next heading
}

// A section is a group in the menu.
type section struct {
	title   string
	entries []menuEntry
}

type menuEntry struct{ path, title, purpose string }

var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

func (s *site) readPages() error {
	s.pages, s.assets = map[string]*page{}, map[string]bool{}
	files := slices.Clone(otherPages)
	for _, pattern := range []string{"docs/*.md", "docs/decisions/*.md"} {
		matches, err := filepath.Glob(filepath.Join(s.root, pattern))
		if err != nil {
			return err
		}
		for _, m := range matches {
			file, err := filepath.Rel(s.root, m)
			if err != nil {
				return err
			}
			files = append(files, filepath.ToSlash(file))
		}
	}
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(s.root, file))
		if err != nil {
			return err
		}
		s.pages[file] = newPage(file, content)
	}
	if s.pages[indexPage] == nil {
		return fmt.Errorf("%s is missing", indexPage)
	}
	return nil
}

func newPage(file string, content []byte) *page {
	p := &page{path: file, address: pageAddress(file), text: content}
	p.doc = markdown.Parser().Parse(text.NewReader(content), parser.WithContext(parser.NewContext(parser.WithIDs(anchors{}))))
	_ = ast.Walk(p.doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		h, ok := n.(*ast.Heading)
		if !ok || !entering {
			return ast.WalkContinue, nil
		}
		id, _ := h.AttributeString("id")
		b, _ := id.([]byte)
		entry := &heading{level: h.Level, title: plainText(h, content), id: string(b), start: len(content), end: len(content)}
		if lines := h.Lines(); lines.Len() > 0 {
			entry.start = lines.At(0).Stop
		}
		if i := len(p.headings); i > 0 {
			p.headings[i-1].end = min(entry.start, len(content))
		}
		p.headings = append(p.headings, entry)
		return ast.WalkSkipChildren, nil
	})
	p.title = strings.TrimSuffix(path.Base(file), ".md")
	if len(p.headings) > 0 {
		p.title = p.headings[0].title
	}
	return p
}

// pageAddress returns a page's address in the site: the index is its start, and pages outside of docs/ have
// their names in small letters.
func pageAddress(file string) string {
	switch name, ok := strings.CutPrefix(file, "docs/"); {
	case file == indexPage:
		return "index.html"
	case ok && path.Base(name) == "README.md":
		return path.Dir(name) + "/index.html"
	case ok:
		return strings.TrimSuffix(name, ".md") + ".html"
	case file == "README.md":
		return "overview.html"
	}
	return strings.ToLower(strings.TrimSuffix(file, ".md")) + ".html"
}

// assetAddress returns where a file is copied to: pictures of the pages keep their names.
func assetAddress(file string) string {
	if name, ok := strings.CutPrefix(file, "docs/"); ok {
		return name
	}
	if path.Ext(file) == ".go" {
		file += ".txt" // else the site would have Go packages
	}
	return "files/" + file
}

// anchors are the headings' IDs, as on GitHub.
type anchors map[string]int

// Generate returns the ID for a heading's text.
func (a anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	title := headingLink.ReplaceAllString(strings.ToLower(string(value)), "$1")
	var id strings.Builder
	for _, c := range title {
		switch {
		case c == ' ':
			id.WriteByte('-')
		case unicode.IsLetter(c) || unicode.IsNumber(c) || c == '-' || c == '_':
			id.WriteRune(c)
		}
	}
	name := id.String()
	if n := a[name]; n > 0 {
		a[name] = n + 1
		return fmt.Appendf(nil, "%s-%d", name, n)
	}
	a[name] = 1
	return []byte(name)
}

// Put is for IDs in the text, which the pages do not have.
func (a anchors) Put(value []byte) { a[string(value)]++ }

var headingLink = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// plainText returns a node's text without its form.
func plainText(n ast.Node, source []byte) string {
	var b bytes.Buffer
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Segment.Value(source))
				if n.SoftLineBreak() || n.HardLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.String:
			if entering {
				b.Write(n.Value)
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(b.String())
}

func (s *site) sortedPages() []*page {
	return slices.SortedFunc(maps.Values(s.pages), func(a, b *page) int { return cmp.Compare(a.path, b.path) })
}

// menuLine is a row in the index page's tables.
var menuLine = regexp.MustCompile(`^\| \[([^\]]+)\]\(([^)#]+)\) \| (.*) \|$`)

// readMenu reads the menu from the index page: its sections with tables.
func (s *site) readMenu() error {
	for line := range strings.Lines(string(s.pages[indexPage].text)) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "## "); ok {
			s.menu = append(s.menu, section{title: title})
		}
		m := menuLine.FindStringSubmatch(line)
		if m == nil || len(s.menu) == 0 {
			continue
		}
		if file := path.Join("docs", m[2]); s.pages[file] != nil {
			last := &s.menu[len(s.menu)-1]
			last.entries = append(last.entries, menuEntry{file, m[1], plainText(newPage("", []byte(m[3])).doc, []byte(m[3]))})
		}
	}
	s.menu = slices.DeleteFunc(s.menu, func(e section) bool { return len(e.entries) == 0 })
	if len(s.menu) == 0 {
		return fmt.Errorf("%s has no tables with pages", indexPage)
	}
	return nil
}
