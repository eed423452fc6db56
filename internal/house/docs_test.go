package house_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const docsDir = "../../docs"

var (
	termLink       = regexp.MustCompile(`\]\(([^)#]+)#([^)]+)\)`)
	sectionHeading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	indexLink      = regexp.MustCompile(`\]\(([^)#]+\.md)[)#]`)
	notInAnchor    = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// TestDocsTerms: each term that readers search for is in the heading or the first sentence of every
// section that the index links for it.
func TestDocsTerms(t *testing.T) {
	index := readDoc(t, "README.md")
	_, table, found := strings.Cut(index, "\n## Find it by its usual name\n")
	if !found {
		t.Fatal("docs/README.md has no table of terms")
	}
	var terms []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z, -]+) \| (\[.*) \|$`).FindAllStringSubmatch(table, -1) {
		for _, term := range strings.Split(row[1], ", ") {
			terms = append(terms, term)
			for _, link := range termLink.FindAllStringSubmatch(row[2], -1) {
				if section := findSection(readDoc(t, link[1]), link[2]); !strings.Contains(strings.ToLower(section), term) {
					t.Errorf("%s#%s does not begin with %q", link[1], link[2], term)
				}
			}
		}
	}
	for _, term := range []string{
		"rate limit", "quota", "authentication", "authorization", "hot reload", "rolling update",
		"graceful shutdown", "readiness", "liveness", "backup", "latency", "throughput",
		"backpressure", "idempotency", "human-in-the-loop", "garbage collection",
	} {
		if !slices.Contains(terms, term) {
			t.Errorf("docs/README.md does not list the term %q", term)
		}
	}
}

// TestDocsIndex: the index lists every page of docs/ exactly once.
func TestDocsIndex(t *testing.T) {
	index, _, _ := strings.Cut(readDoc(t, "README.md"), "\n## Find it by its usual name\n")
	listed := map[string]int{}
	for _, m := range indexLink.FindAllStringSubmatch(index, -1) {
		listed[m[1]]++
	}
	pages, err := filepath.Glob(docsDir + "/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" && listed[name] != 1 {
			t.Errorf("docs/README.md lists %s %d times, want once", name, listed[name])
		}
	}
}

func readDoc(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(docsDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// findSection returns the heading with the anchor and the first sentence below it.
func findSection(page, anchor string) string {
	for _, m := range sectionHeading.FindAllStringSubmatchIndex(page, -1) {
		title := page[m[2]:m[3]]
		if strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(title), ""), " ", "-") != anchor {
			continue
		}
		paragraph, _, _ := strings.Cut(strings.TrimLeft(page[m[1]:], "\n"), "\n\n")
		sentence, _, _ := strings.Cut(strings.ReplaceAll(paragraph, "\n", " "), ". ")
		return title + "\n" + sentence
	}
	return ""
}
