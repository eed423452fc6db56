package adkjson

import (
	"bytes"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

type order struct {
	OrderID string         `json:"orderId"`
	Lines   []*line        `json:"lines"`
	Placed  time.Time      `json:"placed"`
	Wait    time.Duration  `json:"wait"`
	Image   []byte         `json:"image"`
	Notes   map[string]any `json:"notes"`
	Any     any            `json:"any"`
}

type line struct {
	Price float64 `json:"price"`
}

func TestRoundTrip(t *testing.T) {
	const in = `{"order_id":"a<b","lines":[{"price":2.0}],"wait":"1.5s","image":"-_8","notes":{"n":1,"f":1.0},"any":[2,"b"]}`
	r := &Decoder{Buf: []byte(in)}
	var o order
	r.ReadInto(&o)
	if err := r.CheckEnd(); err != nil {
		t.Fatal(err)
	}
	want := order{
		OrderID: "a<b", Lines: []*line{{2}}, Wait: 1500 * time.Millisecond, Image: []byte{0xfb, 0xff},
		Notes: map[string]any{"n": int64(1), "f": 1.0},
		Any:   []any{int64(2), "b"},
	}
	if !reflect.DeepEqual(o, want) {
		t.Errorf("ReadInto = %+v, want %+v", o, want)
	}
	w := &Encoder{}
	w.WriteTyped(reflect.ValueOf(&o))
	const out = `{"orderId":"a<b","lines":[{"price":2.0}],"wait":"1.5s","image":"-_8=","notes":{"f":1.0,"n":1},"any":[2,"b"]}`
	if string(w.Buf) != out || w.Err != nil {
		t.Errorf("WriteTyped = %s, %v, want %s", w.Buf, w.Err, out)
	}
}

func TestStrictDecoder(t *testing.T) {
	r := &Decoder{Buf: []byte(`{"lines":[{"prize":2}]}`), Strict: true, Suggest: func(_ string, known []string) string { return known[0] }}
	r.ReadInto(&order{})
	const want = `order.lines[0].prize: unknown key (did you mean "price"?)`
	if err := r.CheckEnd("order"); err == nil || err.Error() != want {
		t.Errorf("CheckEnd = %v, want %s", err, want)
	}
}

func TestHooksReplaceRules(t *testing.T) {
	w := &Encoder{WriteCustom: func(w *Encoder, p any) bool {
		l, ok := p.(*line)
		if ok {
			w.OpenBracket('{')
			w.WriteFloatField("cents", l.Price*100)
			w.CloseBracket('}')
		}
		return ok
	}}
	w.WriteTyped(reflect.ValueOf([]*line{{2}}))
	const text = `[{"cents":200.0}]`
	if string(w.Buf) != text || w.Err != nil {
		t.Errorf("WriteTyped = %s, %v, want %s", w.Buf, w.Err, text)
	}
	r := &Decoder{Buf: w.Buf, FindField: func(p any, name []byte) any {
		if l, ok := p.(*line); ok && string(name) == "cents" {
			return &l.Price
		}
		return nil
	}}
	var lines []*line
	r.ReadInto(&lines)
	if err := r.CheckEnd(); err != nil || len(lines) != 1 || lines[0].Price != 200 {
		t.Errorf("ReadInto = %v, %v", lines, err)
	}
}

// Snake case changes struct keys, not map keys.
func TestSnakeCase(t *testing.T) {
	w := &Encoder{SnakeCase: true}
	w.WriteTyped(reflect.ValueOf(&order{OrderID: "a", Notes: map[string]any{"aB": int64(1)}}))
	const want = `{"order_id":"a","notes":{"aB":1}}`
	if string(w.Buf) != want || w.Err != nil {
		t.Errorf("WriteTyped = %s, %v, want %s", w.Buf, w.Err, want)
	}
}

// A type with its own rules is read by the hook, also inside other types.
func TestReadCustom(t *testing.T) {
	r := &Decoder{Buf: []byte(`{"lines":["2.5",null]}`), ReadCustom: func(r *Decoder, p any) bool {
		l, ok := p.(*line)
		if ok {
			text := ""
			r.ReadInto(&text)
			price, err := strconv.ParseFloat(text, 64)
			if err != nil {
				r.SetError("expected a price, got %q", text)
			}
			l.Price = price
		}
		return ok
	}}
	var o order
	r.ReadInto(&o)
	if err := r.CheckEnd(); err == nil || err.Error() != "lines[1]: expected a string, got null" {
		t.Errorf("CheckEnd = %v", err)
	}
	if len(o.Lines) == 0 || o.Lines[0].Price != 2.5 {
		t.Errorf("ReadInto = %v, want a price of 2.5", o.Lines)
	}
}

func TestErrorPath(t *testing.T) {
	w := &Encoder{}
	w.OpenBracket('{')
	w.WriteMapField("state", map[string]any{"bad": []any{make(chan int)}})
	if w.Err == nil || !strings.HasPrefix(w.Err.Error(), "state.bad[0]: ") {
		t.Errorf("Err = %v, want the path state.bad[0]", w.Err)
	}
}

// A path in a message is bounded, whatever the keys are.
func TestErrorPathBounded(t *testing.T) {
	path := make([]any, 1000)
	for i := range path {
		path[i] = strings.Repeat("k", 1000)
	}
	err := &Error{Path: path, Message: "unknown key"}
	if text := err.Error(); len(text) > 2100 || !strings.HasSuffix(text, "k…: unknown key") {
		t.Errorf("%d bytes: %.300s", len(text), text)
	}
}

// A string is plain unless it has a control character, a backslash or a byte outside ASCII, at any place.
func TestIsPlainASCII(t *testing.T) {
	for n := range 20 {
		for at := range n {
			for c := range 256 {
				s := bytes.Repeat([]byte("~"), n)
				s[at] = byte(c)
				want := c >= ' ' && c != '\\' && c < utf8.RuneSelf
				if got := isPlainASCII(s); got != want {
					t.Errorf("%q is plain: %t, want %t", s, got, want)
				}
			}
		}
	}
}
