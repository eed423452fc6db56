package jsonschema

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRepairDropsInvalidKeywords: keywords with invalid values, and members that are null, are left
// out of a service's schema; the others stay, and a valid schema is unchanged.
func TestRepairDropsInvalidKeywords(t *testing.T) {
	for _, tt := range []struct{ name, schema, want, ignored string }{
		{"valid", `{"type":"object","properties":{"a":{"default":null}}}`, `{"type":"object","properties":{"a":{"default":null}}}`, ""},
		{"null members", `{"type":"object","properties":null,"required":null}`, `{"type":"object"}`, "properties, required"},
		{"unknown type", `{"properties":{"a":{"type":"str","description":"kept"}}}`, `{"properties":{"a":{"description":"kept"}}}`, "properties.a.type"},
		{"in a list", `{"anyOf":[{"type":"str"}],"properties":{"a":{"minLength":1}}}`, `{"properties":{"a":{"minLength":1}}}`, "anyOf.0.type"},
		{"required text", `{"properties":{"a":{"type":"string"}},"required":"a"}`, `{"properties":{"a":{"type":"string"}}}`, "required"},
		{"two in one", `{"properties":{"a":{"minimum":"1","maximum":"2"}}}`, `{"properties":{"a":{}}}`, "properties.a.maximum, properties.a.minimum"},
		{"reference to a file", `{"$ref":"file:///x"}`, `{"$ref":"file:///x"}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			schema := decodeText(t, tt.schema).(map[string]any)
			got, ignored := Repair(schema)
			if diff := cmp.Diff(decodeText(t, tt.want), any(got)); diff != "" {
				t.Errorf("Repair (-want +got):\n%s", diff)
			}
			if text := strings.Join(ignored, ", "); text != tt.ignored {
				t.Errorf("ignored = %s, want %s", text, tt.ignored)
			}
			if raw, _ := json.Marshal(schema); !json.Valid(raw) || !cmp.Equal(decodeText(t, tt.schema), any(schema)) {
				t.Errorf("Repair changed its argument to %s", raw)
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
