// Package charset converts other programs' texts to UTF-8: by their byte order mark, or else by the
// charset that they declare.
package charset

import (
	"bytes"
	"mime"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
)

var (
	utf8Mark = []byte("\xef\xbb\xbf")

	utf16Big    = unicode.UTF16(unicode.BigEndian, unicode.UseBOM)
	utf16Little = unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	utf32Big    = utf32.UTF32(utf32.BigEndian, utf32.UseBOM)
	utf32Little = utf32.UTF32(utf32.LittleEndian, utf32.UseBOM)
)

// DecodeText returns text in UTF-8, without its byte order mark. contentType is the text's header,
// or "". Text in an unknown charset, and text that declares none, is returned unchanged: it may not
// be valid UTF-8.
func DecodeText(contentType string, text []byte) []byte {
	if from := markedEncoding(text); from != nil {
		return decodeBytes(from, text)
	}
	if unmarked, found := bytes.CutPrefix(text, utf8Mark); found {
		return unmarked
	}
	if from := declaredEncoding(contentType); from != nil {
		return decodeBytes(from, text)
	}
	return text
}

// DecodeJSON is DecodeText for JSON, which may also be UTF-16 or UTF-32 without a mark: its
// first character is ASCII (RFC 4627 section 3). JSON that is valid UTF-8 is not converted,
// whatever it declares, because that is its only charset (RFC 8259).
func DecodeJSON(contentType string, text []byte) []byte {
	if from := zeroEncoding(text); from != nil {
		return decodeBytes(from, text)
	}
	if utf8.Valid(text) {
		return bytes.TrimPrefix(text, utf8Mark)
	}
	return DecodeText(contentType, text)
}

// markedEncoding returns a byte order mark's encoding other than UTF-8, or nil.
func markedEncoding(text []byte) encoding.Encoding {
	switch {
	case bytes.HasPrefix(text, []byte("\xff\xfe\x00\x00")):
		return utf32Little
	case bytes.HasPrefix(text, []byte("\x00\x00\xfe\xff")):
		return utf32Big
	case bytes.HasPrefix(text, []byte("\xff\xfe")):
		return utf16Little
	case bytes.HasPrefix(text, []byte("\xfe\xff")):
		return utf16Big
	}
	return nil
}

// zeroEncoding returns JSON's encoding by the zero bytes in its first two characters, or nil.
func zeroEncoding(text []byte) encoding.Encoding {
	if len(text) < 2 {
		return nil
	}
	isZero := func(i int) bool { return i < len(text) && text[i] == 0 }
	switch {
	case isZero(0) && isZero(1) && isZero(2) && !isZero(3):
		return utf32Big
	case !isZero(0) && isZero(1) && isZero(2) && isZero(3):
		return utf32Little
	case isZero(0) && !isZero(1):
		return utf16Big
	case !isZero(0) && isZero(1):
		return utf16Little
	}
	return nil
}

// declaredEncoding returns the encoding for a Content-Type's charset, or nil for UTF-8 and unknown
// ones. As in browsers, Latin-1 is Windows-1252 (WHATWG Encoding Standard).
func declaredEncoding(contentType string) encoding.Encoding {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil || params["charset"] == "" {
		return nil
	}
	from, err := htmlindex.Get(params["charset"])
	if err != nil {
		return nil
	}
	if name, err := htmlindex.Name(from); err != nil || name == "utf-8" {
		return nil
	}
	return from
}

// decodeBytes converts text. Invalid characters become U+FFFD.
func decodeBytes(from encoding.Encoding, text []byte) []byte {
	out, err := from.NewDecoder().Bytes(text)
	if err != nil {
		return text
	}
	return out
}
