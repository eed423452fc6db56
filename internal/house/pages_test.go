package house_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A page that refers to a test or a script names one that exists.
func TestPagesNameTests(t *testing.T) {
	const root = "../.."
	var code strings.Builder
	scripts := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case strings.HasSuffix(path, "_test.go"):
			b, err := os.ReadFile(path)
			code.Write(b)
			return err
		case strings.HasSuffix(path, ".txtar"):
			scripts[d.Name()] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(root + "/docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	named := regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*|[a-z0-9-]+\\.txtar)`")
	for _, page := range pages {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(b), -1) {
			if name := m[1]; !scripts[name] && !strings.Contains(code.String(), "func "+name+"(") {
				t.Errorf("%s: test %s not found", filepath.Base(page), name)
			}
		}
	}
}
