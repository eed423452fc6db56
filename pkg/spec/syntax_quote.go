package spec

import (
	"strings"
	"unicode/utf8"
)

// withQuotesFix gives a problem inside { } or [ ] its repair: quotes around the plain
// text that it stands in. There is none where it is not certain where that text
// begins and ends.
func withQuotesFix(d Diagnostic) Diagnostic {
	at := 0
	for range d.Pos.Col - 1 {
		_, size := utf8.DecodeRuneInString(d.Source[at:])
		at += size
	}
	from, to := plainTextStart(d.Source[:at]), at+plainTextEnd(d.Source[at:])
	text := strings.TrimSpace(d.Source[from:to])
	from += strings.Index(d.Source[from:to], text)
	if text == "" || to == len(d.Source) || isInsideQuotes(d.Source[:from]) || !isSafeToQuote(text) {
		return d
	}
	d.Fix = Fix{Line: d.Pos.Line, Col: utf8.RuneCountInString(d.Source[:from]) + 1, Old: text, New: `"` + text + `"`}
	return d
}

// isInsideQuotes says whether what follows may be part of a quoted text or a comment.
func isInsideQuotes(before string) bool {
	return strings.Count(before, `"`)%2 > 0 || strings.Count(before, "'")%2 > 0 || strings.Contains(before, " #")
}

// isSafeToQuote says whether a plain text is the same between quotes.
func isSafeToQuote(text string) bool {
	return !strings.ContainsAny(text, "\"'\\#&*!|>@`") && !strings.Contains(text, ": ") &&
		strings.Count(text, "(") == strings.Count(text, ")")
}

// plainTextStart is where the text begins that ends a line: behind a bracket, a
// comma, or the colon of its key.
func plainTextStart(before string) int {
	start := strings.LastIndexAny(before, "{[,") + 1
	if colon := strings.LastIndex(before, ": "); colon >= start {
		start = colon + 2
	}
	return start
}

// plainTextEnd is where the text ends that begins a line: before a comma or a
// bracket that closes. The braces of ${env:X} are part of it.
func plainTextEnd(here string) int {
	depth := 0
	for i, r := range here {
		switch {
		case r == '{':
			depth++
		case r == '}' && depth > 0:
			depth--
		case depth == 0 && strings.ContainsRune(",}]", r):
			return i
		}
	}
	return len(here)
}
