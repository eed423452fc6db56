package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// buildSite builds a version of a repository's site.
func buildSite(t *testing.T, root, out, version, source string) error {
	t.Helper()
	return (&site{root: root, out: out, version: version, source: source}).build()
}

// TestSite checks that each link of each page leads to a file, and to a heading if it has an anchor, that nothing
// loads from another host, and that search, models and versions find the pages.
func TestSite(t *testing.T) {
	out := t.TempDir()
	for _, version := range []string{"v0.9.0", "v0.10.0"} {
		if err := buildSite(t, "../..", out, version, ""); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(out, "v0.10.0")
	pages := readSite(t, dir)
	if len(pages) < 50 {
		t.Fatalf("only %d pages", len(pages))
	}
	for name, p := range pages {
		for _, link := range p.links {
			target, anchor, _ := strings.Cut(link, "#")
			switch {
			case strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") || strings.HasPrefix(target, "data:"):
				continue
			case target == "":
				target = name
			default:
				target = path.Join(path.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join(dir, target)); err != nil {
				t.Errorf("%s: %s: no such file", name, link)
			} else if to := pages[target]; anchor != "" && to != nil && !to.ids[anchor] {
				t.Errorf("%s: %s: no such heading", name, link)
			}
		}
		for _, address := range p.loaded {
			if strings.Contains(address, "://") || strings.HasPrefix(address, "//") {
				t.Errorf("%s loads %s", name, address)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, strings.TrimSuffix(name, ".html")+".md")); err != nil {
			t.Errorf("%s has no Markdown", name)
		}
	}
	var entries []searchEntry
	readJSON(t, filepath.Join(dir, "search.json"), &entries)
	found := slices.ContainsFunc(entries, func(e searchEntry) bool {
		return e.Title == "Retention" && e.Address == "operating.html#retention" && strings.Contains(e.Text, "expired")
	})
	if !found {
		t.Errorf("the search does not find Retention in %d entries", len(entries))
	}
	var versions []string
	readJSON(t, filepath.Join(out, "versions.json"), &versions)
	if !slices.Equal(versions, []string{"v0.10.0", "v0.9.0"}) {
		t.Errorf("the versions are %q", versions)
	}
	start, err := os.ReadFile(filepath.Join(out, "index.html"))
	if err != nil || !strings.Contains(string(start), "url=v0.10.0/index.html") {
		t.Errorf("the root is %s, %v", start, err)
	}
	list, err := os.ReadFile(filepath.Join(dir, "llms.txt"))
	if err != nil || !strings.Contains(string(list), "- [Operating](operating.md): monitor a server: health checks, metrics, traces, logs, memory\n") {
		t.Errorf("llms.txt is %s, %v", list, err)
	}
}

// A renderedPage has what a page refers to.
type renderedPage struct {
	links, loaded []string
	ids           map[string]bool
}

func readSite(t *testing.T, dir string) map[string]*renderedPage {
	t.Helper()
	pages := map[string]*renderedPage{}
	err := filepath.WalkDir(dir, func(file string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".html" || strings.Contains(file, "/files/") {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		doc, err := html.Parse(f)
		if err != nil {
			return err
		}
		p := &renderedPage{ids: map[string]bool{}}
		for n := range doc.Descendants() {
			for _, a := range n.Attr {
				switch {
				case a.Key == "id":
					p.ids[a.Val] = true
				case a.Key == "href" && n.Data == "a":
					p.links = append(p.links, a.Val)
				case a.Key == "href" || a.Key == "src":
					p.links, p.loaded = append(p.links, a.Val), append(p.loaded, a.Val)
				}
			}
		}
		pages[filepath.ToSlash(name)] = p
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestSiteSource checks that with an address of the repository, files outside of the pages are links to it.
func TestSiteSource(t *testing.T) {
	out := t.TempDir()
	root := writeRepository(t, "See [the unit](../deploy/unit), [apps](../deploy) and [below](#a-b-c).\n\n## A `b`, c\n")
	if err := buildSite(t, root, out, "v1", "https://git.example/agenthost/"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, "v1", "guide.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`href="https://git.example/agenthost/blob/v1/deploy/unit"`, `href="https://git.example/agenthost/tree/v1/deploy"`, `href="guide.html#a-b-c"`, `<h2 id="a-b-c">`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
}

// TestSiteProblems checks that links without a target are errors with their page, all at once.
func TestSiteProblems(t *testing.T) {
	root := writeRepository(t, "[a](missing.md) [b](guide.md#missing) [c](../../outside.md)\n\n# Guide\n")
	err := buildSite(t, root, t.TempDir(), "v1", "")
	want := "docs/guide.md: the link missing.md has no target\ndocs/guide.md: the link guide.md#missing has no heading\ndocs/guide.md: the link ../../outside.md has no target"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := buildSite(t, root, t.TempDir(), "../v1", ""); err == nil || !strings.Contains(err.Error(), `got "../v1"`) {
		t.Errorf("got %v for a version with a folder", err)
	}
}

// writeRepository writes a repository with a guide.
func writeRepository(t *testing.T, guide string) string {
	t.Helper()
	root := t.TempDir()
	for file, text := range map[string]string{
		"README.md": "# a\n", "CHANGELOG.md": "# b\n", "CONTRIBUTING.md": "# c\n", "SECURITY.md": "# d\n", "deploy/unit": "x",
		"docs/README.md": "# Documentation\n\n## Start\n\n| page | read this |\n| --- | --- |\n| [Guide](guide.md) | begin |\n", "docs/guide.md": guide,
	} {
		if err := writeFile(filepath.Join(root, file), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}
