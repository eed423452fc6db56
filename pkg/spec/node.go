package spec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"agenthost/internal/number"
)

// A NodeKind is a node's structure.
type NodeKind int

// Node kinds.
const (
	// Scalar is a single value: a string, number, boolean or null.
	Scalar NodeKind = iota
	// Mapping is a list of key-value pairs.
	Mapping
	// Sequence is a list.
	Sequence
)

// A Node is a document's value with its position. Aliases and merge keys are resolved; nodes from
// an anchor have the position of the anchor. After [Interpolate] and [Decode], nodes are read-only
// and safe for concurrent use.
type Node struct {
	Pos  Pos
	Kind NodeKind
	// Tag is the resolved YAML tag: !!str, !!int, !!float, !!bool, !!null, !!map or
	// !!seq.
	Tag string
	// Value is the scalar's value.
	Value string
	// Entries are a mapping's key-value pairs in order, merged ones last.
	Entries []Entry
	// Items are a sequence's elements.
	Items []*Node

	style yaml.Style
	src   *source
	// parts are the ranges in Value that Interpolate replaced; written is the value before that.
	parts   []substitution
	written string
	// readAsSecret is set once a Secret has been decoded from the scalar.
	readAsSecret bool
	// neverShown is set if the value belongs to a secret field.
	neverShown bool
}

// An Entry is a key-value pair in a mapping. Keys are scalars and unique.
type Entry struct{ Key, Value *Node }

// Get returns a key's value in a mapping, or nil. It accepts a nil node.
func (n *Node) Get(key string) *Node {
	if n == nil {
		return nil
	}
	for _, e := range n.Entries {
		if e.Key.Value == key {
			return e.Value
		}
	}
	return nil
}

// WithEntry returns a copy of a mapping with one more entry, an unquoted string, at the mapping's
// position.
func (n *Node) WithEntry(key, value string) *Node {
	scalar := func(v string) *Node { return &Node{Pos: n.Pos, Tag: strTag, Value: v, src: n.src} }
	extended := *n
	extended.Entries = append([]Entry{{scalar(key), scalar(value)}}, n.Entries...)
	return &extended
}

// Keys returns a mapping's keys in order. It accepts a nil node.
func (n *Node) Keys() []string {
	if n == nil {
		return nil
	}
	keys := make([]string, len(n.Entries))
	for i, e := range n.Entries {
		keys[i] = e.Key.Value
	}
	return keys
}

// IsNull reports whether the node is nil, null or empty.
func (n *Node) IsNull() bool { return n == nil || n.Kind == Scalar && n.Tag == nullTag }

// Errorf returns an error at the node, with its source line. A nil node's error, for example for a
// missing key, has no position: [Checker] and [Decoder] report it at the node that they were given.
func (n *Node) Errorf(rule, format string, args ...any) Diagnostic {
	d := Diagnostic{Rule: rule, Message: fmt.Sprintf(format, args...)}
	if n != nil {
		d.Pos, d.Source = n.Pos, n.src.lineText(n.Pos.Line)
	}
	return d
}

// Warnf returns a warning at the node, like [Node.Errorf].
func (n *Node) Warnf(rule, format string, args ...any) Diagnostic {
	d := n.Errorf(rule, format, args...)
	d.Severity = Warning
	return d
}

// isPlain reports whether a scalar is neither quoted nor a block.
func (n *Node) isPlain() bool { return n.style&^yaml.TaggedStyle == 0 }

// IsBooleanInYAML11 reports whether a string is a boolean for YAML 1.1 readers such as ADK's: yes,
// no, on or off without quotes.
func (n *Node) IsBooleanInYAML11() bool {
	return n != nil && n.Kind == Scalar && n.Tag == strTag && n.isPlain() && booleanWord.MatchString(n.Value)
}

// booleanWord matches the words that are booleans in YAML 1.1 and strings in YAML 1.2.
var booleanWord = regexp.MustCompile(`^(yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF)$`)

