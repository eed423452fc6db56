package jsonschema

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// refTwice returns levels in which a keyword has two references to the level below, and the lowest
// level.
func refTwice(levels int, keyword, lowest string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"$ref":"#/$defs/a%d","$defs":{"a0":%s`, levels, lowest)
	for i := range levels {
		fmt.Fprintf(&b, `,"a%d":{%s}`, i+1, strings.ReplaceAll(keyword, "REF", fmt.Sprintf(`{"$ref":"#/$defs/a%d"}`, i)))
	}
	return b.String() + "}}"
}

func repeatItem(n int, item any) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = item
	}
	return list
}

func nestObject(levels int) any {
	v := any(map[string]any{})
	for range levels {
		v = map[string]any{"x": v}
	}
	return v
}

// newTree returns a tree of objects with two children each.
func newTree(levels int) any {
	if levels == 0 {
		return map[string]any{}
	}
	return map[string]any{"l": newTree(levels - 1), "r": newTree(levels - 1)}
}

func quoteNames(prefix string, n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%q", fmt.Sprint(prefix, i))
	}
	return strings.Join(names, ",")
}

// TestBombsEndAtStepLimit: validating with a small but costly schema ends with a result after steps
// that do not double with each level, or at the step limit. Each problem is reported once, at most
// 20 in total.
func TestBombsEndAtStepLimit(t *testing.T) {
	const budget = "checking the value against its schema exceeds the limit of 4000000 steps"
	count, ended := 0, 0
	for _, tt := range []struct {
		name, schema string
		value        any
		// steps is the most that the validation may take, and want its error.
		steps int
		want  string
	}{
		{"allOf", refTwice(40, `"allOf":[REF,REF]`, `{"type":"object"}`), map[string]any{}, 200, ""},
		{"allOf that fails", refTwice(40, `"allOf":[REF,REF]`, `{"required":["zzz"]}`), map[string]any{}, 800, "missing property 'zzz'"},
		{"anyOf that fails", refTwice(40, `"anyOf":[REF,REF]`, `{"required":["zzz"]}`), map[string]any{}, 800, "missing property 'zzz'"},
		{"oneOf that fails", refTwice(40, `"oneOf":[REF,REF]`, `{"required":["zzz"]}`), map[string]any{}, 800, "missing property 'zzz'"},
		{"not", refTwice(40, `"not":{"allOf":[REF,REF]}`, `{"type":"object"}`), map[string]any{}, 300, ""},
		{"if, then", refTwice(40, `"if":REF,"then":REF`, `{"type":"object"}`), map[string]any{}, 200, ""},
		{"dependentSchemas", refTwice(40, `"dependentSchemas":{"x":REF},"allOf":[REF]`, `{"type":"object"}`), map[string]any{"x": nil}, 300, ""},
		{"propertyNames", refTwice(40, `"propertyNames":{"allOf":[REF,REF]}`, `{"type":"string"}`), map[string]any{"x": nil}, 300, ""},
		{"properties", refTwice(40, `"allOf":[{"properties":{"x":REF}},{"properties":{"x":REF}}]`, `{"type":"object"}`), nestObject(40), 500, ""},
		{"properties that fail", refTwice(40, `"allOf":[{"properties":{"x":REF}},{"properties":{"x":REF}}]`, `{"required":["zzz"]}`), nestObject(40), 1500, strings.Repeat("x.", 39) + "x: missing property 'zzz'"},
		{"items and contains", refTwice(40, `"items":REF,"contains":REF`, `{"type":"array"}`), deepList(40), 500, ""},
		{"unevaluatedProperties", refTwice(40, `"allOf":[REF,REF],"unevaluatedProperties":false`, `{"properties":{"x":true}}`), map[string]any{"x": nil}, 8000, ""},
		{"dynamic references", refTwice(40, `"allOf":[REF,REF,{"$dynamicRef":"#top"}]`, `{"$dynamicAnchor":"top","type":"object"}`), map[string]any{}, 400, ""},
		{"a recursive schema", `{"properties":{"l":{"$ref":"#"},"r":{"$ref":"#"}}}`, newTree(16), 800_000, ""},
		{"branches of a recursive schema", `{"type":"object","anyOf":[{"properties":{"x":{"$ref":"#"}},"required":["a"]},{"properties":{"x":{"$ref":"#"}},"required":["b"]},true]}`, nestObject(5000), 50_000, ""},
		{"20 problems", `{"items":{"type":"string"}}`, repeatItem(250_000, int64(1)), 10_000, "0: got number, want string; 1: got number"},
		{"equal items", `{"uniqueItems":true}`, distinctItems(250_000), 600_000, ""},
		{"enum for many values", `{"items":{"enum":[` + quoteNames("e", 3000) + `]}}`, repeatItem(250_000, "e2999"), 1_200_000, ""},
		{"required names of many values", `{"items":{"required":[` + quoteNames("r", 3000) + `]}}`, repeatItem(250_000, map[string]any{}), 4_100_000, "0: missing properties 'r0', 'r1'"},
		{"optional names of many values", `{"items":{"dependentRequired":{"a":[` + quoteNames("r", 3000) + `]},"not":{"required":[` + quoteNames("r", 3000) + `]}}}`, repeatItem(250_000, map[string]any{}), 4_100_000, budget},
		{"a pattern for a long string", `{"pattern":"(x+x+)+y{1,900}[a-z]{900}"}`, strings.Repeat("x", 8<<20), 2_000_000_000, budget},
		{"patterns for many names", `{"patternProperties":{` + strings.TrimSuffix(strings.ReplaceAll(quoteNames("p", 500)+",", ",", ":true,"), ",") + `}}`, manyNames(100_000), 4_001_000, budget},
		{"a reference to itself", `{"$ref":"#"}`, map[string]any{}, 10, "the schema refers to itself without a part of the value in between"},
		{"references in a circle", `{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"},{"$ref":"#/$defs/b"}]},"b":{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]}}}`, nil, 200, "the schema refers to itself"},
		{"a long number", `{"multipleOf":0.5}`, decodeText(t, strings.Repeat("7", 100_000)), 100, "the number has more than 1000 digits"},
		{"multiples of a small number", `{"items":{"multipleOf":1e-9999}}`, repeatItem(250_000, decodeText(t, "1e9999")), 4_002_000, budget},
		{"integers of many digits", `{"items":{"type":"integer"}}`, repeatItem(250_000, decodeText(t, "1e9999")), 4_001_000, budget},
		{"constants for a long number", `{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"not":{"const":1}},`, 900), ",") + `]}`, decodeText(t, strings.Repeat("7", 8<<20)), 4_040_000, budget},
		{"references for a long number", `{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"$ref":"#/$defs/a"},`, 900), ",") + `],"$defs":{"a":true}}`, decodeText(t, strings.Repeat("7", 8<<20)), 4_040_000, budget},
		{"a large exponent", `{"minimum":0}`, decodeText(t, "1e999999999"), 100, "the number has more than 1000 digits"},
	} {
		count++
		t.Run(tt.name, func(t *testing.T) {
			s := compileText(t, tt.schema)
			e := &evaluation{ctx: t.Context(), schema: s, left: maxSteps}
			err := s.runEvaluation(e, tt.value)
			if used := maxSteps - e.left; used > tt.steps {
				t.Errorf("%d steps, want at most %d", used, tt.steps)
			} else {
				ended++
			}
			text := errorText(err)
			if (tt.want == "") != (text == "") || !strings.HasPrefix(text, tt.want) {
				t.Errorf("error = %.200s\nwant %s", text, tt.want)
			}
			if strings.Count(text, ";") > maxProblems || len(text) > (maxProblems+1)*2*maxShown {
				t.Errorf("error of %d bytes", len(text))
			}
		})
	}
	t.Logf("shown: %d schemas: %d end within their steps", count, ended)
}

