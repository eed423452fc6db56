package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// maxEntryText limits a search entry's text.
const maxEntryText = 1200

// A searchEntry is a heading with its text.
type searchEntry struct {
	Page    string `json:"page"`
	Title   string `json:"title"`
	Address string `json:"address"`
	Text    string `json:"text"`
}

// listEntries returns the page's headings for the search.
func (p *page) listEntries() []searchEntry {
	var all []searchEntry
	for _, h := range p.headings {
		address := p.address
		if h.level > 1 {
			address += "#" + h.id
		}
		all = append(all, searchEntry{p.title, h.title, address, searchText(string(p.text[min(h.start, h.end):h.end]))})
	}
	return all
}

var (
	comments = regexp.MustCompile(`(?s)<!--.*?-->`)
	marks    = regexp.MustCompile("[`*|#>\\[\\]]+|\\([^) ]+\\.(?:md|png|svg)[^)]*\\)|-{3,}")
	spaces   = regexp.MustCompile(`\s+`)
)

// searchText returns Markdown as words.
func searchText(text string) string {
	text = marks.ReplaceAllString(comments.ReplaceAllString(text, " "), " ")
	text = strings.TrimSpace(spaces.ReplaceAllString(text, " "))
	if len(text) > maxEntryText {
		text = strings.ToValidUTF8(text[:maxEntryText], "")
	}
	return text
}

// describeForModels returns llms.txt (llmstxt.org), a list of the pages in Markdown with their purposes, and
// llms-full.txt, their whole text.
func (s *site) describeForModels() (short, full []byte) {
	var list, all bytes.Buffer
	list.WriteString("# agenthost\n\n> One binary that turns folders of YAML into running AI agents, with the semantics and the wire of Google's Agent Development Kit.\n")
	for _, section := range s.menu {
		fmt.Fprintf(&list, "\n## %s\n\n", section.title)
		for _, e := range section.entries {
			p := s.pages[e.path]
			fmt.Fprintf(&list, "- [%s](%s): %s\n", e.title, strings.TrimSuffix(p.address, ".html")+".md", e.purpose)
			fmt.Fprintf(&all, "<!-- %s -->\n\n%s\n\n", e.path, bytes.TrimSpace(p.text))
		}
	}
	return list.Bytes(), all.Bytes()
}
