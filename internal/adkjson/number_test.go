package adkjson

import (
	"math/big"
	"strings"
	"testing"
)

// A number is the same number after decoding and encoding, and an integer is the same
// text.
func FuzzNumber(f *testing.F) {
	for _, text := range []string{"5", "-0", "9007199254740993", "18446744073709551615", "0.1", "1e400", "1e-400", "123456789012345678.25", "0.10000000000000001", "0e1", "2.5E-3"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := &Decoder{Buf: []byte(text)}
		v := r.ReadValue()
		if _, isText := v.(string); r.CheckEnd() != nil || isText {
			return
		}
		w := &Encoder{}
		w.WriteValue(v)
		same := string(w.Buf) == text
		if before, ok := new(big.Rat).SetString(strings.TrimSpace(text)); ok && !same && w.Err == nil {
			after, ok := new(big.Rat).SetString(string(w.Buf))
			same = ok && before.Cmp(after) == 0
		} else if !ok {
			same = true // no number, or an exponent that only its text can hold
		}
		if !same {
			t.Errorf("%s becomes %s (%#v)", text, w.Buf, v)
		}
	})
}
