package charset_test

import (
	"testing"
	"unicode/utf8"

	"agenthost/internal/charset"
)

// A byte order mark decides, then the declared charset; text without either is UTF-8, or
// stays as it is.
func TestDecodeText(t *testing.T) {
	for _, tt := range []struct{ name, contentType, text, want string }{
		{"UTF-8", "text/plain", "Grüße", "Grüße"},
		{"mark of UTF-8", "text/plain; charset=iso-8859-1", "\xef\xbb\xbfGr", "Gr"},
		{"Latin-1", "text/plain; charset=iso-8859-1", "Gr\xfc\xdfe", "Grüße"},
		{"quoted, upper case", `text/plain; charset="ISO-8859-1"`, "\xfc", "ü"},
		{"Windows-1252", "text/html; charset=windows-1252", "\x80 5", "€ 5"},
		{"Latin-2", "text/csv; charset=iso-8859-2", "\xb9", "š"},
		{"Shift JIS", "text/plain; charset=Shift_JIS", "\x93\xfa\x96\x7b", "日本"},
		{"GBK", "text/plain; charset=gbk", "\xd6\xd0", "中"},
		{"UTF-16 with a mark", "text/plain", "\xff\xfeG\x00\xfc\x00", "Gü"},
		{"UTF-16 big endian with a mark", "text/plain", "\xfe\xff\x00G\x00\xfc", "Gü"},
		{"UTF-16 as declared", "text/plain; charset=utf-16le", "G\x00\xfc\x00", "Gü"},
		{"UTF-32 with a mark", "text/plain", "\xff\xfe\x00\x00\xfc\x00\x00\x00", "ü"},
		{"half a character of UTF-16", "text/plain", "\xff\xfeG\x00\xfc", "G\uFFFD"},
		{"unknown charset", "text/plain; charset=klingon", "\xfc", "\xfc"},
		{"no charset", "text/plain", "\xfc", "\xfc"},
		{"malformed header", "text/plain; charset", "\xfc", "\xfc"},
		{"empty", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(charset.DecodeText(tt.contentType, []byte(tt.text))); got != tt.want {
				t.Errorf("DecodeText(%q, %q) = %q, want %q", tt.contentType, tt.text, got, tt.want)
			}
		})
	}
}

// JSON is UTF-8, whatever it declares, unless it is not valid UTF-8; UTF-16 and UTF-32 need
// no mark.
func TestDecodeJSON(t *testing.T) {
	for _, tt := range []struct{ name, contentType, text, want string }{
		{"UTF-8", "application/json; charset=iso-8859-1", `{"ü":1}`, `{"ü":1}`},
		{"mark of UTF-8", "application/json", "\xef\xbb\xbf{}", "{}"},
		{"Latin-1", "application/json; charset=latin1", "\"\xfc\"", `"ü"`},
		{"UTF-16", "", "\"\x00\xfc\x00\"\x00", `"ü"`},
		{"UTF-16 big endian", "", "\x00\"\x00\xfc\x00\"", `"ü"`},
		{"UTF-16 with a mark", "", "\xff\xfe1\x00", "1"},
		{"UTF-32", "", "1\x00\x00\x00", "1"},
		{"UTF-32 big endian", "", "\x00\x00\x00[\x00\x00\x00]", "[]"},
		{"one digit", "", "1", "1"},
		{"empty", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(charset.DecodeJSON(tt.contentType, []byte(tt.text))); got != tt.want {
				t.Errorf("DecodeJSON(%q, %q) = %q, want %q", tt.contentType, tt.text, got, tt.want)
			}
		})
	}
}

// Text that a mark or a charset converts is valid UTF-8.
func FuzzDecode(f *testing.F) {
	f.Add("text/plain; charset=gbk", []byte("\xd6\xd0"))
	f.Add("", []byte("\xff\xfeG\x00\xfc"))
	f.Fuzz(func(t *testing.T, contentType string, text []byte) {
		for _, got := range [][]byte{charset.DecodeText(contentType, text), charset.DecodeJSON(contentType, text)} {
			if string(got) != string(text) && !utf8.Valid(got) && utf8.Valid(text) {
				t.Errorf("decoding %q as %q = %q, not UTF-8", text, contentType, got)
			}
		}
	})
}
