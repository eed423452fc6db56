package spec

import (
	"reflect"
	"strings"
	"sync"
	"unicode"
)

// A Field is one line of the language: what [Decode] accepts, [Schema]
// describes and [Reference] explains.
type Field struct {
	// Name is the key. Alias is a second spelling of it, or "".
	Name, Alias string
	// Doc is the sentence for people.
	Doc string
	// Required fields must be there and not null.
	Required bool
	// Default is what an absent field is, as it would be written in YAML.
	Default string
	// Enum lists the texts that are allowed; of a list, of its elements.
	Enum []string
	// Secret values are never shown.
	Secret bool
	// Deprecated says what to use in place of the field, or is "".
	Deprecated string
	// Type is the Go type.
	Type reflect.Type

	index []int
	// allowsQuotedNumber numbers may be written in quotes, as JSON APIs do for int64.
	allowsQuotedNumber bool
	// fromJSONStruct fields are of a struct that was written for JSON.
	fromJSONStruct bool
}

// Fields lists the fields of a struct type in order. Fields have the tags
//
//	yaml:"name" doc:"…" required:"true" default:"…" enum:"a|b" secret:"true" deprecated:"use x"
//
// and yaml:",inline" takes the fields of a struct as the struct's own. A
// struct with json tags and no yaml tags, such as those of package genai, has
// the names of its json tags in snake_case; the camelCase ones are aliases.
func Fields(t reflect.Type) []Field {
	var fields []Field
	foreign := isJSONStruct(t)
	for i := range t.NumField() {
		sf := t.Field(i)
		if !sf.IsExported() {
			continue
		}
		if foreign {
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

// fieldTable remembers the fields of struct types: reading tags takes longer
// than decoding. Many goroutines may use it.
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

// isJSONStruct says whether a struct was written for JSON and not for us.
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

// snakeCase is response_mime_type for responseMimeType.
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
