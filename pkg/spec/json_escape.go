package spec

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// The YAML parser lacks two escapes of JSON: \/ and surrogate pairs, such as \ud83d\ude00, which
// programs write for characters above U+FFFF. A document with such escapes is parsed twice. The
// first time, other escapes with the same length replace them: this gives each node its place, and
// finds the double-quoted scalars, outside which a backslash has no meaning. The second time,
// escapes that YAML has replace them in these scalars: this gives the values.

// findJSONEscape returns the length of an escape that YAML lacks, at the start of text, and YAML's
// replacement. The length is 0 if there is none.
func findJSONEscape(text []byte) (length int, instead string) {
	if bytes.HasPrefix(text, []byte(`\/`)) {
		return len(`\/`), "/"
	}
	const pair = len(`\ud83d\ude00`)
	if len(text) < pair || text[1] != 'u' || text[6] != '\\' || text[7] != 'u' {
		return 0, ""
	}
	high, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	low, lowErr := strconv.ParseUint(string(text[8:12]), 16, 16)
	r := utf16.DecodeRune(rune(high), rune(low))
	if err != nil || lowErr != nil || r == utf8.RuneError {
		return 0, ""
	}
	return pair, fmt.Sprintf(`\U%08X`, r)
}

// neutralizeJSONEscapes replaces the escapes that YAML lacks by others with the same length, and
// reports whether there were any. It returns src itself if there were none.
func neutralizeJSONEscapes(src []byte) (neutral []byte, found bool) {
	neutral = src
	for at := bytes.IndexByte(src, '\\'); at >= 0 && at < len(src); {
		length, _ := findJSONEscape(src[at:])
		if length > 0 {
			if !found {
				neutral, found = bytes.Clone(src), true
			}
			copy(neutral[at:at+length], `\\`)
			copy(neutral[at+2:at+length], `__________`)
		}
		at += max(length, 2) // \\ is an escape itself
		next := -1
		if at < len(src) {
			next = bytes.IndexByte(src[at:], '\\')
		}
		if next < 0 {
			break
		}
		at += next
	}
	return neutral, found
}

// quotedPlaces returns the lines and columns where a tree has double-quoted scalars.
func quotedPlaces(y *yaml.Node) map[[2]int]bool {
	places := map[[2]int]bool{}
	var walk func(y *yaml.Node)
	walk = func(y *yaml.Node) {
		if y.Kind == yaml.ScalarNode && y.Style&yaml.DoubleQuotedStyle != 0 {
			places[[2]int{y.Line, y.Column}] = true
		}
		for _, child := range y.Content {
			walk(child)
		}
	}
	walk(y)
	return places
}

// rewriteJSONEscapes replaces the escapes that YAML lacks in the double-quoted scalars at
// these places.
func rewriteJSONEscapes(src []byte, quoted map[[2]int]bool) []byte {
	rewritten := make([]byte, 0, len(src))
	line, col := 1, 1
	begins, inside := false, false // before and after the opening quote
	for at := 0; at < len(src); {
		begins = begins || !inside && quoted[[2]int{line, col}]
		size, instead := 0, ""
		switch {
		case inside && src[at] == '\\':
			if size, instead = findJSONEscape(src[at:]); size == 0 {
				size = min(2, len(src)-at)
				instead = string(src[at : at+size])
			}
			if size == 2 && (instead[1:] == "\n" || instead[1:] == "\r") {
				size, instead = 1, `\` // a line break is counted below
			}
		default:
			_, size = utf8.DecodeRune(src[at:])
			if bytes.HasPrefix(src[at:], []byte("\r\n")) {
				size = 2
			}
			instead = string(src[at : at+size])
		}
		if instead == `"` && (begins || inside) {
			begins, inside = false, begins
		}
		if strings.Contains("\r\n\u0085\u2028\u2029", instead) {
			line, col = line+1, 1
		} else {
			col += utf8.RuneCount(src[at : at+size])
		}
		rewritten = append(rewritten, instead...)
		at += size
	}
	return rewritten
}

// copyPlaces copies one tree's lines and columns to another with the same form.
func copyPlaces(to, from *yaml.Node) {
	to.Line, to.Column = from.Line, from.Column
	for i, child := range to.Content {
		if i < len(from.Content) {
			copyPlaces(child, from.Content[i])
		}
	}
}
