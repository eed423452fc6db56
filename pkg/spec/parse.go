package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// The bounds of a document.
const (
	maxBytes        = 1 << 20
	maxNodeEstimate = 50_000
	maxDepth        = 64
	maxAliased      = 10_000
	maxAliasRatio   = 100
	maxAliasedBytes = 1 << 20
)

// Parse reads one YAML document, or one of JSON without the escapes \/ and
// surrogate pairs, which YAML does not have. It reports bad syntax, duplicate
// keys, keys that are no text, tags that are not YAML's own, aliases without
// end, a second document, and documents beyond the bounds: 1 MiB, 50 000 lines,
// keys and items, 64 levels, and by aliases 10 000 nodes, 100 times those
// written, or 1 MiB of text.
// The node is never nil: an empty document, or one that cannot be read at all,
// is a null scalar.
func Parse(file string, src []byte) (*Node, Diagnostics) {
	src = bytes.TrimPrefix(src, []byte("\uFEFF"))
	if len(src) > maxBytes {
		return emptyDocument(file, nil), Diagnostics{{
			Pos: Pos{File: file}, Rule: "limit",
			Message: fmt.Sprintf("the file has %d bytes; at most 1 MiB is read", len(src)),
		}}
	}
	if n := EstimateNodes(src); n > maxNodeEstimate {
		return emptyDocument(file, nil), Diagnostics{{
			Pos: Pos{File: file}, Rule: "limit",
			Message: fmt.Sprintf("the file has about %d lines, keys and items; at most %d are read", n, maxNodeEstimate),
			Hint:    "cut it in several files, or keep long texts in files of their own: ${file:PATH}",
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

// EstimateNodes counts what may begin a line, a key or an item, which is what reading a
// document costs: there are at most twice as many nodes. Commas and colons of
// texts count too, since only a parser could tell them apart.
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

// findBadCharacter looks for what YAML does not allow anywhere. The YAML
// parser would tell it without a place.
func findBadCharacter(file string, src []byte) (Diagnostic, bool) {
	for at := 0; at < len(src); {
		r, size := utf8.DecodeRune(src[at:])
		message := ""
		switch {
		case r == utf8.RuneError && size <= 1:
			message = "this is not UTF-8 text"
		case !isPrintable(r):
			message = fmt.Sprintf("the character U+%04X is not allowed in YAML", r)
		}
		if message != "" {
			return Diagnostic{Pos: posAfter(file, src[:at]), Rule: "yaml", Message: message}, true
		}
		at += size
	}
	return Diagnostic{}, false
}

// isPrintable is the YAML 1.1 rule.
func isPrintable(r rune) bool {
	switch {
	case r == '\t', r == '\n', r == '\r', r == 0x85:
		return true
	case r < 0x20, r >= 0x7F && r < 0xA0, r == 0xFEFF, r == 0xFFFE, r == 0xFFFF:
		return false
	}
	return true
}

// posAfter is the place after the text before it.
func posAfter(file string, before []byte) Pos {
	lines := newSource(string(bytes.ToValidUTF8(before, []byte("?")))).lines
	return Pos{file, len(lines), utf8.RuneCountInString(lines[len(lines)-1]) + 1}
}

// readDocuments runs the YAML parser. It returns the first document, if there
// is one, and the problems that the parser found or a second document is.
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
		Message: "a second document starts here; a file holds one",
		Hint:    `remove the "---" line, or move what follows to a file of its own`,
	}}
}

// decodeYAML turns a crash of the parser into an error, so that no file can
// end the program.
func decodeYAML(dec *yaml.Decoder, doc *yaml.Node) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: the YAML parser gave up on this file: %v", r)
		}
	}()
	return dec.Decode(doc)
}
