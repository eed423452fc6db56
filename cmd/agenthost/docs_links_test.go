package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	fencedBlock = regexp.MustCompile("(?ms)^```.*?^```")
	heading     = regexp.MustCompile(`(?m)^#+ (.*)$`)
	headingLink = regexp.MustCompile(`\]\([^)]*\)`)
	pageLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// TestDocsLinks checks that every relative link in the Markdown pages names an existing file, and
// an existing heading if it has an anchor.
func TestDocsLinks(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "apps/*/README.md", "qa/*/*.md"} {
		matches, err := filepath.Glob(filepath.Join(repo, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, matches...)
	}
	pages := map[string]string{}
	for _, file := range files {
		pages[file] = fencedBlock.ReplaceAllString(readText(t, file), "")
	}
	for file, text := range pages {
		for _, m := range pageLink.FindAllStringSubmatch(text, -1) {
			path, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(m[1], "://") {
				continue
			}
			target := file
			if path != "" {
				target = filepath.Join(filepath.Dir(file), filepath.FromSlash(path))
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link to %s: file not found", file, m[1])
				continue
			}
			if page, ok := pages[target]; ok && anchor != "" && !hasAnchor(page, anchor) {
				t.Errorf("%s: link to %s: heading not found", file, m[1])
			}
		}
	}
}

// hasAnchor reports whether GitHub generates the anchor for a heading on the page.
func hasAnchor(page, anchor string) bool {
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		title := strings.ToLower(headingLink.ReplaceAllString(m[1], ""))
		if strings.ReplaceAll(notInAnchor.ReplaceAllString(title, ""), " ", "-") == anchor {
			return true
		}
	}
	return false
}