// TypedKey returns a key's value for readers that keep key types, such as ADK's: 1 is an int64 and
// true a bool unless it is quoted. [Parse] reads keys as strings.
func (n *Node) TypedKey() any {
	if n.style != 0 || n.Kind != Scalar {
		return n.Any()
	}
	typed := *n
	typed.Tag = resolveTag(n.Value)
	return typed.scalarValue()
}

// describeType returns a node's type for messages, with its article.
func (n *Node) describeType() string {
	switch n.Kind {
	case Mapping:
		return "a mapping"
	case Sequence:
		return "a list"
	}
	switch n.Tag {
	case nullTag:
		return "null"
	case boolTag:
		return "a boolean"
	case intTag:
		return "an integer"
	case floatTag:
		return "a number"
	}
	return stringType
}

const stringType = "a string"

// typeError reports a value with the wrong type.
func (n *Node) typeError(what string) Diagnostic {
	d := n.Errorf("type", "expected %s, got %s", what, n.describeType())
	if len(n.parts) > 0 && !n.isPlain() {
		d.Hint = "quotes make the reference a string: remove them and write it on its own line"
	} else if n.Kind == Scalar && !n.isPlain() && resolveTag(n.Value) != strTag {
		d = d.WithHint("quotes make it a string: write %s", n.Value).WithProposal(strconv.Quote(n.Value), n.Value).WithProposal("'"+n.Value+"'", n.Value)
	}
	if what == stringType && n.Kind == Mapping && n.src != nil && strings.HasPrefix(n.src.textFrom(n.Pos), "{") {
		d.Hint = "quote text that begins with {"
	}
	return d
}

// scalarError is a typeError for a value whose quotes do not matter.
func (n *Node) scalarError(what string) Diagnostic {
	d := n.typeError(what)
	d.Hint, d.Proposals = "", nil
	return d
}

// A substitution is the range [start, end) in a scalar's value that replaced [writtenStart,
// writtenEnd) in its written form. secret is the hidden value, or "".
type substitution struct {
	start, end, writtenStart, writtenEnd int
	secret                               string
}

// sourceOffset maps an offset in the value to the scalar as written in the file, and
// returns both.
func (n *Node) sourceOffset(offset int) (written string, at int) {
	if len(n.parts) == 0 {
		return n.Value, offset
	}
	shift := 0
	for _, p := range n.parts {
		if offset < p.start {
			break
		}
		if offset < p.end {
			return n.written, p.writtenStart
		}
		shift = p.writtenEnd - p.end
	}
	return n.written, offset + shift
}

// writtenValue returns the scalar's value for messages: with its references, because the
// replacements may be secrets.
func (n *Node) writtenValue() string {
	if len(n.parts) > 0 {
		return n.written
	}
	return n.Value
}

// YAML node tags.
const (
	strTag   = "!!str"
	intTag   = "!!int"
	floatTag = "!!float"
	boolTag  = "!!bool"
	nullTag  = "!!null"
	mapTag   = "!!map"
	seqTag   = "!!seq"

	timestampTag = "!!timestamp"
	mergeTag     = "!!merge"
)

// Any returns the node as plain Go values: map[string]any, []any, string, int64,
// float64, bool or nil. Numbers whose digits neither type keeps are json.Number; dates are
// strings. A nil node is nil.
func (n *Node) Any() any {
	if n == nil {
		return nil
	}
	switch n.Kind {
	case Mapping:
		m := make(map[string]any, len(n.Entries))
		for _, e := range n.Entries {
			m[e.Key.Value] = e.Value.Any()
		}
		return m
	case Sequence:
		s := make([]any, len(n.Items))
		for i, item := range n.Items {
			s[i] = item.Any()
		}
		return s
	}
	return n.scalarValue()
}

