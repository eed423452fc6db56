package spec

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Characters of text pasted from a word processor or a web page that look like YAML
// syntax but are ordinary text in YAML.
const (
	noBreakSpace     = "\u00a0\u202f"
	typographicQuote = "“”„‟«»‘’‚‹›"
)

// spacedKey matches a key with a no-break space after its colon.
var spacedKey = regexp.MustCompile(`^([A-Za-z_][\w-]*):[\x{a0}\x{202f}]`)

// misplacedSpace matches a no-break space where YAML needs a space: in the indentation,
// or after the colon of a key.
var misplacedSpace = regexp.MustCompile(`^(?: *(?:- +)?[A-Za-z_][\w-]*:| *-|\s*)[\x{a0}\x{202f}]`)

// layoutErrors lists the parser's messages for a line that does not match the layout of
// the line above.
func layoutErrors() []string {
	return []string{
		"mapping values are not allowed in this context", "could not find expected ':'",
		"did not find expected key", "did not find expected '-' indicator",
	}
}

// explainNoBreakSpace checks the line of a problem and the line above for a no-break
// space that breaks the syntax.
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
		return d.WithHint("use an ordinary space"), true
	}
	return d, false
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
			WithHint(`use "…" to quote, or wrap the whole text in "…" to keep them`))
	}
}

// typographyHint returns a hint for an unknown key that has typographic quotes or
// no-break spaces.
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
