package declare

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/genai"
)

// TestSchemasForbidNoMore: a call is made unless JSON Schema 2020-12 forbids its arguments, also
// with keywords from older drafts, and with overlapping oneOf branches.
func TestSchemasForbidNoMore(t *testing.T) {
	const who = `{"oneOf":[{"type":"object","properties":{"email":{"type":"string"}}},{"type":"object","properties":{"id":{"type":"string"}}}]}`
	for _, tt := range []struct{ name, schema, args, wrong string }{
		{"overlapping branches", `{"properties":{"who":` + who + `}}`, `{"who":{"email":"a@b.c"}}`, `{"who":7}`},
		{"number and integer", `{"properties":{"n":{"oneOf":[{"type":"integer"},{"type":"number"}]}}}`, `{"n":5}`, `{"n":"x"}`},
		{"oneOf with anyOf", `{"properties":{"n":{"oneOf":[{"type":"integer"},{"type":"number"}],"anyOf":[{"minimum":3},{"minimum":4}]}}}`, `{"n":5}`, `{"n":2}`},
		{"oneOf at the root", `{"type":"object","oneOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"b":{"type":"string"}}}]}`, `{"a":"x","c":1}`, `{"a":1,"b":1}`},
		{"oneOf by reference", `{"properties":{"who":{"$ref":"#/$defs/who"}},"$defs":{"who":` + who + `}}`, `{"who":{"id":"x"}}`, `{"who":[]}`},
		{"oneOf below not is exact", `{"properties":{"n":{"not":{"oneOf":[{"type":"integer"},{"type":"number"}]}}}}`, `{"n":5}`, `{"n":5.5}`},
		{"5.0 is an integer", `{"properties":{"n":{"type":"integer"}}}`, `{"n":5.0}`, `{"n":5.5}`},
		{"5.0 in draft 4", `{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"n":{"type":"integer"}}}`, `{"n":5.0}`, `{"n":5.5}`},
		{"bounds of draft 4", `{"properties":{"n":{"type":"number","minimum":0,"exclusiveMinimum":true,"maximum":9,"exclusiveMaximum":false}}}`, `{"n":9}`, `{"n":0}`},
		{"declared draft 4", `{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"n":{"minimum":0,"exclusiveMinimum":true}}}`, `{"n":1}`, `{"n":0}`},
		{"required of draft 3", `{"properties":{"n":{"type":"number","required":true}}}`, `{}`, `{"n":""}`},
		{"tuple of draft 7", `{"properties":{"p":{"type":"array","items":[{"type":"string"}],"additionalItems":{"type":"number"}}}}`, `{"p":["x",1]}`, `{"p":[1]}`},
		{"nullable", `{"properties":{"s":{"type":"string","nullable":true,"enum":["a"]}},"required":["s"]}`, `{"s":null}`, `{"s":1}`},
		{"nullable reference", `{"properties":{"s":{"$ref":"#/$defs/s","nullable":true}},"required":["s"],"$defs":{"s":{"type":"string"}}}`, `{"s":null}`, `{"s":1}`},
		{"properties named as keywords", `{"properties":{"nullable":{"type":"boolean"},"$schema":{"type":"string"},"required":{"type":"boolean"}}}`, `{"nullable":true,"$schema":"x","required":true}`, `{"nullable":1}`},
		{"unknown draft", `{"$schema":"https://example.com/our-draft","properties":{"n":{"$schema":"x:y","type":"integer"}}}`, `{"n":1}`, `{"n":"x"}`},
		{"unknown keywords", `{"x-order":7,"discriminator":{"propertyName":"t"},"properties":{"n":{"type":"integer","x-unit":"m","example":true}}}`, `{"n":1}`, `{"n":"x"}`},
		{"format in draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"s":{"type":"string","format":"email"}}}`, `{"s":"no address"}`, `{"s":1}`},
		{"ECMAScript pattern", `{"properties":{"s":{"type":"string","pattern":"^(?!x)"}}}`, `{"s":"x"}`, `{"s":1}`},
		{"ECMAScript pattern in draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"s":{"type":"string","pattern":"^(?!x)"}}}`, `{"s":"x"}`, `{"s":1}`},
		{"ECMAScript pattern below not", `{"properties":{"s":{"type":"string","not":{"pattern":"(?<=x)"}}}}`, `{"s":"y"}`, `{"s":1}`},
		{"ECMAScript pattern of a name", `{"patternProperties":{"^(?!x)":{"type":"string"}},"properties":{"s":{"type":"string"}},"additionalProperties":false}`, `{"z":"y"}`, `{"s":1}`},
		{"default of another type", `{"properties":{"s":{"type":"string","default":null},"n":{"type":"integer"}}}`, `{"n":1}`, `{"n":"x"}`},
		{"default against a keyword", `{"properties":{"a":{"default":1},"b":{}},"maxProperties":1,"not":{"required":["a","b"]}}`, `{"b":1}`, `{"a":1,"b":1}`},
		{"null for an optional enum", `{"properties":{"s":{"enum":["a","b"]}}}`, `{"s":null}`, `{"s":"c"}`},
		{"no type", `{"properties":{}}`, `{"a":1}`, ""},
		{"arguments that are not named", `{"type":"object"}`, `{"sql":"select 1"}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			params, err := Params(&genai.FunctionDeclaration{Name: "it", ParametersJsonSchema: decodeText(t, tt.schema)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := params.Check(t.Context(), decodeText(t, tt.args).(map[string]any)); err != nil {
				t.Errorf("%s is forbidden: %v", tt.args, err)
			}
			if tt.wrong == "" {
				return
			}
			if got, err := params.Check(t.Context(), decodeText(t, tt.wrong).(map[string]any)); err == nil {
				t.Errorf("%s is accepted: %v", tt.wrong, got)
			}
		})
	}
}

func decodeText(t testing.TB, text string) any {
	t.Helper()
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
