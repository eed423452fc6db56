package spec

import (
	"encoding/base64"
	"html"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Services escape different characters in a secret that they repeat: one keeps / in a URL, another
// writes %2f or \u002f. An escapeMatcher finds a secret with any characters escaped, each in any
// form: percent-encoding, also twice, escapes in JSON and in program strings, also within each
// other, and HTML entities. It reads the text once, and compares the secret with the decoded
// characters from each position where it may begin.
type escapeMatcher struct {
	secrets []string
	// starts are the bytes with which a secret may begin: its first one and those that begin
	// escapes.
	starts [256]bool
}

// escapeStarts are the bytes with which an escape begins.
const escapeStarts = `%\&`

// newEscapeMatcher returns a matcher for secrets, and for their base64 forms, in which URLs escape
// characters.
func newEscapeMatcher(secrets []string) *escapeMatcher {
	m := &escapeMatcher{}
	for _, s := range secrets {
		for _, form := range []string{s, base64.RawStdEncoding.EncodeToString([]byte(s))} {
			m.secrets = append(m.secrets, form)
			m.starts[form[0]] = true
		}
	}
	for _, c := range []byte(escapeStarts + "+") {
		m.starts[c] = true
	}
	return m
}

// maxSteps limits the compared characters per byte. Only text that almost repeats a secret many
// times takes more.
const maxSteps = 32

// redactText replaces the escaped secrets in text, or the whole text if it takes too many steps.
func (m *escapeMatcher) redactText(text string) string {
	if len(m.secrets) == 0 || !strings.ContainsAny(text, escapeStarts) {
		return text
	}
	var out strings.Builder
	done, steps := 0, maxSteps*len(text)
	for i := 0; i < len(text); i++ {
		if !m.starts[text[i]] {
			continue
		}
		end := m.findEnd(text[i:], &steps)
		if steps < 0 {
			return redacted
		}
		if end > 0 {
			out.WriteString(text[done:i])
			out.WriteString(redacted)
			done = i + end
			i = done - 1
		}
	}
	if done == 0 {
		return text
	}
	out.WriteString(text[done:])
	return out.String()
}

// findEnd returns the length of the longest secret with which text begins, or 0. It consumes steps.
func (m *escapeMatcher) findEnd(text string, steps *int) int {
	longest := 0
	match := func(u unit) {
		for _, s := range m.secrets {
			rest, fits := strings.CutPrefix(s, u.text)
			if !fits {
				continue
			}
			left := 8 * len(s)
			end, ok := matchEscaped(text[u.size:], rest, &left)
			if !ok {
				*steps -= 8*len(s) - left
			}
			if left < 0 { // it may be the secret: redact as much as that can take
				end, ok = min(len(text)-u.size, maxEscape*len(rest)), true
			}
			if ok {
				longest = max(longest, u.size+end)
			}
		}
	}
	if !strings.Contains(escapeStarts+"+", text[:1]) { // most characters
		match(unit{text[:1], 1})
		return longest
	}
	for _, u := range readUnits(text) {
		match(u)
	}
	return longest
}

// matchEscaped returns where a secret ends in text that begins with it. steps bounds the characters
// that are compared: a secret with its own escapes can be read in several ways.
func matchEscaped(text, secret string, steps *int) (end int, ok bool) {
	if secret == "" {
		return 0, true
	}
	for _, u := range readUnits(text) {
		rest, fits := strings.CutPrefix(secret, u.text)
		if *steps--; !fits || *steps < 0 {
			continue
		}
		if end, ok := matchEscaped(text[u.size:], rest, steps); ok {
			return u.size + end, true
		}
	}
	return 0, false
}

// maxEscape is how many bytes an escape for one secret byte takes at most: backslashes, and the
// five characters after them in \u002f.
const maxEscape = maxBackslashes + 5

// longestForm returns how many bytes a secret takes at most.
func (m *escapeMatcher) longestForm() int {
	longest := 0
	for _, s := range m.secrets {
		longest = max(longest, maxEscape*len(s))
	}
	return longest
}

// A unit is a character: what it means and how many bytes it takes.
type unit struct {
	text string
	size int
}

// readUnits returns the ways to read text's first character, the longest one first: as an escape,
// and as it is.
func readUnits(text string) []unit {
	if text == "" {
		return nil
	}
	var units []unit
	switch text[0] {
	case '%':
		units = readPercent(text)
	case '\\':
		units = readBackslash(text)
	case '&':
		units = readEntity(text)
	case '+':
		units = []unit{{" ", 1}}
	}
	slices.SortStableFunc(units, func(a, b unit) int { return b.size - a.size })
	return append(units, unit{text[:1], 1})
}

// maxPercent is how often text may be percent-encoded.
const maxPercent = 3

// readPercent reads %2F, and %252F, which was encoded twice.
func readPercent(text string) []unit {
	var units []unit
	for end := 1; end < 2*maxPercent; end += 2 {
		if b, ok := readHex(text, end, 2); ok {
			units = append(units, unit{string([]byte{byte(b)}), end + 2})
			if b == '+' { // a space in a query
				units = append(units, unit{" ", end + 2})
			}
		}
		if !strings.HasPrefix(text[end:], "25") {
			break
		}
	}
	return units
}

// readHex reads a number of digits.
func readHex(text string, at, digits int) (uint32, bool) {
	if at+digits > len(text) {
		return 0, false
	}
	n := uint32(0)
	for _, c := range []byte(text[at : at+digits]) {
		d := strings.IndexByte("0123456789abcdef", c|0x20) // a digit is its own lower case
		if d < 0 || c < '0' {
			return 0, false
		}
		n = n<<4 | uint32(d)
	}
	return n, true
}

// maxBackslashes is how many backslashes an escape may have: each encoding doubles them.
const maxBackslashes = 8

// readBackslash reads \/, \u002f, \x2f, \n and doubled backslashes, also encoded within each other.
func readBackslash(text string) []unit {
	n := 1
	for n < len(text) && n < maxBackslashes && text[n] == '\\' {
		n++
	}
	var units []unit
	for size := 2; size <= n; size *= 2 {
		units = append(units, unit{`\`, size})
	}
	if n == len(text) {
		return units
	}
	switch c := text[n]; c {
	case '/', '"', '\'':
		units = append(units, unit{string(c), n + 1})
	case 'n', 't', 'r', 'b', 'f':
		units = append(units, unit{map[byte]string{'n': "\n", 't': "\t", 'r': "\r", 'b': "\b", 'f': "\f"}[c], n + 1})
	case 'x':
		if b, ok := readHex(text, n+1, 2); ok {
			units = append(units, unit{string([]byte{byte(b)}), n + 3})
		}
	case 'u':
		units = append(units, readUnicode(text, n)...)
	}
	return units
}

// readUnicode reads the digits after the n backslashes in \u002f, or in a surrogate pair.
func readUnicode(text string, n int) []unit {
	first, ok := readHex(text, n+1, 4)
	if !ok {
		return nil
	}
	end := n + 5
	if !utf16.IsSurrogate(rune(first)) {
		return []unit{{string(rune(first)), end}}
	}
	if second, ok := readHex(text, end+n+1, 4); ok && strings.HasPrefix(text[end:], text[:n]+"u") {
		if r := utf16.DecodeRune(rune(first), rune(second)); r != utf8.RuneError {
			return []unit{{string(r), end + n + 5}}
		}
	}
	return nil
}

// maxEntity is the longest entity that is read.
const maxEntity = 12

// readEntity reads &amp;, &#47; and &#x2f;, also &amp;#47;, encoded twice.
func readEntity(text string) []unit {
	var units []unit
	entity := text[:min(len(text), maxEntity)]
	end := strings.IndexByte(entity, ';') + 1
	if end == 0 {
		return nil
	}
	plain := html.UnescapeString(entity[:end])
	if plain != entity[:end] {
		units = append(units, unit{plain, end})
	}
	if plain == "&" {
		if more := strings.IndexByte(entity[end:], ';') + 1; more > 0 {
			inner := "&" + entity[end:end+more]
			if twice := html.UnescapeString(inner); twice != inner {
				units = append(units, unit{twice, end + more})
			}
		}
	}
	return units
}
