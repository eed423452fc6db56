package number

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// Into any, numbers are decoded as encoding/json does, unless a float64 would round them;
// other types are as they are declared.
func TestDecodeKeepsDigits(t *testing.T) {
	type inner struct{ V any }
	type target struct {
		V       any
		List    []any
		Lists   [][]any
		Map     map[string]any
		Inners  map[string]inner
		Pointer *inner
		Array   [1]any
		Raw     json.RawMessage
		Number  json.Number
		Int     int64
		Time    time.Time
		//lint:ignore U1000 shows that unexported fields stay
		hidden any
	}
	const big = "9007199254740993"
	text := `{"V":[5,` + big + `],"List":[2.5,1e400],"Lists":[[` + big + `]],"Map":{"a":{"b":` + big + `}},"Inners":{"a":{"V":` + big + `}},
		"Pointer":{"V":5},"Array":[` + big + `],"Raw":1.0,"Number":1.50,"Int":` + big + `,"Time":"2026-01-02T03:04:05Z","hidden":1}`
	var got target
	if err := Decode([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	want := target{
		V: []any{5.0, json.Number(big)}, List: []any{2.5, json.Number("1e400")}, Lists: [][]any{{json.Number(big)}},
		Map: map[string]any{"a": map[string]any{"b": json.Number(big)}}, Inners: map[string]inner{"a": {json.Number(big)}},
		Pointer: &inner{5.0}, Array: [1]any{json.Number(big)}, Raw: json.RawMessage("1.0"), Number: "1.50", Int: 9007199254740993,
		Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v\nwant %#v", got, want)
	}
	if err := Decode([]byte(`{} {}`), &got); err == nil || err.Error() != "unexpected text after the JSON value" {
		t.Errorf("two values: %v", err)
	}
}
