package adkjson

import (
	"fmt"
	"testing"

	"google.golang.org/genai"
)

// Base64 is read in either alphabet, padded or not, with escapes. Escaped line breaks are skipped.
func TestDecodeBase64(t *testing.T) {
	for text, want := range map[string]string{
		`"+/8="`: "[251 255]", `"-_8"`: "[251 255]", `"\u002b\/8="`: "[251 255]", `""`: "[]", `"AAE"`: "[0 1]",
		`"AA*="`: "data: expected base64", `"+_8="`: "data: expected base64", `"AA\nE"`: "[0 1]",
		"\"AA\nE\"": "data: control character in a string at byte 11", `"AAE`: "data: unterminated string", `7`: "data: expected a string, got a number",
	} {
		d := &Decoder{Buf: []byte(`{"data":` + text + `}`)}
		b := &genai.Blob{}
		d.ReadInto(b)
		got := fmt.Sprint(b.Data)
		if err := d.CheckEnd(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}
