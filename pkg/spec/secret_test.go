package spec_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"agenthost/pkg/spec"
)

// A Redactor replaces a secret in each encoding, and nothing else.
func TestRedactorFindsEachEncoding(t *testing.T) {
	const secret = `k3y/w1th <&"\+é`
	inJSON, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	r := spec.NewRedactor(secret, "abc", "")
	for name, text := range map[string]string{
		"as it is": secret, "Go": fmt.Sprintf("%q", secret), "ASCII": fmt.Sprintf("%+q", secret), "JSON": string(inJSON), "JSON of PHP": strings.ReplaceAll(string(inJSON), "/", `\/`),
		"a query": url.QueryEscape(secret), "a path": url.PathEscape(secret), "hexadecimal": fmt.Sprintf("%x", secret), "upper case": fmt.Sprintf("%X", secret),
		"a path that keeps slashes": strings.ReplaceAll(url.PathEscape(secret), "%2F", "/"), "lower case of a query": percentLower(url.QueryEscape(secret)),
		"all of a query": percentAll(secret), "a query in a query": url.QueryEscape(url.QueryEscape(secret)),
		"HTML": html.EscapeString(secret), "HTML of all": entityAll(secret, "&#%d;"), "HTML in hexadecimal": entityAll(secret, "&#x%x;"), "HTML in HTML": html.EscapeString(html.EscapeString(secret)),
		"JSON of all": unicodeAll(secret, `\u%04x`), "JSON in upper case": unicodeAll(secret, `\u%04X`), "JSON in JSON": quoteTwice(string(inJSON)), "JavaScript": strings.ReplaceAll(string(inJSON), "<", `\x3c`),
		"base64 in a query": url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(secret))),
		"base64":            base64.StdEncoding.EncodeToString([]byte(secret)), "base64 for URLs": base64.RawURLEncoding.EncodeToString([]byte(secret)),
	} {
		got := strings.Trim(strings.ReplaceAll(r.RedactString("<"+text+">"), "%3D", ""), `<>"=\`)
		if got != "***" {
			t.Errorf("%s: RedactString(%s) = %s, want ***", name, text, got)
		}
	}
	for _, code := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
		for before := range 7 {
			for after := range 7 {
				expectNoBits(t, r, code, "me-too:"[before:], secret, "@others"[after:])
			}
		}
	}
	got := r.RedactValue(map[string]any{"a": []any{secret, 1, nil}, secret: map[string]any{"b": "abc " + secret}})
	if want := map[string]any{"a": []any{"***", 1, nil}, "***": map[string]any{"b": "abc ***"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("RedactValue = %v, want %v", got, want)
	}
	if got := (*spec.Redactor)(nil).RedactString(secret); got != secret {
		t.Errorf("nil Redactor: %s, want it unchanged", got)
	}
}

// expectNoBits fails unless *** replaces exactly the base64 characters that encode secret bits, and
// the padding.
func expectNoBits(t *testing.T, r *spec.Redactor, code *base64.Encoding, before, secret, after string) {
	t.Helper()
	text := strings.TrimRight(code.EncodeToString([]byte(before+secret+after)), "=")
	first, end := len(before)*8/6, (len(before+secret)*8+5)/6
	want := text[:first] + "***" + text[end:]
	if got := strings.TrimRight(r.RedactString(code.EncodeToString([]byte(before+secret+after))), "="); got != want {
		t.Errorf("base64 of %s<secret>%s: %s becomes %s, want %s", before, after, text, got, want)
	}
}

func percentLower(text string) string {
	return regexp.MustCompile("%..").ReplaceAllStringFunc(text, strings.ToLower)
}

func percentAll(text string) string {
	var out strings.Builder
	for _, b := range []byte(text) {
		fmt.Fprintf(&out, "%%%02x", b)
	}
	return out.String()
}

func entityAll(text, format string) string {
	var out strings.Builder
	for _, r := range text {
		fmt.Fprintf(&out, format, r)
	}
	return out.String()
}

func unicodeAll(text, format string) string {
	var out strings.Builder
	for _, unit := range utf16.Encode([]rune(text)) {
		fmt.Fprintf(&out, format, unit)
	}
	return out.String()
}

func quoteTwice(text string) string {
	raw, _ := json.Marshal(text)
	return string(raw)
}

// A secret in base64 is replaced whichever characters a service escapes, and other text is
// unchanged.
func TestRedactorOfEscapes(t *testing.T) {
	r := spec.NewRedactor("aB3/dE+f9Gh==", "p%41ss\\n😀")
	for in, want := range map[string]string{
		"x aB3/dE%2Bf9Gh%3D%3D y":            "x *** y",
		"x aB3%2fdE%2bf9Gh%3d%3d y":          "x *** y",
		"?t=%61B3%2FdE+f9Gh==&u=1":           "?t=***&u=1",
		"aB3%252FdE%252Bf9Gh%3D%3D":          "***",
		`"aB3\/dE\u002bf9Gh=="`:              `"***"`,
		"aB3&#x2F;dE&plus;f9Gh&#61;&equals;": "***",
		"aB3&amp;#47;dE+f9Gh==":              "***",
		"p%41ss\\n😀":                         "***",
		"p%2541ss%5Cn%F0%9F%98%80":           "***",
		`p%41ss\\n\ud83d\ude00`:              "***",
		"aB3%2FdE%2Bf9G":                     "aB3%2FdE%2Bf9G",
		`100% of \u00e9 & \ &amp; %zz &#; +`: `100% of \u00e9 & \ &amp; %zz &#; +`,
	} {
		if got := r.RedactString(in); got != want {
			t.Errorf("RedactString(%s) = %s, want %s", in, got, want)
		}
	}
}

