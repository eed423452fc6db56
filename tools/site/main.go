// Command site builds the documentation as a website from the Markdown pages:
//
//	go run ./site -root .. -out ../dist/site -version v0.1.0 -source https://github.com/OWNER/agenthost
//
// A version is a folder with a page in HTML and one in Markdown for each page, llms.txt, llms-full.txt and an
// index for the search. Versions that are in the folder stay, and the root leads to the one that was built last.
// A link to a page or a heading that does not exist is an error. The pages load nothing from other hosts.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A site is one version's pages.
type site struct {
	root, out, version string
	// source is the repository's address; without it files outside of the pages are copied.
	source string
	pages  map[string]*page // by path in the repository
	menu   []section
	// assets are the files to copy, by path in the repository.
	assets map[string]bool
}

func main() {
	s := &site{}
	flag.StringVar(&s.root, "root", ".", "the repository's folder")
	flag.StringVar(&s.out, "out", "dist/site", "folder for the site")
	flag.StringVar(&s.version, "version", "latest", "version of the pages")
	flag.StringVar(&s.source, "source", "", "address of the repository, such as https://github.com/OWNER/agenthost (default: files are copied)")
	flag.Parse()
	if err := s.build(); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Printf("%d pages in %s\n", len(s.pages), filepath.Join(s.out, s.version))
}

// versionName is a version that can be a folder and a part of an address.
var versionName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func (s *site) build() error {
	if !versionName.MatchString(s.version) {
		return fmt.Errorf("-version must have only letters, digits, dots, dashes and underscores, got %q", s.version)
	}
	if err := s.readPages(); err != nil {
		return err
	}
	if err := s.readMenu(); err != nil {
		return err
	}
	dir := filepath.Join(s.out, s.version)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	var problems []error
	for _, p := range s.sortedPages() {
		html, found := s.renderPage(p)
		problems = append(problems, found...)
		for name, content := range map[string][]byte{p.address: html, strings.TrimSuffix(p.address, ".html") + ".md": p.text} {
			if err := writeFile(filepath.Join(dir, name), content); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	return errors.Join(s.copyAssets(dir), s.writeIndexes(dir), s.writeVersions())
}

// writeFile writes a file and its folders.
func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

func (s *site) copyAssets(dir string) error {
	for file := range s.assets {
		content, err := os.ReadFile(filepath.Join(s.root, file))
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(dir, assetAddress(file)), content); err != nil {
			return err
		}
	}
	for name, content := range map[string]string{"site.css": stylesheet, "site.js": script} {
		if err := writeFile(filepath.Join(dir, name), []byte(content)); err != nil {
			return err
		}
	}
	return nil
}

// writeIndexes writes the search's index, and the pages' lists for models.
func (s *site) writeIndexes(dir string) error {
	var entries []searchEntry
	for _, p := range s.sortedPages() {
		entries = append(entries, p.listEntries()...)
	}
	var index bytes.Buffer
	e := json.NewEncoder(&index)
	e.SetEscapeHTML(false)
	if err := e.Encode(entries); err != nil {
		return err
	}
	short, full := s.describeForModels()
	for name, content := range map[string][]byte{"search.json": index.Bytes(), "llms.txt": short, "llms-full.txt": full} {
		if err := writeFile(filepath.Join(dir, name), content); err != nil {
			return err
		}
	}
	return nil
}

// writeVersions lists the versions in the folder, and leads the root to this one.
func (s *site) writeVersions() error {
	entries, err := os.ReadDir(s.out)
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(s.out, e.Name(), "search.json")); err == nil {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, compareVersions)
	list, err := json.Marshal(names)
	if err != nil {
		return err
	}
	start := fmt.Sprintf("<!doctype html>\n<meta charset=\"utf-8\">\n<title>agenthost</title>\n<link rel=\"icon\" href=\"data:,\">\n<meta http-equiv=\"refresh\" content=\"0; url=%[1]s/index.html\">\n<a href=\"%[1]s/index.html\">Documentation</a>\n", s.version)
	return errors.Join(writeFile(filepath.Join(s.out, "versions.json"), list), writeFile(filepath.Join(s.out, "index.html"), []byte(start)))
}

// compareVersions orders the newest first: numbers by their value, other names before them.
func compareVersions(a, b string) int {
	number := regexp.MustCompile(`\d+|\D+`)
	x, y := number.FindAllString(strings.TrimPrefix(b, "v"), -1), number.FindAllString(strings.TrimPrefix(a, "v"), -1)
	return slices.CompareFunc(x, y, func(x, y string) int {
		if isNumber(x) && isNumber(y) && len(x) != len(y) {
			return len(x) - len(y)
		}
		return strings.Compare(x, y)
	})
}

func isNumber(text string) bool { return text[0] >= '0' && text[0] <= '9' }
