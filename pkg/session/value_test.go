package session

import (
	"encoding/json"
	"math"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNormalize(t *testing.T) {
	type (
		word   string
		flag   bool
		angle  float64
		digest []byte
	)
	type point struct {
		X int     `json:"x"`
		Y float64 `json:"y,omitempty"`
	}
	seven := 7
	tests := []struct {
		name string
		in   any
		want any
	}{
		{"nil", nil, nil},
		{"string", "a", "a"},
		{"bool", true, true},
		{"int", 1, int64(1)},
		{"int8", int8(-1), int64(-1)},
		{"int32", int32(1), int64(1)},
		{"int64", int64(1), int64(1)},
		{"uint", uint(1), int64(1)},
		{"uint64", uint64(math.MaxUint64), json.Number("18446744073709551615")},
		{"float32", float32(0.1), 0.1},
		{"whole float32", float32(3), 3.0},
		{"float64", 3.0, 3.0},
		{"number", json.Number("9007199254740993"), int64(9007199254740993)},
		{"float number", json.Number("1e3"), 1000.0},
		{"too large a number", json.Number("1e400"), json.Number("1e400")},
		{"named string", word("a"), "a"},
		{"duration", time.Second, int64(1_000_000_000)},
		{"pointer", &seven, int64(7)},
		{"nil pointer", (*int)(nil), nil},
		{"bytes", []byte{0xfb, 0xff}, "-_8="},
		{"raw", json.RawMessage(`{"a":[1,2.0,null]}`), map[string]any{"a": []any{int64(1), 2.0, nil}}},
		{"map", map[string]any{"a": 1, "b": nil}, map[string]any{"a": int64(1), "b": nil}},
		{"typed map", map[string]float64{"a": 3}, map[string]any{"a": 3.0}},
		{"map by a named string", map[word]word{"a": "b"}, map[string]any{"a": "b"}},
		{"map by number", map[int]string{1: "b"}, map[string]any{"1": "b"}},
		{"nil map", map[string]int(nil), map[string]any{}},
		{"list", []any{1, "a"}, []any{int64(1), "a"}},
		{"typed list", []float64{3}, []any{3.0}},
		{"array", [2]string{"a", "b"}, []any{"a", "b"}},
		{"nil list", []string(nil), []any{}},
		{"struct", point{X: 1, Y: 0.5}, map[string]any{"x": int64(1), "y": 0.5}},
		{"list of structs", []*point{{X: 1}, nil}, []any{map[string]any{"x": int64(1)}, nil}},
		{"time", time.Unix(0, 0).UTC(), "1970-01-01T00:00:00Z"},
		{"text of its own", netip.MustParseAddr("::1"), "::1"},
		{"big integer", new(big.Int).Lsh(big.NewInt(1), 64), json.Number("18446744073709551616")},
		{"named bool", flag(true), true},
		{"named float", angle(1), 1.0},
		{"named bytes", digest{0xfb, 0xff}, "-_8="},
		{"struct with HTML", struct{ A string }{"<a>"}, map[string]any{"A": "<a>"}},
		{"zero struct", point{}, map[string]any{"x": int64(0)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Normalize(tt.in)); diff != "" {
				t.Errorf("Normalize (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNormalizeUnsupportedTypes(t *testing.T) {
	c := make(chan int)
	if got := Normalize(c); got != any(c) {
		t.Errorf("Normalize(chan) = %v, want the channel", got)
	}
	if got, ok := Normalize(map[any]any{1: 2}).(map[any]any); !ok || len(got) != 1 {
		t.Errorf("Normalize(map[any]any) = %v, want it unchanged", got)
	}
	if got, ok := Normalize(json.RawMessage("{")).(json.RawMessage); !ok || string(got) != "{" {
		t.Errorf("Normalize of broken JSON = %v, want it unchanged", got)
	}
	ring := []any{nil}
	ring[0] = ring
	if _, ok := Normalize(ring).([]any); !ok {
		t.Error("Normalize of a list that holds itself is not a list")
	}
}

func TestNormalizeDeepCopy(t *testing.T) {
	inner := map[string]any{"a": "old"}
	list := []any{inner}
	got := Normalize(map[string]any{"list": list}).(map[string]any)
	inner["a"], list[0] = "new", nil
	want := map[string]any{"list": []any{map[string]any{"a": "old"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after a change of the original (-want +got):\n%s", diff)
	}
}

func TestDecodeMap(t *testing.T) {
	tests := []struct {
		in   string
		want map[string]any
	}{
		{`null`, nil},
		{`{}`, map[string]any{}},
		{` {"a":{},"b":[]} `, map[string]any{"a": map[string]any{}, "b": []any{}}},
		{`{"n":null,"t":true,"f":false}`, map[string]any{"n": nil, "t": true, "f": false}},
		{`{"i":9007199254740993,"f":1.0,"x":99999999999999999999}`, map[string]any{"i": int64(9007199254740993), "f": 1.0, "x": json.Number("99999999999999999999")}},
		{`{"snake_key":1,"snakeKey":2}`, map[string]any{"snake_key": int64(1), "snakeKey": int64(2)}},
		{`{"a":1,"a":2}`, map[string]any{"a": int64(2)}},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			got, err := DecodeMap([]byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("DecodeMap (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDecodeValue: a value of any kind is decoded as in an object.
func TestDecodeValue(t *testing.T) {
	for in, want := range map[string]any{
		`null`: nil, ` true `: true, `"a"`: "a", `1`: int64(1), `1.0`: 1.0,
		`[1,{"a":[]}]`: []any{int64(1), map[string]any{"a": []any{}}},
	} {
		got, err := DecodeValue([]byte(in))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("DecodeValue(%s): %v (-want +got):\n%s", in, err, diff)
		}
	}
	if _, err := DecodeValue([]byte(`1 2`)); err == nil || err.Error() != "expected the end of the text, got a number" {
		t.Errorf("DecodeValue of two: %v", err)
	}
}

func TestDecodeMapErrors(t *testing.T) {
	for in, want := range map[string]string{
		``:               "stateDelta: expected an object, got the end of the text",
		`[]`:             "stateDelta: expected an object, got a list",
		`null 1`:         "stateDelta: expected the end of the text, got a number",
		`{"a":[1,}`:      "stateDelta.a[1]: expected a value, got '}' at byte 8",
		`{"a":NaN}`:      "stateDelta.a: expected a value, got 'N' at byte 5",
		`{"a":{"b":+1}}`: "stateDelta.a.b: expected a value, got '+' at byte 10",
	} {
		t.Run(in, func(t *testing.T) {
			if _, err := DecodeMap([]byte(in), "stateDelta"); err == nil || err.Error() != want {
				t.Errorf("DecodeMap(%s): %v, want %s", in, err, want)
			}
		})
	}
}

func TestDecodeMapText(t *testing.T) {
	got, err := DecodeMap([]byte("{\"a\":\"\xff\xfe\",\"b\xff\":\"\\n\xff\"}"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"a": "\ufffd", "b\ufffd": "\n\ufffd"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("DecodeMap of bytes that are not UTF-8 (-want +got):\n%s", diff)
	}
	e := &Event{ID: "a\xffb"}
	if got := appendEvent(t, e); !strings.Contains(got, "\"a\ufffdb\"") {
		t.Errorf("AppendEvent = %s, want U+FFFD in it", got)
	}
}
