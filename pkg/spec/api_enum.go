package spec

import (
	"reflect"
	"slices"
	"strings"
)

// apiEnums are the Gemini API enumeration values that people write, by their Go type's name. The
// type accepts any text.
var apiEnums = map[string][]string{
	"HarmCategory": {
		"HARM_CATEGORY_HARASSMENT", "HARM_CATEGORY_HATE_SPEECH", "HARM_CATEGORY_SEXUALLY_EXPLICIT", "HARM_CATEGORY_DANGEROUS_CONTENT",
		"HARM_CATEGORY_CIVIC_INTEGRITY", "HARM_CATEGORY_JAILBREAK", "HARM_CATEGORY_IMAGE_HATE", "HARM_CATEGORY_IMAGE_DANGEROUS_CONTENT",
		"HARM_CATEGORY_IMAGE_HARASSMENT", "HARM_CATEGORY_IMAGE_SEXUALLY_EXPLICIT",
	},
	"HarmBlockThreshold":         {"BLOCK_LOW_AND_ABOVE", "BLOCK_MEDIUM_AND_ABOVE", "BLOCK_ONLY_HIGH", "BLOCK_NONE", "OFF"},
	"HarmBlockMethod":            {"SEVERITY", "PROBABILITY"},
	"FunctionCallingConfigMode":  {"AUTO", "ANY", "NONE", "VALIDATED"},
	"ThinkingLevel":              {"MINIMAL", "LOW", "MEDIUM", "HIGH"},
	"MediaResolution":            {"MEDIA_RESOLUTION_LOW", "MEDIA_RESOLUTION_MEDIUM", "MEDIA_RESOLUTION_HIGH"},
	"FeatureSelectionPreference": {"PRIORITIZE_QUALITY", "BALANCED", "PRIORITIZE_COST"},
	"ServiceTier":                {"flex", "standard", "priority"},
}

// isAPIEnum reports whether the field holds a Gemini API enumeration.
func (f Field) isAPIEnum(t reflect.Type) bool {
	return f.fromJSONStruct && t.Kind() == reflect.String && t.PkgPath() != ""
}

// normalizeAPIEnum converts a Gemini API enumeration value to the only spelling that the API
// accepts: upper case for most types. It warns about an unknown value, which may be newer than this
// list.
func (d *decoder) normalizeAPIEnum(n *Node, t reflect.Type, written string) string {
	value := strings.ToUpper(trimQualifier(written))
	switch t.Name() {
	case "ServiceTier", "ImagePromptLanguage", "Role":
		value = strings.ToLower(trimQualifier(written))
	}
	known := apiEnums[t.Name()]
	if value == "" || known == nil || slices.Contains(known, value) || strings.HasSuffix(strings.ToUpper(value), "UNSPECIFIED") {
		return value
	}
	d.report(n.Warnf("enum", "%q is not one of: %s", written, strings.Join(known, ", ")).withSuggestion(value, known))
	return value
}
