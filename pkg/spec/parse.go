package spec

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"agenthost/internal/limit"
)

// Limits for a document's aliases; limit.AppDocument has the others.
const (
	maxAliased      = 10_000
	maxAliasRatio   = 100
	maxAliasedBytes = 1 << 20
)

// Parse parses one YAML or JSON document. It reports invalid syntax, duplicate keys, keys that are
// not strings, unknown tags, recursive aliases, a second document, and documents over the limits: 1
// MiB; 50,000 lines, keys and items; 64 levels; and, added by aliases, 10,000 nodes, 100 times the
// written nodes, or 1 MiB text. The node is never nil: an empty or unreadable document is a null
// scalar.
func Parse(file string, src []byte) (*Node, Diagnostics) {
	return ParseWithin(file, src, int64(limit.AppDocument.Bytes), limit.AppDocument.Values)
}

// ParseWithin is [Parse] with other limits on bytes, and on lines, keys and items, for other
// programs' documents.
func ParseWithin(file string, src []byte, size int64, nodes int) (*Node, Diagnostics) {
	src = bytes.TrimPrefix(src, []byte("\uFEFF"))
	if int64(len(src)) > size {
		return emptyDocument(file, nil), Diagnostics{{
			Pos: Pos{File: file}, Rule: "limit",
			Message: fmt.Sprintf("file size of %d bytes exceeds the limit of %s", len(src), limitText(size)),
		}}
	}
	if n := EstimateNodes(src); n > nodes {
		return emptyDocument(file, nil), Diagnostics{{
			Pos: Pos{File: file}, Rule: "limit",
			Message: fmt.Sprintf("file has about %d lines, keys and items, which exceeds the limit of %d", n, nodes),
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

// limitText formats a limit with a space before its unit.
func limitText(bytes int64) string {
	size := FormatSize(bytes)
	digits := strings.TrimRight(size, "KMGiB")
	return strings.TrimSpace(digits + " " + size[len(digits):])
}

// ParseAt parses a document that begins at a position in a file, such as a value in another file
// format. Its nodes and problems have their places in that file, without its lines.
func ParseAt(at Pos, src []byte) (*Node, Diagnostics) {
	root, ds := Parse(at.File, src)
	root.moveTo(at, map[*Node]bool{})
	for i := range ds {
		ds[i].Pos, ds[i].Source = ds[i].Pos.movedTo(at), ""
	}
	return root, ds
}

// moveTo moves a tree, whose aliases share nodes.
func (n *Node) moveTo(at Pos, moved map[*Node]bool) {
	if moved[n] {
		return
	}
	moved[n] = true
	n.Pos, n.src = n.Pos.movedTo(at), nil
	for _, e := range n.Entries {
		e.Key.moveTo(at, moved)
		e.Value.moveTo(at, moved)
	}
	for _, item := range n.Items {
		item.moveTo(at, moved)
	}
}

// movedTo returns the position in a file for a position in a document that begins within it.
func (p Pos) movedTo(at Pos) Pos {
	switch p.Line {
	case 0, 1:
		p.Col = at.Col + max(p.Col, 1) - 1
		p.Line = at.Line
	default:
		p.Line += at.Line - 1
	}
	return p
}

// EstimateNodes counts the characters that may start a line, a key or an item, which estimates the
// parsing cost: a document has at most twice as many nodes. It also counts commas and colons inside
// strings, which only a parser can distinguish.
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
		case 0x85, 0xA8, 0xA9: // the other line breaks' last bytes
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
			before := newSource(string(bytes.ToValidUTF8(src[:at], []byte("?")))).lines
			pos := Pos{file, len(before), utf8.RuneCountInString(before[len(before)-1]) + 1}
			return Diagnostic{Pos: pos, Rule: "yaml", Message: message}, true
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

// readDocuments parses the first document, if any, and returns the problems.
func readDocuments(file string, src []byte, text *source) ([]*yaml.Node, Diagnostics) {
	neutral, found := neutralizeJSONEscapes(src)
	places, ds := parseDocuments(file, neutral, text)
	if !found || len(places) == 0 {
		return places, ds
	}
	values, valueProblems := parseDocuments(file, rewriteJSONEscapes(src, quotedPlaces(places[0])), text)
	if len(values) == 0 {
		return nil, valueProblems
	}
	copyPlaces(values[0], places[0])
	return values, ds
}

// parseDocuments runs the YAML parser. It returns the first document, if any, and the
// problems.
func parseDocuments(file string, src []byte, text *source) ([]*yaml.Node, Diagnostics) {
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

// decodeYAML converts a parser panic to an error, so that no file can crash the program.
func decodeYAML(dec *yaml.Decoder, doc *yaml.Node) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: parser panicked: %v", r)
		}
	}()
	return dec.Decode(doc)
}

// A composer converts the YAML parser's nodes: it resolves aliases and merge keys and reports
// duplicate keys, unknown tags and invalid keys.
type composer struct {
	file string
	src  *source
	ds   Diagnostics
	// active holds the anchors whose nodes are being composed.
	active map[*yaml.Node]bool
	// alias is the outermost alias being resolved, or nil.
	alias *Node
	// valueBudget and byteBudget bound the nodes, and the bytes of their values, that
	// aliases may still add.
	valueBudget, byteBudget int
}

func composeTree(file string, src *source, doc *yaml.Node) (*Node, Diagnostics) {
	c := &composer{
		file: file, src: src,
		active:      map[*yaml.Node]bool{},
		valueBudget: min(maxAliased, maxAliasRatio*countNodes(doc)),
		byteBudget:  maxAliasedBytes,
	}
	root := doc
	if doc.Kind == yaml.DocumentNode {
		root = doc.Content[0]
	}
	return c.composeNode(root, 1), c.ds
}

func countNodes(y *yaml.Node) int {
	n := 1
	for _, child := range y.Content {
		n += countNodes(child)
	}
	return n
}

func (c *composer) composeNode(y *yaml.Node, depth int) *Node {
	n := c.newNode(y)
	if y.Kind != yaml.AliasNode && c.alias != nil {
		c.valueBudget--
		c.byteBudget -= len(y.Value)
		if c.exceedsAliases() {
			return n
		}
	}
	if depth > limit.AppDocument.Depth && y.Kind != yaml.ScalarNode {
		c.ds = append(c.ds, c.reportedNode(n).Errorf("limit", "nesting exceeds the limit of %d levels", limit.AppDocument.Depth))
		return n
	}
	if y.Anchor != "" {
		c.active[y] = true
		defer delete(c.active, y)
	}
	return c.fillNode(n, y, depth)
}

// newNode returns a null scalar at y's position.
func (c *composer) newNode(y *yaml.Node) *Node {
	pos := Pos{c.file, y.Line, y.Column}
	if c.src.isPastEnd(pos) {
		pos = c.src.lastPos(c.file)
	}
	return &Node{Pos: pos, Tag: nullTag, style: y.Style, src: c.src}
}

func (c *composer) fillNode(n *Node, y *yaml.Node, depth int) *Node {
	switch y.Kind {
	case yaml.AliasNode:
		return c.resolveAlias(n, y, depth)
	case yaml.MappingNode:
		n.Kind, n.Tag = Mapping, mapTag
		c.checkTag(n, y)
		c.composeMapping(n, y, depth)
	case yaml.SequenceNode:
		n.Kind, n.Tag = Sequence, seqTag
		c.checkTag(n, y)
		for _, item := range y.Content {
			n.Items = append(n.Items, c.composeValue(item, depth+1))
		}
	default:
		c.composeScalar(n, y)
	}
	return n
}

// reportedNode returns the node at which to report a problem with n: the alias being resolved, or n
// itself.
func (c *composer) reportedNode(n *Node) *Node { return cmp.Or(c.alias, n) }

func (c *composer) resolveAlias(n *Node, y *yaml.Node, depth int) *Node {
	switch {
	case c.active[y.Alias]:
		c.ds = append(c.ds, n.Errorf("yaml", "alias *%s refers to a value that contains it", y.Value))
		return n
	case c.exceedsAliases():
		return n
	case c.alias != nil:
		return c.composeNode(y.Alias, depth)
	}
	c.alias = n
	target := c.composeNode(y.Alias, depth)
	c.alias = nil
	switch {
	case c.valueBudget < 0:
		c.ds = append(c.ds, n.Errorf("limit", "alias expansion exceeds the limit of %d values or %d times the file", maxAliased, maxAliasRatio))
	case c.byteBudget < 0:
		c.ds = append(c.ds, n.Errorf("limit", "text expanded by aliases exceeds the limit of 1 MiB"))
	}
	return target
}

func (c *composer) exceedsAliases() bool { return c.valueBudget < 0 || c.byteBudget < 0 }

// checkTag rejects tags on mappings and sequences other than the default one.
func (c *composer) checkTag(n *Node, y *yaml.Node) {
	if y.Tag != n.Tag {
		c.reportUnknownTag(n, y.Tag)
	}
}

func (c *composer) reportUnknownTag(n *Node, tag string) {
	c.ds = append(c.ds, n.Errorf("yaml", "unknown tag %s", tag).
		WithHint("remove the tag, or quote text that starts with !"))
}

func (c *composer) composeScalar(n *Node, y *yaml.Node) {
	n.Tag, n.Value = y.Tag, y.Value
	if y.Style&yaml.TaggedStyle != 0 {
		c.checkTaggedScalar(n, y)
		return
	}
	n.Tag = adjustTag(y.Tag, y.Value)
	if n.Tag == intTag && hasLeadingZero(n.Value) {
		c.ds = append(c.ds, n.Warnf("yaml", "%s is read as the octal number %v", n.Value, parseIntScalar(n.Value)).
			WithHint("quote it to keep it as a string, or remove the leading zero").
			WithProposal(n.Value, strconv.Quote(n.Value)).WithProposal(n.Value, strings.TrimLeft(n.Value, "0")))
	}
}

// checkTaggedScalar reports a value that does not match its explicit tag.
func (c *composer) checkTaggedScalar(n *Node, y *yaml.Node) {
	switch y.Tag {
	case strTag, timestampTag:
		n.Tag = strTag
		return
	case nullTag, boolTag, intTag, floatTag:
		found := resolveTag(y.Value)
		if found == y.Tag || y.Tag == floatTag && found == intTag {
			return
		}
		c.ds = append(c.ds, n.Errorf("yaml", "%q does not match the tag %s", y.Value, y.Tag))
	default:
		c.reportUnknownTag(n, y.Tag)
	}
	n.Tag = strTag
}

func (c *composer) composeMapping(n *Node, y *yaml.Node, depth int) {
	first := make(map[string]Pos, len(y.Content)/2)
	var merges []*yaml.Node
	for pair := range slices.Chunk(y.Content, 2) {
		key, ok := c.composeKey(pair[0], depth)
		value := pair[1]
		if before, twice := first[key.Value]; ok && twice {
			c.ds = append(c.ds, key.Errorf("duplicate-key", "duplicate key %q, first used in line %d", key.Value, before.Line).WithHint("remove one of them"))
			ok = false
		}
		switch {
		case !ok:
			c.composeNode(value, depth+1)
		case pair[0].Tag == mergeTag:
			first[key.Value] = key.Pos
			merges = append(merges, value)
		default:
			first[key.Value] = key.Pos
			n.Entries = append(n.Entries, Entry{key, c.composeValue(value, depth+1)})
		}
	}
	for _, value := range merges {
		c.mergeEntries(n, first, c.composeNode(value, depth))
	}
}

// composeValue composes a key's value or a list item.
func (c *composer) composeValue(y *yaml.Node, depth int) *Node {
	n := c.composeNode(y, depth)
	c.checkTypography(n, y)
	return n
}

// composeKey composes a key. It reads numbers and booleans as strings.
func (c *composer) composeKey(y *yaml.Node, depth int) (*Node, bool) {
	key := c.composeNode(y, depth+1)
	if key.Kind == Scalar && key.Tag != nullTag {
		key.Tag = strTag
		return key, true
	}
	at := c.newNode(y)
	c.ds = append(c.ds, at.Errorf("yaml", "a key must be a string, got %s", key.describeType()).WithHint("quote the key"))
	return at, false
}

// mergeEntries adds the entries in a mapping, or in a list of mappings, whose keys are not in have.
func (c *composer) mergeEntries(n *Node, have map[string]Pos, from *Node) {
	switch from.Kind {
	case Mapping:
		for _, e := range from.Entries {
			if _, ok := have[e.Key.Value]; !ok {
				have[e.Key.Value] = e.Key.Pos
				n.Entries = append(n.Entries, e)
			}
		}
		return
	case Sequence:
		for _, item := range from.Items {
			if item.Kind != Mapping {
				c.ds = append(c.ds, item.Errorf("yaml", "<< must merge mappings, got %s", item.describeType()))
				continue
			}
			c.mergeEntries(n, have, item)
		}
		return
	}
	c.ds = append(c.ds, from.Errorf("yaml", "<< must merge a mapping, got %s", from.describeType()))
}

// checkTypography warns about plain values that probably contain a mistake: typographic
// quotes around them or a no-break space before them.
func (c *composer) checkTypography(n *Node, y *yaml.Node) {
	if y.Kind != yaml.ScalarNode || c.alias != nil || !n.isPlain() {
		return
	}
	first, _ := utf8.DecodeRuneInString(n.Value)
	last, _ := utf8.DecodeLastRuneInString(n.Value)
	inner := strings.Trim(n.Value, typographicQuote)
	switch m := spacedKey.FindStringSubmatch(n.Value); {
	case m != nil:
		c.ds = append(c.ds, n.Warnf("yaml", "the no-break space after %s: makes the whole line a string", m[1]).
			WithHint("use an ordinary space, or quote the text"))
	case strings.ContainsRune(noBreakSpace, first):
		c.ds = append(c.ds, n.Warnf("yaml", "this text begins with a no-break space").
			WithHint("use an ordinary space, or quote the text"))
	case strings.ContainsRune(typographicQuote, first) && strings.ContainsRune(typographicQuote, last) && !strings.ContainsAny(inner, typographicQuote):
		c.ds = append(c.ds, n.Warnf("yaml", "the typographic quotes %c %c are part of this text", first, last).
			WithHint(`use "…" to quote, or wrap the whole text in "…" to keep them`).
			WithProposal(n.Value, strconv.Quote(inner)).WithProposal(n.Value, strconv.Quote(n.Value)))
	}
}
