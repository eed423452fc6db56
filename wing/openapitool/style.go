package openapitool

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// A style is how a value becomes text (OpenAPI 3, style values; RFC 6570).
type style struct {
	// name is form, simple, matrix, label, spaceDelimited, pipeDelimited or deepObject.
	name    string
	explode bool
}

// readStyle reads the style of a parameter or an encoding; the default depends on its place.
func readStyle(n *spec.Node, place string) style {
	s := style{name: "form"}
	if place == "path" || place == "header" {
		s.name = "simple"
	}
	if name := n.Get("style"); isString(name) {
		s.name = name.Value
	}
	s.explode = s.name == "form" || s.name == "deepObject"
	if explode := n.Get("explode"); explode != nil {
		s.explode = isTrue(explode)
	}
	return s
}

// A field is a name with a value, in a query or a form.
type field struct{ name, value string }

// maxFieldDepth limits how deep objects and lists nest in a deepObject: its names grow with each
// level.
const maxFieldDepth = 32

var errFieldDepth = fmt.Errorf("the nesting exceeds the limit of %d levels", maxFieldDepth)

// appendFields appends a value's fields. escape is for values: the separators between them stay as
// they are.
func (s style) appendFields(fields []field, name string, v any, escape func(string) string) ([]field, error) {
	switch {
	case s.name == "deepObject":
		w := deepObjectWriter{fields, escape}
		err := w.writeValue(name, v, maxFieldDepth)
		return w.fields, err
	case s.explode:
		return s.appendExploded(fields, name, v, escape), nil
	}
	separator := ","
	switch s.name {
	case "spaceDelimited":
		separator = escape(" ")
		if separator == "+" {
			separator = "%20"
		}
	case "pipeDelimited":
		separator = escape("|")
	}
	return append(fields, field{name, joinValues(v, separator, separator, escape)}), nil
}

// appendExploded appends a field for each list element or object key.
func (s style) appendExploded(fields []field, name string, v any, escape func(string) string) []field {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			fields = append(fields, field{name, escape(template.String(item))})
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if v[key] != nil { // else it is an undefined value (RFC 6570)
				fields = append(fields, field{key, escape(template.String(v[key]))})
			}
		}
	default:
		fields = append(fields, field{name, escape(template.String(v))})
	}
	return fields
}

// A deepObjectWriter appends a value's fields as a[b]=c, and lists as a[0]=c. OpenAPI defines only
// the first level; the others follow Stripe and most frameworks.
type deepObjectWriter struct {
	fields []field
	escape func(string) string
}

// writeValue appends a value's fields; the value has at most depth levels.
func (w *deepObjectWriter) writeValue(name string, v any, depth int) error {
	if depth < 0 {
		return errFieldDepth
	}
	switch v := v.(type) {
	case nil: // an undefined value (RFC 6570)
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err := w.writeValue(name+"["+key+"]", v[key], depth-1); err != nil {
				return err
			}
		}
	case []any:
		for i, item := range v {
			if err := w.writeValue(name+"["+strconv.Itoa(i)+"]", item, depth-1); err != nil {
				return err
			}
		}
	default:
		w.fields = append(w.fields, field{name, w.escape(template.String(v))})
	}
	return nil
}

// joinValues joins a list, or an object's keys and values, to one string.
func joinValues(v any, separator, assign string, escape func(string) string) string {
	var parts []string
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			parts = append(parts, escape(template.String(item)))
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, escape(key)+assign+escape(template.String(v[key])))
		}
	default:
		return escape(template.String(v))
	}
	return strings.Join(parts, separator)
}

// formatValue returns a value as one string, for a path, a header or a cookie.
func (s style) formatValue(name string, v any, escape func(string) string) string {
	assign := ","
	if s.explode {
		assign = "="
	}
	switch s.name {
	case "label":
		separator := ","
		if s.explode {
			separator = "."
		}
		return "." + joinValues(v, separator, assign, escape)
	case "matrix":
		return s.formatMatrix(url.PathEscape(name), v, escape)
	}
	return joinValues(v, ",", assign, escape)
}

// formatMatrix returns ;name=value, repeated for an exploded value's parts.
func (s style) formatMatrix(name string, v any, escape func(string) string) string {
	start := ";" + name + "="
	list, isList := v.([]any)
	object, isObject := v.(map[string]any)
	switch {
	case isList && len(list) == 0, isObject && len(object) == 0:
		return ""
	case isList && s.explode:
		return start + joinValues(v, start, "=", escape)
	case isObject && s.explode:
		return ";" + joinValues(v, ";", "=", escape)
	}
	return start + joinValues(v, ",", ",", escape)
}
