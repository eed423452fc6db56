package spec

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Text that was pasted from a word processor or a web page has characters that look
// like those of YAML, and are text to it: noBreakSpace for a space, and typographic
// quotes for " and '.
const (
	noBreakSpace     = "\u00a0\u202f"
	typographicQuote = "“”„‟«»‘’‚‹›"
)

// spacedKey finds a key with a no-break space behind its colon.
var spacedKey = regexp.MustCompile(`^([A-Za-z_][\w-]*):[\x{a0}\x{202f}]`)

// misplacedSpace finds a no-break space where YAML needs a space: in the indentation,
// or behind the colon of a key.
var misplacedSpace = regexp.MustCompile(`^(?: *(?:- +)?[A-Za-z_][\w-]*:| *-|\s*)[\x{a0}\x{202f}]`)

// layoutErrors are the parser's messages for a line that does not fit the one above.
func layoutErrors() []string {
	return []string{
		"mapping values are not allowed in this context", "could not find expected ':'",
		"did not find expected key", "did not find expected '-' indicator",
	}
}

// explainNoBreakSpace looks for a no-break space that broke the syntax in the line of a
// problem or in the one above.
func explainNoBreakSpace(d Diagnostic, src *source) (Diagnostic, bool) {
	if !slices.Contains(layoutErrors(), d.Message) {
		return d, false
	}
	for _, number := range []int{d.Pos.Line, d.Pos.Line - 1} {
		line := src.lineText(number)
		if !misplacedSpace.MatchString(line) {
			continue
		}
		before := line[:strings.IndexAny(line, noBreakSpace)]
		d.Pos.Line, d.Pos.Col, d.Source = number, utf8.RuneCountInString(before)+1, line
		d.Message = "a no-break space is not a space in YAML"
		return d.WithHint("write an ordinary space"), true
	}
	return d, false
}

// checkTypography warns of a plain value that was to be in quotes, or behind a space:
// typographic quotes around it and a no-break space before it are part of it.
func (c *composer) checkTypography(n *Node, y *yaml.Node) {
	if y.Kind != yaml.ScalarNode || c.alias != nil || !n.isPlain() {
		return
	}
	first, _ := utf8.DecodeRuneInString(n.Value)
	last, _ := utf8.DecodeLastRuneInString(n.Value)
	inner := strings.Trim(n.Value, typographicQuote)
	switch m := spacedKey.FindStringSubmatch(n.Value); {
	case m != nil:
		c.ds = append(c.ds, n.Warnf("yaml", "a no-break space stands after %s: and makes all of it text", m[1]).
			WithHint("write an ordinary space; or put the text in quotes"))
	case strings.ContainsRune(noBreakSpace, first):
		c.ds = append(c.ds, n.Warnf("yaml", "this text begins with a no-break space").
			WithHint("write an ordinary space; or put the text in quotes"))
	case strings.ContainsRune(typographicQuote, first) && strings.ContainsRune(typographicQuote, last) && !strings.ContainsAny(inner, typographicQuote):
		c.ds = append(c.ds, n.Warnf("yaml", "the typographic quotes %c %c are part of this text", first, last).
			WithHint(`write "…" for quotes; or put all of it in "…" to keep them`))
	}
}

// typographyHint says what stands in a key that is not known, and how the key is
// written.
func typographyHint(key string) (string, bool) {
	clean := strings.Trim(key, noBreakSpace+typographicQuote+" ")
	switch {
	case clean == key || clean == "":
		return "", false
	case strings.ContainsAny(key, typographicQuote):
		return "the key has typographic quotes: write " + clean, true
	}
	return "the key has a no-break space: write " + clean + ", with ordinary spaces before it", true
}
