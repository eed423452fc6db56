package spec

import (
	"reflect"
	"slices"
	"strings"
)

// enumValue is the value of an enumeration that a name stands for. ADK's languages
// write the same value as sse, SSE, StreamingMode.SSE or agent.StreamingModeSSE: case,
// underscores, qualifiers and the name of the field before it make no difference.
func (f Field) enumValue(written string) (value string, ok bool) {
	if slices.Contains(f.Enum, written) {
		return written, true
	}
	asked := foldEnum(trimQualifier(written))
	at := slices.IndexFunc(f.Enum, func(v string) bool {
		return foldEnum(v) == asked || foldEnum(f.Name+v) == asked
	})
	if at < 0 {
		return "", false
	}
	return f.Enum[at], true
}

// normalizeAPIEnum is a value of an enumeration of Gemini's API, which knows one spelling:
// capitals for nearly all of them.
func normalizeAPIEnum(t reflect.Type, written string) string {
	switch t.Name() {
	case "ServiceTier", "ImagePromptLanguage", "Role":
		return strings.ToLower(trimQualifier(written))
	default:
		return strings.ToUpper(trimQualifier(written))
	}
}

// isAPIEnum says whether a field holds an enumeration of Gemini's API.
func (f Field) isAPIEnum(t reflect.Type) bool {
	return f.fromJSONStruct && t.Kind() == reflect.String && t.PkgPath() != ""
}

func foldEnum(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

// trimQualifier is a name without the types before it: SSE of RunConfig.StreamingMode.SSE.
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
