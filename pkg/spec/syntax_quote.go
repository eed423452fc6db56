package spec

import (
	"strings"
	"unicode/utf8"
)

// withQuotesFix adds a fix to a problem inside { } or [ ]: quotes around the plain text.
// It adds none if the start or end of that text is ambiguous.
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

// isInsideQuotes reports whether the text after before may be inside quotes or a
// comment.
func isInsideQuotes(before string) bool {
	return strings.Count(before, `"`)%2 > 0 || strings.Count(before, "'")%2 > 0 || strings.Contains(before, " #")
}

// isSafeToQuote reports whether quotes do not change the value of a plain text.
func isSafeToQuote(text string) bool {
	return !strings.ContainsAny(text, "\"'\\#&*!|>@`") && !strings.Contains(text, ": ") &&
		strings.Count(text, "(") == strings.Count(text, ")")
}

// plainTextStart returns the start of the text at the end of before: after a bracket, a
// comma, or the colon of its key.
func plainTextStart(before string) int {
	start := strings.LastIndexAny(before, "{[,") + 1
	if colon := strings.LastIndex(before, ": "); colon >= start {
		start = colon + 2
	}
	return start
}

// plainTextEnd returns the end of the text at the start of here: before a comma or a
// closing bracket, except for the braces of ${env:X}.
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
