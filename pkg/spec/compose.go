package spec

import (
	"cmp"
	"slices"

	"gopkg.in/yaml.v3"
)

// A composer converts the nodes of the YAML parser: it resolves aliases and merge keys
// and reports duplicate keys, unknown tags and invalid keys.
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
	if depth > maxDepth && y.Kind != yaml.ScalarNode {
		c.ds = append(c.ds, c.reportedNode(n).Errorf("limit", "nesting exceeds the limit of %d levels", maxDepth))
		return n
	}
	if y.Anchor != "" {
		c.active[y] = true
		defer delete(c.active, y)
	}
	return c.fillNode(n, y, depth)
}

// newNode returns a null scalar at the position of y.
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

// reportedNode returns the node at which to report a problem of n: the alias being
// resolved, or n itself.
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

// checkTag rejects tags of mappings and sequences other than the default one.
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
			WithHint("quote it to keep it as a string, or remove the leading zero"))
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
			c.ds = append(c.ds, key.Errorf("duplicate-key", "duplicate key %q, first used in line %d", key.Value, before.Line))
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

// composeValue composes the value of a key or an item of a list.
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

// mergeEntries adds the entries of a mapping, or of a list of mappings, whose keys are
// not in have.
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