func (n *Node) scalarValue() any {
	switch n.Tag {
	case nullTag:
		return nil
	case boolTag:
		return strings.EqualFold(n.Value, "true")
	case intTag:
		return parseIntScalar(n.Value)
	case floatTag:
		return parseFloatScalar(n.Value)
	}
	return n.Value
}

// resolveTag returns a plain scalar's tag. It follows ADK's loader (YAML 1.1) without dates and
// base 60: 0777 is octal, 1_000 is a number, 08 is a string. Only true and false are booleans;
// [Decode] also accepts yes and no.
func resolveTag(value string) string {
	tag := (&yaml.Node{Kind: yaml.ScalarNode, Value: value}).ShortTag()
	return adjustTag(tag, value)
}

func adjustTag(tag, value string) string {
	switch {
	case tag == timestampTag, tag == mergeTag:
		return strTag
	case tag == strTag && largeFloat.MatchString(value):
		return floatTag
	case tag == floatTag && isDigits(value):
		if hasLeadingZero(value) {
			return strTag
		}
		return intTag
	}
	return tag
}

// parseIntScalar parses a !!int to an int64, or to a json.Number on overflow.
func parseIntScalar(value string) any {
	plain := strings.ReplaceAll(value, "_", "")
	if i, err := strconv.ParseInt(plain, 0, 64); err == nil {
		return i
	}
	if u, err := strconv.ParseUint(plain, 0, 64); err == nil {
		return json.Number(strconv.FormatUint(u, 10))
	}
	return json.Number(strings.TrimPrefix(plain, "+"))
}

// largeFloat matches floats such as 1e400, which the YAML library takes for strings because
// a float64 cannot represent them.
var largeFloat = regexp.MustCompile(`^[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]{3,}$`)

// parseFloatScalar parses a !!float to a float64, or to a json.Number if it would lose
// digits.
func parseFloatScalar(value string) any {
	f, _ := parseFloat(value)
	if math.IsNaN(f) || strings.HasSuffix(strings.ToLower(value), "inf") {
		return f
	}
	if plain := jsonFloat(value); json.Valid([]byte(plain)) {
		return number.Parse(plain)
	}
	return f
}

// jsonFloat returns the JSON for a float in YAML, which may lack digits before or after the point.
func jsonFloat(value string) string {
	plain, negative := strings.CutPrefix(strings.TrimPrefix(strings.ReplaceAll(value, "_", ""), "+"), "-")
	mantissa, exponent := plain, ""
	if at := strings.IndexAny(plain, "eE"); at >= 0 {
		mantissa, exponent = plain[:at], plain[at:]
	}
	whole, fraction, isFraction := strings.Cut(mantissa, ".")
	plain = cmp.Or(strings.TrimLeft(whole, "0"), "0")
	if isFraction || exponent == "" {
		plain += "." + cmp.Or(fraction, "0")
	}
	plain += exponent
	if negative {
		return "-" + plain
	}
	return plain
}

func parseFloat(value string) (float64, bool) {
	plain := strings.ToLower(strings.ReplaceAll(value, "_", ""))
	switch plain {
	case ".inf", "+.inf", "-.inf", ".nan":
		plain = strings.Replace(plain, ".", "", 1)
	}
	f, err := strconv.ParseFloat(plain, 64)
	return f, err == nil
}

func isDigits(value string) bool {
	digits := strings.TrimLeft(strings.ReplaceAll(value, "_", ""), "+-")
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}

func hasLeadingZero(value string) bool {
	digits := strings.TrimLeft(value, "+-")
	return len(digits) > 1 && digits[0] == '0' && isDigits(digits)
}

