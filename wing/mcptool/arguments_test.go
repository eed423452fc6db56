package mcptool

import (
	"encoding/json"
	"testing"
)

// TestArgumentsReachServerUnchanged: the server gets the arguments that its schema does not forbid,
// as the model gave them: also those that it does not name and those in overlapping branches, and
// no defaults.
func TestArgumentsReachServerUnchanged(t *testing.T) {
	for _, tt := range []struct{ name, schema, args string }{
		{"only an object", `{"type":"object"}`, `{"sql":"select 1"}`},
		{"next to named ones", `{"type":"object","properties":{"a":{"type":"string"}}}`, `{"a":"x","sql":"select 1"}`},
		{"overlapping branches", `{"type":"object","properties":{"who":{"oneOf":[{"type":"object","properties":{"email":{"type":"string"}}},{"type":"object","properties":{"id":{"type":"string"}}}]}}}`, `{"who":{"email":"a@b.c"}}`},
		{"defaults", `{"type":"object","properties":{"a":{"type":"integer","default":1},"b":{"type":"string","default":null}}}`, `{}`},
		{"no schema", `null`, `{"a":1}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serveRaw(t)
			s.answer("tools/list", `{"tools":[{"name":"t","inputSchema":`+tt.schema+`}]}`)
			var sent struct{ Arguments json.RawMessage }
			s.answers["tools/call"] = func(id, params json.RawMessage) string {
				_ = json.Unmarshal(params, &sent)
				return `{"jsonrpc":"2.0","id":` + string(id) + `,"result":{"content":[]}}`
			}
			var args map[string]any
			if err := json.Unmarshal([]byte(tt.args), &args); err != nil {
				t.Fatal(err)
			}
			if _, err := callOf(t, buildSet(t, "mcp", "url: "+s.URL), "t", args); err != nil {
				t.Fatal(err)
			}
			if got := string(sent.Arguments); got != tt.args {
				t.Errorf("arguments = %s, want %s", got, tt.args)
			}
		})
	}
}
