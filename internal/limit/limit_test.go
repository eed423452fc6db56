package limit_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"agenthost/internal/limit"
)

// JSON has one value for each separator outside strings, whatever its strings contain, and a
// decoded value has as many as its text.
func TestMeasureCountsSeparators(t *testing.T) {
	for _, tt := range []struct {
		text          string
		values, depth int
	}{
		{`1`, 0, 0},
		{`"a,[{:"`, 0, 0},
		{`"\",["`, 0, 0},
		{`"\\",[`, 2, 1},
		{`[]`, 1, 1},
		{`[1,2,3]`, 3, 1},
		{`{"a":1}`, 2, 1},
		{`{"a":1,"b":[{},{}]}`, 8, 3},
		{`[[[[]]],[]]`, 6, 4},
	} {
		values, depth := limit.Measure([]byte(tt.text))
		if values != tt.values || depth != tt.depth {
			t.Errorf("Measure(%s) = %d, %d, want %d, %d", tt.text, values, depth, tt.values, tt.depth)
		}
		var v any
		if json.Unmarshal([]byte(tt.text), &v) != nil {
			continue
		}
		if n := limit.CountValues(v, 100); n != tt.values {
			t.Errorf("CountValues(%s) = %d, want %d", tt.text, n, tt.values)
		}
	}
}

// An input at its limits is read; one byte, value or level more is an error that names the
// input and the limit.
func TestLimitsExceededByOne(t *testing.T) {
	in := limit.Input{Name: "thing", Bytes: 20, Values: 5, Depth: 3}
	for _, tt := range []struct{ text, want string }{
		{strings.Repeat("a", 20), ""},
		{strings.Repeat("a", 21), "thing exceeds the limit of 20 bytes"},
		{`[0,0,0,0,0]`, ""},
		{`[0,0,0,0,0,0]`, "thing exceeds the limit of 5 values"},
		{`[[[]]]`, ""},
		{`[[[[]]]]`, "thing exceeds the nesting limit of 3"},
	} {
		text, err := in.ReadAll(strings.NewReader(tt.text))
		if got := errorText(err); got != tt.want || err == nil && string(text) != tt.text {
			t.Errorf("ReadAll(%s) = %q, %q, want error %q", tt.text, text, got, tt.want)
		}
	}
}

// The texts in one input count together: small chunks do not pass where one large text fails.
func TestMeterCountsTextsTogether(t *testing.T) {
	m := limit.Meter{Input: limit.Input{Name: "thing", Values: 5, Depth: 3}}
	if err := m.AddJSON([]byte(`[0,0,0]`)); err != nil {
		t.Fatal(err)
	}
	if err := m.AddJSON([]byte(`[0,0]`)); err != nil {
		t.Fatal(err)
	}
	if got := errorText(m.AddJSON([]byte(`[]`))); got != "thing exceeds the limit of 5 values" {
		t.Errorf("got %q", got)
	}
}

// A reader stops one byte after the limit: it does not read an endless input to its end.
func TestReaderStops(t *testing.T) {
	endless := &countingReader{}
	_, err := io.ReadAll(limit.Input{Name: "thing", Bytes: 1000}.NewReader(endless))
	if _, ok := errors.AsType[*limit.Error](err); !ok || endless.read != 1001 {
		t.Errorf("read %d bytes, error %v", endless.read, err)
	}
}

type countingReader struct{ read int }

func (r *countingReader) Read(p []byte) (int, error) {
	r.read += len(p)
	return len(p), nil
}

// Counting stops soon after the limit, however large the value is.
func TestCountStops(t *testing.T) {
	deep := []any{}
	for range 20 {
		deep = []any{deep, deep} // 2^20 lists
	}
	if n := limit.CountValues(deep, 100); n > 200 {
		t.Errorf("counted %d values with a limit of 100", n)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
