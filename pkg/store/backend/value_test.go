package backend

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/codec"
	"agenthost/pkg/session"
)

func TestEncodeValue(t *testing.T) {
	tests := []struct {
		value any
		want  string
	}{
		{int64(5), "5"},
		{5.0, "5.0"},
		{-0.5, "-0.5"},
		{1e21, "1e+21"},
		{json.Number("18446744073709551616"), "18446744073709551616"},
		{"a", `"a"`},
		{true, "true"},
		{[]any{}, "[]"},
		{map[string]any{"b": nil, "a": []any{int64(1), 2.0}}, `{"a":[1,2.0],"b":null}`},
	}
	for _, tt := range tests {
		got, err := EncodeValue(tt.value)
		if err != nil || got != tt.want {
			t.Errorf("encodeValue(%v) = %s, %v, want %s", tt.value, got, err, tt.want)
		}
		back, err := DecodeValue([]byte(got))
		if err != nil || !cmp.Equal(back, tt.value) {
			t.Errorf("decodeValue(%s) = %#v, %v, want %#v", got, back, err, tt.value)
		}
	}
}

func TestDecodeValueErrors(t *testing.T) {
	for _, text := range []string{"", "{", `"`, "1,", "nul"} {
		if v, err := DecodeValue([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), "reading a state value: ") {
			t.Errorf("decodeValue(%s) = %#v, %v", text, v, err)
		}
	}
}

// Every JSON value survives storage unchanged.
func FuzzValue(f *testing.F) {
	for _, seed := range []string{`1`, `1.0`, `"a\n\u2028"`, `[1,{"a":null}]`, `1e400`, `9007199254740993`, `"\ud800"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := session.DecodeMap([]byte(`{"v":` + text + `}`))
		if err != nil {
			t.Skip()
		}
		want, err := codec.CanonicalizeState(m)
		if err != nil {
			t.Skip()
		}
		stored, err := EncodeValue(want["v"])
		if err != nil {
			t.Fatalf("encodeValue(%#v) = %v", want["v"], err)
		}
		got, err := DecodeValue([]byte(stored))
		if err != nil {
			t.Fatalf("decodeValue(%s) = %v", stored, err)
		}
		if d := cmp.Diff(want["v"], got); d != "" {
			t.Errorf("%s through %s (-want +got):\n%s", text, stored, d)
		}
	})
}
