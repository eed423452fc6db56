package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/yuin/goldmark/ast"
)

//go:embed site.css
var stylesheet string

//go:embed site.js
var script string

//go:embed page.html
var layout string

var pageTemplate = template.Must(template.New("page").Parse(layout))

// pageView has what the layout shows.
type pageView struct {
	Title, Version, Base, Source, Markdown string
	Menu                                   []sectionView
	Headings                               []*headingView
	Body                                   template.HTML
}

type sectionView struct {
	Title   string
	Entries []linkView
}

type linkView struct {
	Title, Address string
	Current        bool
}

type headingView struct{ Title, ID string }

// renderPage returns a page in HTML, and the links without a target.
func (s *site) renderPage(p *page) ([]byte, []error) {
	problems := s.resolveLinks(p)
	var body bytes.Buffer
	if err := markdown.Renderer().Render(&body, p.text, p.doc); err != nil {
		return nil, append(problems, fmt.Errorf("%s: %w", p.path, err))
	}
	view := &pageView{
		Title: p.title, Version: s.version, Base: strings.Repeat("../", strings.Count(p.address, "/")), Source: s.source,
		Markdown: path.Base(strings.TrimSuffix(p.address, ".html") + ".md"), Body: template.HTML(wrapTables(body.String())),
	}
	for _, section := range s.menu {
		v := sectionView{Title: section.title}
		for _, e := range section.entries {
			v.Entries = append(v.Entries, linkView{e.title, s.pages[e.path].address, e.path == p.path})
		}
		view.Menu = append(view.Menu, v)
	}
	for _, h := range p.headings {
		if h.level == 2 {
			view.Headings = append(view.Headings, &headingView{h.title, h.id})
		}
	}
	var html bytes.Buffer
	if err := pageTemplate.Execute(&html, view); err != nil {
		problems = append(problems, fmt.Errorf("%s: %w", p.path, err))
	}
	return html.Bytes(), problems
}

// wrapTables lets wide tables and code scroll by themselves, also by keys.
func wrapTables(html string) string {
	return strings.NewReplacer("<table>", `<div class="table" tabindex="0"><table>`, "</table>", "</table></div>", "<pre>", `<pre tabindex="0">`).Replace(html)
}

// resolveLinks changes a page's links from paths in the repository to addresses in the site.
func (s *site) resolveLinks(p *page) (problems []error) {
	_ = ast.Walk(p.doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		var err error
		switch n := n.(type) {
		case *ast.Link:
			n.Destination, err = s.resolveLink(p, n.Destination)
		case *ast.Image:
			n.Destination, err = s.resolveLink(p, n.Destination)
		}
		if err != nil {
			problems = append(problems, err)
		}
		return ast.WalkContinue, nil
	})
	return problems
}

func (s *site) resolveLink(p *page, written []byte) ([]byte, error) {
	target, anchor, hasAnchor := strings.Cut(string(written), "#")
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return written, nil
	}
	file := p.path
	if target != "" {
		file = path.Join(path.Dir(p.path), target)
	}
	info, err := os.Stat(filepath.Join(s.root, filepath.FromSlash(file)))
	if err != nil || strings.HasPrefix(file, "..") {
		return written, fmt.Errorf("%s: the link %s has no target", p.path, written)
	}
	linked := s.pages[file]
	if linked == nil && info.IsDir() {
		linked = s.pages[path.Join(file, "README.md")]
	}
	switch {
	case linked != nil:
		if hasAnchor && !linked.hasAnchor(anchor) {
			return written, fmt.Errorf("%s: the link %s has no heading", p.path, written)
		}
		if hasAnchor {
			anchor = "#" + anchor
		}
		return []byte(p.addressTo(linked.address) + anchor), nil
	case s.source != "" && !strings.HasPrefix(file, "docs/"):
		kind := "blob"
		if info.IsDir() {
			kind = "tree"
		}
		return fmt.Appendf(nil, "%s/%s/%s/%s", strings.TrimSuffix(s.source, "/"), kind, s.version, file), nil
	case info.IsDir():
		return s.linkFolder(p, file)
	}
	s.assets[file] = true
	return []byte(p.addressTo(assetAddress(file))), nil
}

// linkFolder returns a link to a folder's README, or else to its first file.
func (s *site) linkFolder(p *page, folder string) ([]byte, error) {
	entries, err := os.ReadDir(filepath.Join(s.root, folder))
	if err != nil {
		return nil, err
	}
	first := ""
	for _, e := range entries {
		if e.Name() == "README.md" || first == "" && !e.IsDir() {
			first = path.Join(folder, e.Name())
		}
	}
	if first == "" {
		return []byte(p.addressTo("index.html")), nil
	}
	s.assets[first] = true
	return []byte(p.addressTo(assetAddress(first))), nil
}

// addressTo returns the address in the site as a link on the page.
func (p *page) addressTo(address string) string {
	return strings.Repeat("../", strings.Count(p.address, "/")) + address
}

func (p *page) hasAnchor(id string) bool {
	for _, h := range p.headings {
		if h.id == id {
			return true
		}
	}
	return false
}
