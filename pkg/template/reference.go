package template

import (
	"context"
	"strings"
	"unicode"
)

// A Ref is one placeholder in a template.
type Ref struct {
	Name     string // with prefix; without "artifact."
	Artifact bool
	Optional bool
	Offset   int // byte offset in the source
}

// A Scope supplies the values for the placeholders of a [Text]. Rendering looks
// up each placeholder once, in order, from one goroutine. A missing name is not
// an error of the Scope: the placeholder decides whether it is required.
type Scope interface {
	// Lookup returns a key's value, given with its prefix ("user:name"), and whether it exists.
	Lookup(key string) (any, bool)
	// Artifact returns an artifact's latest text, and whether it exists. An error aborts the
	// rendering.
	Artifact(ctx context.Context, name string) (string, bool, error)
}

// parseRef parses a placeholder's inside. A trailing question mark makes it optional; after
// "artifact." any name is valid; all others must be keys.
func parseRef(s string) (Ref, bool) {
	s, optional := strings.CutSuffix(s, "?")
	if name, ok := strings.CutPrefix(s, "artifact."); ok {
		return Ref{Name: name, Artifact: true, Optional: optional}, true
	}
	return Ref{Name: s, Optional: optional}, isKey(s)
}

// isKey reports whether s is an identifier, optionally after one of ADK's
// state prefixes.
func isKey(s string) bool {
	return isIdentifier(trimScopePrefix(s))
}

// trimScopePrefix removes one of ADK's state prefixes.
func trimScopePrefix(s string) string {
	for _, prefix := range [...]string{"app:", "user:", "temp:"} {
		if rest, ok := strings.CutPrefix(s, prefix); ok {
			return rest
		}
	}
	return s
}

// isIdentifier follows Python's rule (str.isidentifier).
func isIdentifier(s string) bool {
	for i, r := range s {
		if !isLetter(r) && (i == 0 || !isLetterOrDigit(r)) {
			return false
		}
	}
	return s != ""
}

func isLetter(r rune) bool {
	if r < unicode.MaxASCII {
		return r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	}
	return unicode.In(r, unicode.L, unicode.Nl, unicode.Other_ID_Start) && !unicode.In(r, excludedFromNames, excludedFirst)
}

func isLetterOrDigit(r rune) bool {
	if r < unicode.MaxASCII {
		return '0' <= r && r <= '9'
	}
	return unicode.In(r, unicode.L, unicode.Nl, unicode.Other_ID_Start, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc, unicode.Other_ID_Continue) &&
		!unicode.Is(excludedFromNames, r)
}

// Python uses XID_Start and XID_Continue, which exclude characters whose
// normalization is not an identifier (Unicode Standard Annex 31, section 5.1).
var (
	excludedFromNames = &unicode.RangeTable{R16: []unicode.Range16{
		{0x037a, 0x037a, 1}, {0x2e2f, 0x2e2f, 1}, {0x309b, 0x309c, 1}, {0xfc5e, 0xfc63, 1}, {0xfdfa, 0xfdfb, 1}, {0xfe70, 0xfe7e, 2},
	}}
	excludedFirst = &unicode.RangeTable{R16: []unicode.Range16{{0x0e33, 0x0eb3, 0x80}, {0xff9e, 0xff9f, 1}}}
)

// isSpace reports what Python's str.strip removes: Unicode's white space and the
// four ASCII separators.
func isSpace(r rune) bool {
	return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f
}
