package lsp

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
)

// A documentLink is a range that opens a file or a page.
type documentLink struct {
	Range  textRange `json:"range"`
	Target string    `json:"target"`
}

var (
	// fileKey matches a key whose value is a file's path, or an item that is a YAML file.
	fileKey = regexp.MustCompile(`(?:^|[\s{,-])(?:config_path|script|root_agent|spec|summary|include):\s*\[?\s*["']?([\w./-]+\.\w+)|^\s*-\s+["']?([\w./-]+\.ya?ml)["']?\s*$`)
	// fileReference matches ${file:PATH}.
	fileReference = regexp.MustCompile(`\$\{file:([^}\s]+)\}`)
	// webAddress matches a URL.
	webAddress = regexp.MustCompile(`https?://[^\s"'<>{}|\\^` + "`" + `\[\]]+`)
)

// listLinks answers textDocument/documentLink: the files that a document names, if they exist in the
// app or next to it, and web addresses without placeholders.
func (s *Server) listLinks(_ context.Context, m *message) (any, error) {
	var p openParams
	if err := decodeParams(m, &p); err != nil {
		return nil, err
	}
	path := pathFromURI(p.Document.URI)
	text, ok := s.files.readText(path)
	if !ok {
		return nil, nil
	}
	dir := s.files.findAppFolder(path)
	links := []documentLink{}
	for n, line := range splitIntoLines(text) {
		add := func(start, end int, target string) {
			at := func(offset int) position {
				return position{n, s.encoding.countUnits(line[:offset], offset)}
			}
			links = append(links, documentLink{textRange{at(start), at(end)}, target})
		}
		for _, found := range fileKey.FindAllStringSubmatchIndex(line, -1) {
			start, end := max(found[2], found[4]), max(found[3], found[5])
			if target := s.findLinkedFile(dir, line[start:end], filepath.Dir(path), dir); target != "" {
				add(start, end, target)
			}
		}
		for _, found := range fileReference.FindAllStringSubmatchIndex(line, -1) {
			if target := s.findLinkedFile(dir, line[found[2]:found[3]], dir); target != "" {
				add(found[2], found[3], target)
			}
		}
		for _, found := range webAddress.FindAllStringIndex(line, -1) {
			address := strings.TrimRight(line[found[0]:found[1]], ".,;:!?)")
			isTemplate := found[1] < len(line) && line[found[1]] == '{' || strings.HasSuffix(address, "$")
			if !isTemplate && len(address) > len("https://") {
				add(found[0], found[0]+len(address), address)
			}
		}
	}
	return links, nil
}

// findLinkedFile returns the URI of a path in one of the folders, or "". Files outside of the app are
// shared ones in the folder above.
func (s *Server) findLinkedFile(dir, name string, folders ...string) string {
	for _, folder := range folders {
		file := filepath.Join(folder, filepath.FromSlash(name))
		rel, err := filepath.Rel(filepath.Dir(dir), file)
		if dir == "" || err != nil || strings.HasPrefix(rel, "..") || filepath.IsAbs(name) {
			continue
		}
		if s.files.hasFile(file) {
			return uriFromPath(file)
		}
	}
	return ""
}
