package store

import (
	"slices"
	"strings"
)

// Redacted is a URL as messages and logs may show it: without user, password
// and parameters. It takes texts that are no URLs, too.
func Redacted(text string) string {
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok {
		scheme, rest = "", text
	}
	slashes := ""
	if strings.HasPrefix(rest, "//") {
		slashes, rest = "//", rest[2:]
	}
	// A password may hold any sign, also unescaped: the last @ ends it.
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

// isFileURL says that a URL names a file, whose path may hold an @.
func isFileURL(scheme, rest string) bool {
	return strings.HasPrefix(rest, "/") && slices.Contains([]string{"sqlite", "sqlite+aiosqlite", "dir"}, scheme)
}
