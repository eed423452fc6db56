package jsonschema

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// TestSameAsLibrary: a value is valid, and has the same problems, as in the library that compiled
// the schema.
func TestSameAsLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schema := drawSchema(t, 3).(map[string]any)
		schema["$defs"] = map[string]any{"a": drawSchema(t, 2), "b": drawSchema(t, 2)}
		if rapid.Bool().Draw(t, "old") {
			schema["$schema"] = "http://json-schema.org/draft-07/schema#"
		}
		s, err := Compile(schema)
		if err != nil {
			t.Skip(err)
		}
		for range 5 {
			v := drawValue(t, 3)
			var want, got []string
			var invalid *jsonschema.ValidationError
			if err := s.root.Validate(v); errors.As(err, &invalid) {
				want = linesOfLibrary(invalid)
			}
			var found *InvalidError
			if err := s.Validate(t.Context(), v); errors.As(err, &found) {
				got = found.Lines("whole")
			} else if err != nil {
				t.Fatal(err)
			}
			if (want == nil) != (got == nil) {
				t.Fatalf("%v of %v:\n%s\nand in the library:\n%s", v, schema, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			// The library has another place for a name's problem, and another text for a cycle.
			if strings.Contains(fmt.Sprint(schema), "propertyNames") || strings.Contains(fmt.Sprint(want), "reference cycle") {
				continue
			}
			if diff := cmp.Diff(sortWords(want), sortWords(got)); diff != "" && !slices.Contains(got, "further problems are not listed") {
				t.Fatalf("%v of %v (-library +ours):\n%s", v, schema, diff)
			}
		}
	})
}

func linesOfLibrary(e *jsonschema.ValidationError) []string {
	l := problemList{}
	l.addCauses(e)
	return l.formatLines("whole")
}

// sortWords sorts each line's words, and the lines: the library lists names in any order.
func sortWords(lines []string) []string {
	var all []string
	for _, line := range lines {
		words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune("', ", r) })
		slices.Sort(words)
		all = append(all, strings.Join(words, " "))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// drawSchema draws a schema with all keywords.
func drawSchema(t *rapid.T, depth int) any {
	s := map[string]any{}
	inner := func() any { return drawSchema(t, depth-1) }
	list := func() any {
		var all []any
		for range rapid.IntRange(1, 3).Draw(t, "branches") {
			all = append(all, inner())
		}
		return all
	}
	name := func() string { return rapid.SampledFrom([]string{"a", "b", "ab"}).Draw(t, "name") }
	named := func() any { return map[string]any{name(): inner(), name(): inner()} }
	number := func() any { return int64(rapid.IntRange(0, 3).Draw(t, "n")) }
	keywords := []func(){
		func() {
			s["type"] = rapid.SampledFrom([]string{"object", "array", "string", "integer", "number", "null"}).Draw(t, "type")
		},
		func() { s["type"] = []any{"object", "array", "string"} },
		func() { s["enum"] = []any{drawValue(t, 1), drawValue(t, 1), "a"} },
		func() { s["const"] = drawValue(t, 1) },
		func() { s["minimum"], s["exclusiveMaximum"] = number(), number() },
		func() { s["multipleOf"] = int64(2) },
		func() { s["minLength"], s["pattern"] = number(), "^a" },
		func() { s["maxLength"] = number() },
		func() { s["required"] = []any{name()} },
		func() { s["minProperties"], s["maxItems"], s["minItems"] = number(), number(), number() },
		func() { s["uniqueItems"] = true },
		func() { s["dependentRequired"] = map[string]any{name(): []any{name()}} },
	}
	if depth > 0 {
		keywords = append(keywords,
			func() { s["$ref"] = "#/$defs/" + rapid.SampledFrom([]string{"a", "b"}).Draw(t, "ref") },
			func() { s["properties"] = named() },
			func() { s["properties"] = named() },
			func() { s["patternProperties"] = map[string]any{"a": inner(), "b$": inner()} },
			func() { s["additionalProperties"] = rapid.SampledFrom([]any{false, inner()}).Draw(t, "additional") },
			func() { s["propertyNames"] = inner() },
			func() { s["dependentSchemas"] = named() },
			func() { s["dependencies"] = map[string]any{name(): inner(), name(): []any{name()}} },
			func() { s["unevaluatedProperties"] = rapid.SampledFrom([]any{false, inner()}).Draw(t, "unevaluated") },
			func() { s["unevaluatedItems"] = rapid.SampledFrom([]any{false, inner()}).Draw(t, "unevaluated") },
			func() { s["items"] = inner() },
			func() { s["prefixItems"] = list() },
			func() { s["contains"] = inner() },
			func() { s["contains"], s["minContains"], s["maxContains"] = inner(), number(), number() },
			func() { s["allOf"] = list() },
			func() { s["anyOf"] = list() },
			func() { s["oneOf"] = list() },
			func() { s["not"] = inner() },
			func() { s["if"], s["then"], s["else"] = inner(), inner(), inner() },
		)
	}
	for range rapid.IntRange(0, 3).Draw(t, "keywords") {
		rapid.SampledFrom(keywords).Draw(t, "keyword")()
	}
	return s
}

// drawValue draws a value as it is decoded.
func drawValue(t *rapid.T, depth int) any {
	switch kind := rapid.IntRange(0, 7).Draw(t, "kind"); {
	case kind < 2 && depth > 0:
		m := map[string]any{}
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			m[rapid.SampledFrom([]string{"a", "b", "ab", "c"}).Draw(t, "name")] = drawValue(t, depth-1)
		}
		return m
	case kind < 4 && depth > 0:
		l := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			l = append(l, drawValue(t, depth-1))
		}
		return l
	case kind < 5:
		return rapid.SampledFrom([]any{"a", "ab", ""}).Draw(t, "string")
	case kind < 6:
		return rapid.SampledFrom([]any{int64(1), 1.0, 1.5, int64(2)}).Draw(t, "number")
	}
	return rapid.SampledFrom([]any{nil, true, false}).Draw(t, "scalar")
}
