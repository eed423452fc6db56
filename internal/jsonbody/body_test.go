package jsonbody

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// appendFields finds the same fields as encoding/json, whatever the white space and
// escapes.
func FuzzAppendFields(f *testing.F) {
	for _, text := range []string{
		`{}`, ` { } `, `{"a":1}`, "\n{ \"a\" :\t1 , \"b\":null}\r\n", `{"a":"}","b":[{"c":"]"},[]],"d":{"e":{}}}`,
		`{"a":"\"","b":"\\\\","\u0063":true}`, `{"a":1,"b":2,"a":3}`, `{"":-1.5e3}`, "{\"\xff\":\"\xff\"}", `null`, `[1]`, `{"a"}`, ``,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var want map[string]json.RawMessage
		if json.Unmarshal(text, &want) != nil || want == nil {
			return
		}
		got := map[string]json.RawMessage{}
		for _, field := range appendFields(nil, text) {
			got[string(field.Key)] = field.Value
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("appendFields(%q) (-want +got):\n%s", text, diff)
		}
	})
}

// Strings are decoded as by encoding/json, including the replacement of invalid UTF-8.
func TestReadString(t *testing.T) {
	b := &Body{}
	b.parseObject([]byte("{\"plain\":\"a b\",\"escaped\":\"a\\nb\",\"broken\":\"a\xffb\",\"snake_case\":\"s\",\"bothWays\":\"camel\",\"both_ways\":\"snake\",\"null\":null}"))
	for name, want := range map[string]string{
		"plain": "a b", "escaped": "a\nb", "broken": "a\ufffdb", "snakeCase": "s", "bothWays": "camel", "null": "", "absent": "",
	} {
		if got := b.ReadString(name); got != want {
			t.Errorf("ReadString(%s) = %q, want %q", name, got, want)
		}
	}
	if err := b.Err(); err != nil {
		t.Error(err)
	}
}

func TestIsSnakeCase(t *testing.T) {
	tests := []struct {
		key, name string
		want      bool
	}{
		{"app_name", "appName", true},
		{"function_call_event_id", "functionCallEventId", true},
		{"appName", "appName", false},
		{"app_nam", "appName", false},
		{"app_names", "appName", false},
		{"app", "appName", false},
		{"app_", "appName", false},
		{"parts", "parts", true},
		{"", "parts", false},
	}
	for _, tt := range tests {
		if got := IsSnakeCase([]byte(tt.key), tt.name); got != tt.want {
			t.Errorf("IsSnakeCase(%q, %q) = %v", tt.key, tt.name, got)
		}
	}
}
