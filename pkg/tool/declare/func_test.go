package declare_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/tooltest"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

type place struct {
	City string `json:"city" doc:"The town."`
}

type page struct {
	Limit *int `json:"limit"`
}

type search struct {
	page
	Words   []string         `json:"words" doc:"What to look for."`
	Near    place            `json:"near,omitzero"`
	Since   time.Time        `json:"since,omitempty"`
	Weights map[string]uint8 `json:"weights,omitempty"`
	Raw     json.RawMessage  `json:"raw,omitempty"`
	Blob    []byte           `json:"blob,omitempty"`
	Any     any              `json:"any,omitempty"`
	Exact   bool
	Score   float32 `json:",omitempty"`
	Hidden  string  `json:"-"`
	//lint:ignore U1000 shows that unexported fields are not parameters
	secret string
}

type object1 = map[string]any

func TestFuncDeclaration(t *testing.T) {
	tool, err := declare.Func("search", "Finds things.", func(context.Context, *tool.Call, search) (int, error) { return 0, nil })
	if err != nil {
		t.Fatal(err)
	}
	want := object1{
		"type": "object",
		"properties": object1{
			"limit": object1{"type": "integer"},
			"words": object1{"type": "array", "items": object1{"type": "string"}, "description": "What to look for."},
			"near": object1{
				"type": "object", "properties": object1{"city": object1{"type": "string", "description": "The town."}},
				"required": []any{"city"}, "additionalProperties": false,
			},
			"since":   object1{"type": "string", "format": "date-time"},
			"weights": object1{"type": "object", "additionalProperties": object1{"type": "integer", "minimum": 0}},
			"raw":     object1{},
			"blob":    object1{"type": "string", "contentEncoding": "base64"},
			"any":     object1{},
			"Exact":   object1{"type": "boolean"},
			"Score":   object1{"type": "number"},
		},
		"required":             []any{"words", "Exact"},
		"additionalProperties": false,
	}
	if diff := cmp.Diff(want, tool.Declaration().ParametersJsonSchema); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
}