// positionAt returns the position for a byte offset in a scalar's value.
func (n *Node) positionAt(offset int) Pos {
	if n.src == nil || n.Kind != Scalar {
		return n.Pos
	}
	written, offset := n.sourceOffset(offset)
	start := n.contentStart()
	switch {
	case n.style&yaml.LiteralStyle != 0:
		return n.literalPosition(written, offset)
	case n.style&yaml.FoldedStyle != 0:
		return n.Pos
	case n.style&yaml.DoubleQuotedStyle != 0:
		return n.quotedPosition(start, offset, stepDoubleQuoted)
	case n.style&yaml.SingleQuotedStyle != 0:
		return n.quotedPosition(start, offset, stepSingleQuoted)
	}
	if !strings.HasPrefix(n.src.textFrom(start), written) {
		return start
	}
	return start.moveRight(runesBefore(written, offset))
}

func runesBefore(s string, offset int) int {
	return utf8.RuneCountInString(s[:min(max(offset, 0), len(s))])
}

// contentStart returns the position after an anchor and a tag, at which the YAML parser
// starts a node.
func (n *Node) contentStart() Pos {
	pos := n.Pos
	rest := n.src.textFrom(pos)
	for strings.HasPrefix(rest, "&") || strings.HasPrefix(rest, "!") {
		end := strings.IndexAny(rest, " \t")
		if end < 0 {
			return n.Pos
		}
		end += len(rest[end:]) - len(strings.TrimLeft(rest[end:], " \t"))
		pos = pos.moveRight(utf8.RuneCountInString(rest[:end]))
		rest = rest[end:]
	}
	return pos
}

// literalPosition finds an offset in a block scalar `|`, whose lines appear in the file
// unchanged except for indentation.
func (n *Node) literalPosition(value string, offset int) Pos {
	before := value[:min(max(offset, 0), len(value))]
	row := strings.Count(before, "\n")
	column := utf8.RuneCountInString(before[strings.LastIndex(before, "\n")+1:])
	pos := Pos{n.Pos.File, n.Pos.Line + 1 + row, n.literalIndent(value) + column + 1}
	return n.src.clampPos(pos)
}

func (n *Node) literalIndent(value string) int {
	row := n.Pos.Line + 1
	for line := range strings.Lines(value) {
		line = strings.TrimSuffix(line, "\n")
		if indent, ok := strings.CutSuffix(n.src.lineText(row), line); ok && line != "" {
			return len(indent)
		}
		row++
	}
	return 0
}

// An unescapeStep reads one character in a quoted string: the bytes it occupies in the file, and
// those it adds to the value.
type unescapeStep func(rest string) (read, written int)

// quotedPosition walks along a quoted string. For offsets after the first line, it returns where
// the string starts.
func (n *Node) quotedPosition(start Pos, offset int, step unescapeStep) Pos {
	rest := n.src.textFrom(start)
	if rest == "" {
		return start
	}
	at, rest := start.moveRight(1), rest[1:]
	for offset > 0 {
		if rest == "" {
			return start
		}
		read, written := step(rest)
		read = min(read, len(rest))
		at = at.moveRight(utf8.RuneCountInString(rest[:read]))
		rest = rest[read:]
		offset -= written
	}
	return at
}

func stepSingleQuoted(rest string) (read, written int) {
	if strings.HasPrefix(rest, "''") {
		return 2, 1
	}
	_, size := utf8.DecodeRuneInString(rest)
	return size, size
}

func stepDoubleQuoted(rest string) (read, written int) {
	if rest[0] != '\\' || len(rest) < 2 {
		_, size := utf8.DecodeRuneInString(rest)
		return size, size
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[rest[1]]
	pair, _ := findJSONEscape([]byte(rest[:min(len(rest), 12)]))
	switch {
	case pair > 2:
		return pair, 4
	case digits > 0 && len(rest) >= 2+digits:
		code, _ := strconv.ParseUint(rest[2:2+digits], 16, 32)
		return 2 + digits, max(utf8.RuneLen(rune(code)), 1)
	case rest[1] == 'L' || rest[1] == 'P':
		return 2, 3
	case rest[1] == 'N' || rest[1] == '_':
		return 2, 2
	}
	return 2, 1
}
