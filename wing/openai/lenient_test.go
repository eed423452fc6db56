package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"agenthost/internal/modelapi"
)

// The chunks for a name are its parts, or each is the whole name so far.
func TestJoinNameChunks(t *testing.T) {
	for _, tt := range []struct{ chunks, want string }{
		{"", ""},
		{"find", "find"},
		{"find find find", "find"},
		{"get_ weather", "get_weather"},
		{"get_ weather get_weather", "get_weather"},
		{"get get_wea get_weather", "get_weather"},
		{"a a b", "aab"},
		{"see me", "seeme"},
	} {
		if got := modelapi.JoinNameChunks(strings.Fields(tt.chunks)); got != tt.want {
			t.Errorf("joinNameChunks(%s) = %q, want %q", tt.chunks, got, tt.want)
		}
	}
}

// The chunks for arguments are the parts of one object, or each is the whole object so far.
func TestJoinArgumentChunks(t *testing.T) {
	for _, tt := range []struct{ chunks, want string }{
		{``, ``},
		{`{}`, `{}`},
		{`{"a": 1}`, `{"a":1}`},
		{`{"a": {} }`, `{"a":{}}`},
		{`{"a": 1} {"a":1}`, `{"a":1}`},
		{`{"a": 1} {"a":1} {"a":1}`, `{"a":1}`},
		{`{"a": 1} {"b":2}`, `{"b":2}`},
		{`{} {} {}`, `{}`},
		{`{" {"a": {"a":1}`, `{"a":1}`},
		{`{} {"a": 1}`, `{"a":1}`},
		{`{"a": {"a":`, `{"a":{"a":`},
		{`{"a": 1} x`, `{"a":1}x`},
	} {
		if got := modelapi.JoinArgumentChunks(strings.Fields(tt.chunks)); got != tt.want {
			t.Errorf("joinArgumentChunks(%s) = %s, want %s", tt.chunks, got, tt.want)
		}
	}
}

// IDs and indexes may be numbers or texts, arguments JSON or objects; other types are errors.
func TestLooseCall(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"index": 1.0, "id": 7, "function": {"name": "f", "arguments": {"a": 9007199254740993}}}`, `{"index":1,"id":"7","function":{"name":"f","arguments":"{\"a\": 9007199254740993}"}}`},
		{`{"index": "2", "id": null, "function": {"name": "f", "arguments": "{}"}}`, `{"index":2,"function":{"name":"f","arguments":"{}"}}`},
		{`{"index": null, "function": {"name": null, "arguments": null}}`, `{"function":{"arguments":""}}`},
		{`{"id": {}}`, `error`},
		{`{"index": []}`, `error`},
		{`{"index": "x"}`, `error`},
	} {
		var call chatCall
		got := "error"
		if json.Unmarshal([]byte(tt.in), &call) == nil {
			raw, err := json.Marshal(&call)
			if err != nil {
				t.Fatal(err)
			}
			got = string(raw)
		}
		if got != tt.want {
			t.Errorf("%s = %s, want %s", tt.in, got, tt.want)
		}
	}
}

// Chunks in any form cause no panic, and JSON that is whole stays as it is.
func FuzzJoinArgumentChunks(f *testing.F) {
	f.Add(`{"a" :1}`)
	f.Add(`{} {"a":1} {"a":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		chunks := strings.Fields(text)
		modelapi.JoinNameChunks(chunks)
		if whole := strings.Join(chunks, ""); modelapi.IsObject(whole) && modelapi.JoinArgumentChunks(chunks) != whole {
			t.Errorf("joinArgumentChunks(%q) = %s, want %s", chunks, modelapi.JoinArgumentChunks(chunks), whole)
		}
	})
}
