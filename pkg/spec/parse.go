package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Limits of a document.
const (
	maxBytes        = 1 << 20
	maxNodeEstimate = 50_000
	maxDepth        = 64
	maxAliased      = 10_000
	maxAliasRatio   = 100
	maxAliasedBytes = 1 << 20
)

// Parse parses one YAML document, or one JSON document without the escapes that YAML
// lacks: \/ and surrogate pairs. It reports invalid syntax, duplicate keys, keys that
// are not strings, unknown tags, recursive aliases, a second document, and documents
// over the limits: 1 MiB; 50,000 lines, keys and items; 64 levels; and, added by
// aliases, 10,000 nodes, 100 times the written nodes, or 1 MiB of text. The node is
// never nil: an empty or unreadable document is a null scalar.
func Parse(file string, src []byte) (*Node, Diagnostics) {
	src = bytes.TrimPrefix(src, []byte("\uFEFF"))
	if len(src) > maxBytes {
		return emptyDocument(file, nil), Diagnostics{{
			Pos: Pos{File: file}, Rule: "limit",
			Message: fmt.Sprintf("file size of %d bytes exceeds the limit of 1 MiB", len(src)),
		}}
	}
	if n := EstimateNodes(src); n > maxNodeEstimate {
		return emptyDocument(file, nil), Diagnostics{{
			Pos: Pos{File: file}, Rule: "limit",
			Message: fmt.Sprintf("file has about %d lines, keys and items, which exceeds the limit of %d", n, maxNodeEstimate),
			Hint:    "split the file, or move long text to separate files with ${file:PATH}",
		}}
	}
	text := newSource(string(src))
	empty := emptyDocument(file, text)
	if d, bad := findBadCharacter(file, src); bad {
		d.Source = text.lineText(d.Pos.Line)
		return empty, Diagnostics{d}
	}
	docs, ds := readDocuments(file, src, text)
	if len(docs) == 0 {
		return empty, ds
	}
	root, found := composeTree(file, text, docs[0])
	ds = append(ds, found...)
	ds.Sort()
	return root, ds
}

// EstimateNodes counts the characters that may start a line, a key or an item, which is
// an estimate of the cost of parsing: a document has at most twice as many nodes. It
// also counts commas and colons inside strings, which only a parser can distinguish.
func EstimateNodes(src []byte) int {
	n := 0
	for i, b := range src {
		switch b {
		case '\n', '\r', ',', ':', '[', '{', '?':
			n++
		case '-':
			if i+1 < len(src) && (src[i+1] == ' ' || src[i+1] == '\t') {
				n++
			}
		case 0x85, 0xA8, 0xA9: // the last bytes of the other line breaks
			n++
		}
	}
	return n
}

func emptyDocument(file string, src *source) *Node {
	return &Node{Pos: Pos{file, 1, 1}, Tag: nullTag, src: src}
}

// findBadCharacter returns a problem for the first character that YAML does not allow.
// The YAML parser would report it without a position.
func findBadCharacter(file string, src []byte) (Diagnostic, bool) {
	for at := 0; at < len(src); {
		r, size := utf8.DecodeRune(src[at:])
		message := ""
		switch {
		case r == utf8.RuneError && size <= 1:
			message = "file is not valid UTF-8"
		case !isPrintable(r):
			message = fmt.Sprintf("character U+%04X is not allowed in YAML", r)
		}
		if message != "" {
			return Diagnostic{Pos: posAfter(file, src[:at]), Rule: "yaml", Message: message}, true
		}
		at += size
	}
	return Diagnostic{}, false
}

// isPrintable implements the YAML 1.1 rule.
func isPrintable(r rune) bool {
	switch {
	case r == '\t', r == '\n', r == '\r', r == 0x85:
		return true
	case r < 0x20, r >= 0x7F && r < 0xA0, r == 0xFEFF, r == 0xFFFE, r == 0xFFFF:
		return false
	}
	return true
}

// posAfter returns the position after the given text.
func posAfter(file string, before []byte) Pos {
	lines := newSource(string(bytes.ToValidUTF8(before, []byte("?")))).lines
	return Pos{file, len(lines), utf8.RuneCountInString(lines[len(lines)-1]) + 1}
}

// readDocuments runs the YAML parser. It returns the first document, if any, and the
// problems.
func readDocuments(file string, src []byte, text *source) ([]*yaml.Node, Diagnostics) {
	dec := yaml.NewDecoder(bytes.NewReader(src))
	var docs []*yaml.Node
	for len(docs) < 2 {
		doc := new(yaml.Node)
		err := decodeYAML(dec, doc)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return docs, Diagnostics{newSyntaxError(file, text, dec, err)}
		}
		docs = append(docs, doc)
	}
	pos := text.clampPos(Pos{file, docs[1].Line, docs[1].Column})
	return docs[:1], Diagnostics{{
		Pos: pos, Rule: "yaml", Source: text.lineText(pos.Line),
		Message: "a second document starts here; only one per file is allowed",
		Hint:    `remove the "---" line, or move the second document to its own file`,
	}}
}

// decodeYAML converts a panic of the parser to an error, so that no file can crash the
// program.
func decodeYAML(dec *yaml.Decoder, doc *yaml.Node) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: parser panicked: %v", r)
		}
	}()
	return dec.Decode(doc)
}
