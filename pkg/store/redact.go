package store

import (
	"slices"
	"strings"
)

// Redacted returns a URL without user, password and parameters, for messages
// and logs. It accepts any string.
func Redacted(text string) string {
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok {
		scheme, rest = "", text
	}
	slashes := ""
	if strings.HasPrefix(rest, "//") {
		slashes, rest = "//", rest[2:]
	}
	// A password may contain any character unescaped: the last @ ends it.
	if i := strings.LastIndex(rest, "@"); i >= 0 && !isFileURL(scheme, rest) {
		rest = "***@" + rest[i+1:]
	}
	if where, _, ok := strings.Cut(rest, "?"); ok {
		rest = where + "?…"
	}
	if ok {
		return scheme + ":" + slashes + rest
	}
	return rest
}

// isFileURL reports whether a URL names a file. Its path may contain an @.
func isFileURL(scheme, rest string) bool {
	return strings.HasPrefix(rest, "/") && slices.Contains([]string{"sqlite", "sqlite+aiosqlite", "dir"}, scheme)
}