// FuzzRedactor checks that text with a secret in randomly mixed escapes is redacted.
func FuzzRedactor(f *testing.F) {
	f.Add("aB3/dE+f9Gh==", []byte{0, 1, 2, 3, 4, 5, 6, 7})
	f.Add(`a\\%25&amp;`, []byte{7, 3, 1})
	f.Fuzz(func(t *testing.T, secret string, forms []byte) {
		if len(secret) < 4 || len(secret) > 100 || len(forms) == 0 || !utf8.ValidString(secret) || strings.Contains(secret, "*") {
			return
		}
		var text strings.Builder
		for i, c := range []rune(secret) {
			switch one := string(c); forms[i%len(forms)] % 6 {
			case 0:
				text.WriteString(percentAll(one))
			case 1:
				text.WriteString(percentLower(url.QueryEscape(one)))
			case 2:
				text.WriteString(unicodeAll(one, `\u%04x`))
			case 3:
				text.WriteString(entityAll(one, "&#%d;"))
			case 4:
				text.WriteString(url.QueryEscape(percentAll(one)))
			default:
				text.WriteString(entityAll(one, "&#x%X;"))
			}
		}
		r := spec.NewRedactor(secret)
		_ = r.RedactString(secret + string(forms))
		if got := r.RedactString(text.String()); got != "***" && !strings.ContainsAny(secret, "\x00\r") && !hasC1(secret) {
			t.Errorf("RedactString(%q) = %q, want *** for %q", text.String(), got, secret)
		}
	})
}

// hasC1 reports characters that HTML reads as other Windows-1252 characters.
func hasC1(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r >= 0x80 && r < 0xa0 })
}

// Text that almost repeats a secret many times is redacted as a whole, instead of being compared
// for minutes. Part of a secret is not such text.
func TestRedactorOfRepeatedSecrets(t *testing.T) {
	r := spec.NewRedactor(strings.Repeat("a", 4000) + "b")
	if got := r.RedactString(`\n` + strings.Repeat("a", 1<<20)); got != "***" {
		t.Errorf("%d bytes, want ***", len(got))
	}
	r = spec.NewRedactor("sk-" + strings.Repeat("x/", 500) + "end")
	text := `\n` + "sk-" + strings.Repeat("x/", 400)
	if got := r.RedactString(text); got != text {
		t.Errorf("part of a secret: %.100s", got)
	}
}

// A secret that can be read in too many ways is redacted without deciding whether it is there:
// backslashes escape each other.
func TestRedactorFailsClosed(t *testing.T) {
	r := spec.NewRedactor("a" + strings.Repeat(`\`, 40) + "b")
	if got := r.RedactString("%61" + strings.Repeat(`\`, 40) + "b"); got != "***" {
		t.Errorf("got %q, want ***", got)
	}
}

// A short secret is redacted within longer text in base64, wherever it begins.
func TestRedactorOfShortSecrets(t *testing.T) {
	for _, secret := range []string{"pa:s", "pa:ss", "pa:ss1", "pa:ss12"} {
		for before := range 3 {
			text := base64.StdEncoding.EncodeToString([]byte("012"[:before] + secret + "345"))
			if got := spec.NewRedactor(secret).RedactString(text); !strings.Contains(got, "***") {
				t.Errorf("%s after %d bytes: %s", secret, before, got)
			}
		}
	}
}

// The start of text has no part of a secret that is cut, in any form and at any place, and its cost
// does not depend on the text length.
func TestRedactStart(t *testing.T) {
	const secret = "sk-s3cr3t/key+1"
	r := spec.NewRedactor(secret)
	for _, form := range []string{secret, url.QueryEscape(secret), base64.StdEncoding.EncodeToString([]byte(secret)), `\\\\u0073` + secret[1:]} {
		for before := range 260 {
			for _, after := range []int{0, 1, 200, 5000} {
				text := strings.Repeat("-", before) + form + strings.Repeat(" "+form, 3) + strings.Repeat("-", after)
				got := r.RedactStart(text, 200)
				if len(got) > 200+len("…") || strings.Trim(got, "-*… ") != "" {
					t.Fatalf("%d bytes before and %d after %s: %s", before, after, form, got)
				}
			}
		}
	}
	many := strings.Repeat(secret+" ", 1000)
	if got := r.RedactStart(many, 200); strings.Trim(got, "*… ") != "" {
		t.Errorf("many secrets: %s", got)
	}
	for text, want := range map[string]string{"short": "short", strings.Repeat("x", 200): strings.Repeat("x", 200), strings.Repeat("x", 201): strings.Repeat("x", 200) + "…"} {
		if got := r.RedactStart(text, 200); got != want {
			t.Errorf("RedactStart(%s) = %s, want %s", text, got, want)
		}
	}
	huge := strings.Repeat("%41", 1<<20)
	allocated := func(text string) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 100 {
			r.RedactStart(text, 200)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if small, large := allocated(huge[:1<<12]), allocated(huge); large > 2*small+100_000 {
		t.Errorf("the start of %d bytes takes %d bytes, and that of %d bytes %d", 1<<12, small, len(huge), large)
	}
}
