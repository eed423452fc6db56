package house_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxOfPerThousand is the number of "of" in 1000 words of prose: chains of genitives are
// nouns before nouns, or verbs.
const maxOfPerThousand = 22

// generatedPages are written from code.
var generatedPages = []string{"docs/reference.md"}

var (
	proseWord   = regexp.MustCompile(`[A-Za-z']+`)
	codeBlock   = regexp.MustCompile("(?ms)^[ ]*```.*?^[ ]*```[^\n]*$")
	pageComment = regexp.MustCompile(`(?s)<!--.*?-->`)
	linkTarget  = regexp.MustCompile(`\]\([^)\s]*\)`)
)

// TestPageGenitives: a page has at most 22 "of" in 1000 words, apart from its code blocks,
// its comments and the targets of its links.
func TestPageGenitives(t *testing.T) {
	pages := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "qa/*/*.md", "apps/*/*.md", "examples/*/*.md", "cmd/agenthost/new/*/*.md"} {
		files, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			name := strings.TrimPrefix(filepath.ToSlash(file), "../../")
			if slices.Contains(generatedPages, name) {
				continue
			}
			pages++
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if words, of := countOf(stripCode(string(b))); of*1000 > maxOfPerThousand*words {
				t.Errorf("%s has %d \"of\" in %d words, %.1f in 1000, at most %d are allowed: put the noun before the noun, or use the verb", name, of, words, float64(of)*1000/float64(words), maxOfPerThousand)
			}
		}
	}
	if pages < 70 {
		t.Errorf("checked %d pages, want at least 70", pages)
	}
}

// The control: a page with chains of "of" exceeds the limit, and its code, comments and
// links do not count.
func TestPageGenitivesControl(t *testing.T) {
	for text, want := range map[string]bool{
		"Score the results of evaluations of an app by the metrics of a set.":         true,
		"Score evaluation results by the set's metrics.":                              false,
		"Run it:\n\n```sh\n# the folder of the app of the user\nagenthost run\n```\n": false,
		"Read [this](parts-of-an-app.md#part-of-it).\n<!-- part of it -->\n":          false,
	} {
		words, of := countOf(stripCode(text))
		if got := of*1000 > maxOfPerThousand*words; got != want {
			t.Errorf("%q: %d \"of\" in %d words: over the limit is %v, want %v", text, of, words, got, want)
		}
	}
}

// stripCode returns a page without its code blocks, comments and link targets.
func stripCode(page string) string {
	return linkTarget.ReplaceAllString(pageComment.ReplaceAllString(codeBlock.ReplaceAllString(page, ""), ""), "]")
}

// countOf returns the number of words in text, and how many of them are "of".
func countOf(text string) (words, of int) {
	for _, word := range proseWord.FindAllString(text, -1) {
		words++
		if strings.EqualFold(word, "of") {
			of++
		}
	}
	return words, of
}

// TestCommentGenitives: the comments of a package and of its tests have at most 22 "of" in
// 1000 words.
func TestCommentGenitives(t *testing.T) {
	texts := map[string]*strings.Builder{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".g")) {
			return filepath.SkipDir
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		dir := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../../")
		if texts[dir] == nil {
			texts[dir] = &strings.Builder{}
		}
		for _, comment := range f.Comments {
			texts[dir].WriteString(comment.Text())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir, text := range texts {
		if words, of := countOf(text.String()); exceedsGenitives(words, of) {
			t.Errorf("the comments of %s have %d \"of\" in %d words, %.1f in 1000, at most %d are allowed: put the noun before the noun, or use the verb", dir, of, words, float64(of)*1000/float64(words), maxOfPerThousand)
		}
	}
	if len(texts) < 100 {
		t.Errorf("checked %d packages, want at least 100", len(texts))
	}
}

// exceedsGenitives reports whether text has too many "of". A few are always allowed, so that
// short packages need no contortions.
func exceedsGenitives(words, of int) bool {
	const inShortTexts = 3
	return of > inShortTexts && of*1000 > maxOfPerThousand*words
}

func TestCommentGenitivesControl(t *testing.T) {
	for text, want := range map[string]bool{
		strings.Repeat("The results of evaluations are those of the last run of an app. ", 3): true,
		strings.Repeat("The evaluation results are from the app's last run. ", 3):             false,
		"The length of the list of names of an app.":                                          false, // too short to count
	} {
		if words, of := countOf(text); exceedsGenitives(words, of) != want {
			t.Errorf("%q: %d \"of\" in %d words: over the limit is %v, want %v", text, of, words, !want, want)
		}
	}
}
