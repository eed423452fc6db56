package openapitool

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// snakeName converts a name to snake case as ADK does (adk-python
// tools/openapi_tool/common/common.py).
func snakeName(s string) string {
	s = otherRunes.ReplaceAllString(s, "_")
	s = lowerThenUpper.ReplaceAllString(s, "${1}_${2}")
	s = acronymThenWord.ReplaceAllString(s, "${1}_${2}")
	return strings.Trim(underscores.ReplaceAllString(strings.ToLower(s), "_"), "_")
}

var (
	otherRunes      = regexp.MustCompile(`[^A-Za-z0-9]+`)
	lowerThenUpper  = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	acronymThenWord = regexp.MustCompile(`([A-Z]+)([A-Z][a-z])`)
	underscores     = regexp.MustCompile(`_+`)
)

const (
	// maxOperationName is where ADK cuts an operation's name.
	maxOperationName = 60
	// maxToolName is OpenAI's limit for tool names.
	maxToolName = 64
)

// operationName returns the name of an operation without the tool prefix.
func operationName(id string) string {
	name := snakeName(id)
	return name[:min(len(name), maxOperationName)]
}

// nameWithHash returns a name with at most maxToolName characters that ends with a key's hash, for
// names that collide.
func nameWithHash(name, key string) string {
	sum := sha256.Sum256([]byte(key))
	tail := "_" + hex.EncodeToString(sum[:4])
	return name[:min(len(name), maxToolName-len(tail))] + tail
}

// parameterName returns a parameter's name for the model. place is where the value belongs: path,
// query, header, cookie or body.
func parameterName(original, place string, preserve bool) string {
	name := original
	if !preserve {
		name = snakeName(original)
	}
	switch {
	case name == "" && place == "body":
		return "body"
	case name == "" && place != "":
		return place + "_param"
	case isPythonKeyword(name):
		return "param_" + name
	}
	return name
}

// isPythonKeyword reports whether ADK cannot have a parameter with this name.
func isPythonKeyword(name string) bool {
	return slices.Contains(strings.Fields("and as assert async await break class continue def del elif else except finally for from global if "+
		"import in is lambda nonlocal not or pass raise return try while with yield False None True"), name)
}

// uniqueName returns a name that is not taken: the n-th repetition gets the number n-1, as
// in ADK.
func uniqueName(name string, taken map[string]bool) string {
	unique := name
	for n := 0; taken[unique]; n++ {
		unique = name + "_" + strconv.Itoa(n)
	}
	taken[unique] = true
	return unique
}
