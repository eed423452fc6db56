// Package baseurl joins service base URLs, which may have a query such as ?api-version=2024-02-01,
// with call paths.
package baseurl

import "strings"

// Join adds a path to a base URL: after the base's path, before its query.
func Join(base, path string) string {
	address, query := splitQuery(base)
	return strings.TrimRight(address, "/") + path + query
}

// TrimPath removes the slashes and then a suffix at the end of a base URL's path.
func TrimPath(base, suffix string) string {
	address, query := splitQuery(base)
	return strings.TrimSuffix(strings.TrimRight(address, "/"), suffix) + query
}

// splitQuery splits a URL before its query.
func splitQuery(base string) (address, query string) {
	if at := strings.IndexByte(base, '?'); at >= 0 {
		return base[:at], base[at:]
	}
	return base, ""
}
