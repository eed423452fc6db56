package spec

import (
	"reflect"
	"slices"
	"strings"
)

// enumValue returns the canonical value of an enumeration. ADK's languages write the
// same value as sse, SSE, StreamingMode.SSE or agent.StreamingModeSSE: enumValue ignores
// case, underscores, qualifiers and the field's name as a prefix.
func (f Field) enumValue(written string) (value string, ok bool) {
	if slices.Contains(f.Enum, written) {
		return written, true
	}
	folded := foldEnum(trimQualifier(written))
	at := slices.IndexFunc(f.Enum, func(v string) bool {
		return foldEnum(v) == folded || foldEnum(f.Name+v) == folded
	})
	if at < 0 {
		return "", false
	}
	return f.Enum[at], true
}

// normalizeAPIEnum converts a value of an enumeration of the Gemini API to the only
// spelling that the API accepts: upper case for most types.
func normalizeAPIEnum(t reflect.Type, written string) string {
	switch t.Name() {
	case "ServiceTier", "ImagePromptLanguage", "Role":
		return strings.ToLower(trimQualifier(written))
	default:
		return strings.ToUpper(trimQualifier(written))
	}
}

// isAPIEnum reports whether the field holds an enumeration of the Gemini API.
func (f Field) isAPIEnum(t reflect.Type) bool {
	return f.fromJSONStruct && t.Kind() == reflect.String && t.PkgPath() != ""
}

func foldEnum(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

// trimQualifier removes the types before a name: SSE of RunConfig.StreamingMode.SSE.
func trimQualifier(name string) string {
	at := strings.LastIndexByte(name, '.')
	isType := func(r rune) bool {
		return r == '.' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	}
	if at < 0 || strings.ContainsFunc(name[:at], func(r rune) bool { return !isType(r) }) {
		return name
	}
	return name[at+1:]
}
