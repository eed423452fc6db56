package spec

import (
	"reflect"
	"strings"
	"sync"
	"unicode"
)

// A Field describes one key of a config struct. [Decode] accepts it, and [Schema] and
// [Reference] document it.
type Field struct {
	// Name is the key. Alias is an alternative spelling, or "".
	Name, Alias string
	// Doc is the description.
	Doc string
	// Required fields must be present and not null.
	Required bool
	// Default is the value of an absent field, in YAML.
	Default string
	// Enum lists the allowed strings, or the allowed elements of a list.
	Enum []string
	// Secret values are redacted in output.
	Secret bool
	// Deprecated names the replacement of a deprecated field, or is "".
	Deprecated string
	// Type is the Go type.
	Type reflect.Type

	index []int
	// allowsQuotedNumber permits numbers in quotes, as JSON APIs use for int64.
	allowsQuotedNumber bool
	// fromJSONStruct marks fields of a struct with json tags and without yaml tags.
	fromJSONStruct bool
}

// Fields lists the fields of a struct type in order. Fields have the tags
//
//	yaml:"name" doc:"…" required:"true" default:"…" enum:"a|b" secret:"true" deprecated:"use x"
//
// and yaml:",inline" adds the fields of an embedded struct. A struct with json tags and
// without yaml tags, such as those of package genai, uses its json names in snake_case;
// the camelCase names are aliases.
func Fields(t reflect.Type) []Field {
	var fields []Field
	isJSON := isJSONStruct(t)
	for i := range t.NumField() {
		sf := t.Field(i)
		if !sf.IsExported() {
			continue
		}
		if isJSON {
			fields = appendJSONFields(fields, sf)
			continue
		}
		name, option, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		switch {
		case option == "inline":
			fields = appendInlined(fields, sf)
		case name != "" && name != "-":
			fields = append(fields, newField(name, sf))
		}
	}
	return fields
}

// fieldTable caches the fields of struct types: reading tags takes longer than decoding.
// It is safe for concurrent use.
type fieldTable struct{ fields sync.Map }

func (t *fieldTable) fieldsOf(typ reflect.Type) []Field {
	if fields, ok := t.fields.Load(typ); ok {
		return fields.([]Field)
	}
	fields := Fields(typ)
	t.fields.Store(typ, fields)
	return fields
}

func newField(name string, sf reflect.StructField) Field {
	tag := sf.Tag
	f := Field{
		Name: name, Doc: tag.Get("doc"),
		Required: tag.Get("required") == "true", Default: tag.Get("default"),
		Secret: tag.Get("secret") == "true", Deprecated: tag.Get("deprecated"),
		Type: sf.Type, index: sf.Index,
	}
	if enum := tag.Get("enum"); enum != "" {
		f.Enum = strings.Split(enum, "|")
	}
	return f
}

func appendInlined(fields []Field, sf reflect.StructField) []Field {
	for _, f := range Fields(sf.Type) {
		f.index = append(append([]int{}, sf.Index...), f.index...)
		fields = append(fields, f)
	}
	return fields
}

// isJSONStruct reports whether a struct has json tags and no yaml tags.
func isJSONStruct(t reflect.Type) bool {
	hasJSON := false
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		if _, ok := tag.Lookup("yaml"); ok {
			return false
		}
		hasJSON = hasJSON || tag.Get("json") != ""
	}
	return hasJSON
}

func appendJSONFields(fields []Field, sf reflect.StructField) []Field {
	name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
	switch {
	case sf.Anonymous && name == "" && sf.Type.Kind() == reflect.Struct:
		return appendInlined(fields, sf)
	case name == "" || name == "-":
		return fields
	}
	f := Field{Name: snakeCase(name), Type: sf.Type, index: sf.Index, allowsQuotedNumber: strings.Contains(options, "string"), fromJSONStruct: true}
	if f.Name != name {
		f.Alias = name
	}
	return append(fields, f)
}

// snakeCase converts responseMimeType to response_mime_type.
func snakeCase(camel string) string {
	var b strings.Builder
	var last rune
	for _, r := range camel {
		if unicode.IsUpper(r) && last != 0 && !unicode.IsUpper(last) && last != '_' {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
		last = r
	}
	return b.String()
}

func (f Field) matchesKey(key string) bool { return f.Name == key || f.Alias != "" && f.Alias == key }