func TestFuncArgs(t *testing.T) {
	var got search
	tool, err := declare.Func("search", "", func(_ context.Context, _ *tool.Call, in search) (any, error) {
		got = in
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	args := object1{
		"words": []any{"a"}, "Exact": true, "limit": 3.0, "near": object1{"city": "Porto"}, "since": "2026-01-02T03:04:05Z",
		"weights": object1{"a": int64(7)}, "blob": "aGk=",
	}
	res, err := tool.Run(t.Context(), tooltest.NewCall(args, nil))
	if err != nil || !cmp.Equal(res.Response, object1{"result": nil}) {
		t.Fatalf("Run = %v, %v", res, err)
	}
	three := 3
	want := search{
		page: page{Limit: &three}, Words: []string{"a"}, Exact: true, Near: place{City: "Porto"},
		Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Weights: map[string]uint8{"a": 7}, Blob: []byte("hi"),
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(search{})); diff != "" {
		t.Errorf("in (-want +got):\n%s", diff)
	}
}

// Numbers have all digits that their Go types can have. In any, they are what encoding/json
// decodes, unless that would round them.
func TestFuncNumbers(t *testing.T) {
	type numbers struct {
		Int   int64
		Uint  uint64
		Exact json.Number
		Small any
		Large any
		List  []any
	}
	var got numbers
	tool, err := declare.Func("count", "", func(_ context.Context, _ *tool.Call, in numbers) (numbers, error) {
		got = in
		return in, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const odd, tiny = 9007199254740993, json.Number("0.123456789012345678901234567890")
	res, err := tool.Run(t.Context(), tooltest.NewCall(object1{
		"Int": int64(odd), "Uint": json.Number("18446744073709551615"), "Exact": tiny,
		"Small": int64(5), "Large": int64(odd), "List": []any{0.1, json.Number("1e400")},
	}, nil))
	if err != nil {
		t.Fatal(err)
	}
	want := numbers{odd, math.MaxUint64, tiny, 5.0, json.Number("9007199254740993"), []any{0.1, json.Number("1e400")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("in (-want +got):\n%s", diff)
	}
	back := object1{
		"Int": int64(odd), "Uint": json.Number("18446744073709551615"), "Exact": tiny,
		"Small": int64(5), "Large": int64(odd), "List": []any{0.1, json.Number("1e400")},
	}
	if diff := cmp.Diff(back, res.Response); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
}

func TestFuncResult(t *testing.T) {
	type receipt struct {
		ID int64 `json:"id"`
	}
	tests := []struct {
		name string
		out  any
		want object1
	}{
		{"a struct", receipt{9007199254740993}, object1{"id": int64(9007199254740993)}},
		{"a map", map[string]int{"a": 1}, object1{"a": int64(1)}},
		{"a string", "x", object1{"result": "x"}},
		{"a number", 3, object1{"result": int64(3)}},
		{"a list", []int{1, 2}, object1{"result": []any{int64(1), int64(2)}}},
		{"a nil pointer", (*receipt)(nil), object1{"result": nil}},
		{"nothing", struct{}{}, object1{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tool, err := declare.Func("it", "", func(context.Context, *tool.Call, struct{}) (any, error) { return tt.out, nil })
			if err != nil {
				t.Fatal(err)
			}
			got, err := tool.Run(t.Context(), tooltest.NewCall(nil, nil))
			if err != nil {
				t.Fatalf("Run: %v", err)
			}
			if diff := cmp.Diff(tt.want, got.Response); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFuncFailures(t *testing.T) {
	const wrong = "Invoking `it()` failed as the following input parameters are wrong:\n"
	const retry = "\nYou could retry calling this tool with parameters that fit its declaration."
	type in struct {
		N    int8      `json:"n,omitempty"`
		When time.Time `json:"when,omitempty"`
	}
	tests := []struct {
		name string
		args object1
		out  any
		want string
	}{
		{"an unknown argument", object1{"m": int64(1)}, nil, wrong + "arguments: additional properties 'm' not allowed" + retry},
		{"a wrong type", object1{"n": "x"}, nil, wrong + "n: got string, want integer" + retry},
		{
			"out of range",
			object1{"n": int64(300)},
			nil,
			"it: decoding arguments: json: cannot unmarshal number 300 into Go struct field in.n of type int8",
		},
		{"no number", nil, math.NaN(), "it: encoding result: json: unsupported value: NaN"},
		{"no JSON", nil, make(chan int), "it: encoding result: json: unsupported type: chan int"},
		{"its own", nil, errors.New("out of stock"), "out of stock"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tool, err := declare.Func("it", "", func(context.Context, *tool.Call, in) (any, error) {
				err, _ := tt.out.(error)
				return tt.out, err
			})
			if err != nil {
				t.Fatal(err)
			}
			got, err := tool.Run(t.Context(), tooltest.NewCall(tt.args, nil))
			if diff := cmp.Diff(tt.want, tooltest.ErrorString(err)); diff != "" || got != nil {
				t.Errorf("Run = %v, error (-want +got):\n%s", got, diff)
			}
		})
	}
}

type chain struct{ Next *chain }

func TestFuncDeclarationErrors(t *testing.T) {
	tests := []struct{ name, got, want string }{
		{"no struct", declareError[int]("it"), "declaring tool it: parameters must be a struct, got int"},
		{"a time", declareError[time.Time]("it"), "declaring tool it: parameters must be a struct, got time.Time"},
		{"a name", declareError[struct{}]("a b"), `declaring tool a b: tool name "a b" must start with a letter or _, followed by letters, digits and _ . : -`},
		{"a channel", declareError[struct{ C chan int }]("it"), "declaring tool it: field C: chan int has no JSON Schema"},
		{"keys", declareError[struct{ M map[int]string }]("it"), "declaring tool it: field M: map[int]string has no JSON Schema: keys must be strings"},
		{"recursive", declareError[chain]("it"), "declaring tool it: field Next: declare_test.chain is recursive"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.got); diff != "" {
				t.Errorf("Func error (-want +got):\n%s", diff)
			}
		})
	}
}

func declareError[In any](name string) string {
	_, err := declare.Func(name, "", func(context.Context, *tool.Call, In) (any, error) { return nil, nil })
	return tooltest.ErrorString(err)
}
