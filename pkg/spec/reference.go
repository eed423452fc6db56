package spec

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Reference returns a Markdown section with a name, a description and a table with the [Fields] in
// its config struct. Fields in nested structs have dotted names, with [] for lists and * for
// mappings.
func Reference(name, doc string, t reflect.Type) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s\n", name, doc)
	r := referenceTable{visiting: map[reflect.Type]bool{}}
	r.addFields("", t)
	if len(r.rows) > 0 {
		b.WriteString("\n| field | type | default | description |\n| --- | --- | --- | --- |\n")
		b.WriteString(strings.Join(r.rows, ""))
	}
	return b.String()
}

// Reference returns the kind's reference section in Markdown.
func (k Kind[Env, T]) Reference() string { return Reference(k.Name, k.Doc, k.ConfigType()) }

type referenceTable struct {
	rows []string
	// visiting holds the structs that contain the current field; a recursive struct is
	// listed once.
	visiting map[reflect.Type]bool
}

func (r *referenceTable) addFields(prefix string, t reflect.Type) {
	if r.visiting[t] {
		return
	}
	r.visiting[t] = true
	defer delete(r.visiting, t)
	for _, f := range Fields(t) {
		r.rows = append(r.rows, tableRow(prefix, f))
		if inner, suffix := nestedStruct(f.Type); inner != nil {
			r.addFields(prefix+f.Name+suffix+".", inner)
		}
	}
}

func tableRow(prefix string, f Field) string {
	value := typeLabel(f.Type)
	if len(f.Enum) > 0 {
		value += ": `" + strings.Join(f.Enum, "`, `") + "`"
	}
	if f.Required {
		value += ", required"
	}
	description := []string{f.Doc}
	if f.Secret {
		description = append(description, "Redacted in output.")
	}
	if f.Deprecated != "" {
		description = append(description, "Deprecated: "+f.Deprecated+".")
	}
	fallback := f.Default
	if fallback != "" {
		fallback = "`" + fallback + "`"
	}
	cells := []string{"`" + prefix + f.Name + "`", value, fallback, strings.TrimSpace(strings.Join(description, " "))}
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(c, "|", `\|`)
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// nestedStruct returns the struct nested in a field and the suffix for the field's name: [] for a
// list, .* for a mapping. It returns nil for types with their own form and for API structs, which
// are documented elsewhere.
func nestedStruct(t reflect.Type) (inner reflect.Type, suffix string) {
	switch {
	case hasOwnForm(t):
		return nil, ""
	case t.Kind() == reflect.Pointer:
		return nestedStruct(t.Elem())
	case t.Kind() == reflect.Slice:
		inner, suffix = nestedStruct(t.Elem())
		return inner, "[]" + suffix
	case t.Kind() == reflect.Map:
		inner, suffix = nestedStruct(t.Elem())
		return inner, ".*" + suffix
	case t.Kind() == reflect.Struct && !isJSONStruct(t):
		return t, ""
	}
	return nil, ""
}

func hasOwnForm(t reflect.Type) bool {
	switch reflect.New(t).Interface().(type) {
	case Decoder, **Node, *any, *time.Duration, *[]byte, encoding.TextUnmarshaler:
		return true
	}
	return false
}

// typeLabel returns a type's name for the reference.
func typeLabel(t reflect.Type) string {
	if t.Kind() == reflect.Pointer && t != reflect.TypeFor[*Node]() {
		return typeLabel(t.Elem())
	}
	switch zero := reflect.New(t).Interface().(type) {
	case *Text, *Secret:
		return "string"
	case *Expr:
		return "expression"
	case *Duration, *time.Duration:
		return "duration"
	case *Size:
		return "size"
	case *ShortSchema:
		return "schema"
	case *[]byte:
		return "base64 string"
	case SchemaProvider:
		if title, ok := zero.SchemaSpec()["title"].(string); ok {
			return title
		}
		return "see below"
	case Decoder, **Node, *any:
		return "any value"
	case encoding.TextUnmarshaler:
		return "string"
	}
	return kindLabel(t)
}

func kindLabel(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Slice:
		return "list of " + typeLabel(t.Elem())
	case reflect.Map:
		return "mapping of " + typeLabel(t.Elem())
	case reflect.Struct:
		if isJSONStruct(t) {
			return "mapping (`" + t.String() + "`)"
		}
		return "mapping"
	}
	return "integer"
}