// TestBombsOfLibrary is the control for TestBombsEndAtStepLimit: in the library each level doubles
// the cost.
func TestBombsOfLibrary(t *testing.T) {
	cost := func(levels int) float64 {
		s := compileText(t, refTwice(levels, `"allOf":[REF,REF]`, `{"required":["zzz"]}`))
		return testing.AllocsPerRun(1, func() { _ = s.root.Validate(map[string]any{}) })
	}
	if ten, twelve := cost(10), cost(12); twelve < 3*ten {
		t.Errorf("%.0f allocations with 10 levels, %.0f with 12", ten, twelve)
	} else {
		t.Logf("shown: control, the library: %.0f allocations with 10 levels, %.0f with 12", ten, twelve)
	}
}

// TestExpensiveSchemas: a schema that costs the library too much is rejected before, with the
// limit that it exceeds.
func TestExpensiveSchemas(t *testing.T) {
	nested := func(levels int) string {
		return strings.Repeat(`{"not":`, levels) + "true" + strings.Repeat("}", levels)
	}
	var references []string
	for i := range 95 {
		references = append(references, `{"$ref":"#/x`+strings.Repeat("/not", i)+`"}`)
	}
	part := strings.TrimSuffix(strings.Repeat("{},", 400), ",")
	for _, tt := range []struct{ name, schema, want string }{
		{"parts", `{"allOf":[` + strings.TrimSuffix(strings.Repeat("{},", 2000), ",") + `]}`, "the schema has 2002 objects and lists, which exceeds the limit of 2000"},
		{"nesting", nested(101), "the schema is nested deeper than the limit of 100"},
		{"references to the same part", `{"allOf":[` + strings.Join(references, ",") + `],"x":` + strings.Repeat(`{"not":`, 95) + `{"allOf":[` + part + `]}` + strings.Repeat("}", 95) + `}`, "the references of the schema name more than 20000 objects and lists"},
		{"references of a part with an $id", `{"allOf":[` + strings.ReplaceAll(strings.Join(references, ","), "#/x", "y#/z") + `],"$defs":{"x":{"$id":"y","z":{"allOf":[` + part + `]}}}}`, "the references of the schema name more than 20000 objects and lists"},
		{"patterns", `{"patternProperties":{"` + strings.Repeat(`\\pL{1000}`, 21) + `":{}}}`, "the patterns of the schema have more than 20000 instructions"},
		{"nested repetition", `{"pattern":"((((a{9}){9}){9}){9}){9}"}`, ""}, // ECMAScript's: it forbids nothing
		{"an exponent", `{"multipleOf":1e1000000000}`, "the number 1e1000000000 has more than 1000 digits, or an exponent of more than 10000"},
		{"digits", `{"minimum":` + strings.Repeat("7", 1001) + `}`, "the number " + strings.Repeat("7", 60) + " has more than 1000 digits, or an exponent of more than 10000"},
		{"a remote reference", `{"$ref":"http://127.0.0.1:1/schema"}`, "reference to http://127.0.0.1:1/schema: references must stay within the schema"},
		{"a remote draft", `{"$schema":"http://127.0.0.1:1/draft"}`, ""}, // read as 2020-12
		{"a draft as reference", `{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, ""},
		{"just as deep", nested(97), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			schema := decodeText(t, tt.schema).(map[string]any)
			if _, err := Compile(Normalize(schema)); tt.want == "" && err != nil || !strings.HasSuffix(errorText(err), tt.want) {
				t.Errorf("Compile: %v\nwant %s", err, tt.want)
			}
			if repaired, ignored := Repair(schema); tt.want != "" && (len(ignored) > 0 || len(repaired) != len(schema)) {
				t.Errorf("Repair ignores %s", ignored)
			}
		})
	}
}

// TestValidateEnds: a validation ends with its context.
func TestValidateEnds(t *testing.T) {
	s := compileText(t, `{"items":{"not":{"required":[`+quoteNames("r", 3000)+`]}}}`)
	cause := errors.New("the turn ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	e := &evaluation{ctx: ctx, schema: s, left: maxSteps}
	if err := s.runEvaluation(e, repeatItem(250_000, map[string]any{})); !errors.Is(err, cause) || maxSteps-e.left > 10_000 {
		t.Errorf("Validate = %v after %d steps", err, maxSteps-e.left)
	}
}

// TestNestedValidation: a validation opens a limited number of schemas, because each takes up part
// of the stack.
func TestNestedValidation(t *testing.T) {
	var chain strings.Builder
	for i := range 300 {
		fmt.Fprintf(&chain, `"c%d":{"$ref":"#/$defs/c%d"},`, i, i+1)
	}
	s := compileText(t, `{"$ref":"#/$defs/c0","$defs":{`+chain.String()+`"c300":{"properties":{"x":{"$ref":"#"}}}}}`)
	const want = "checking the value against its schema exceeds the limit of 50000 nested schemas"
	if err := s.Validate(t.Context(), nestObject(9000)); errorText(err) != want {
		t.Errorf("Validate = %v", err)
	}
}

func compileText(t *testing.T, schema string) *Schema {
	t.Helper()
	s, err := Compile(Normalize(decodeText(t, schema).(map[string]any)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func deepList(levels int) any {
	v := any([]any{})
	for range levels {
		v = []any{v}
	}
	return v
}

func distinctItems(n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = int64(i)
	}
	return list
}

func manyNames(n int) map[string]any {
	m := make(map[string]any, n)
	for i := range n {
		m[fmt.Sprint("n", i)] = nil
	}
	return m
}
