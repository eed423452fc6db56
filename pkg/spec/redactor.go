package spec

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// minSecretLength is the shortest secret that is redacted: shorter ones occur in text by
// chance.
const minSecretLength = 4

// A Redactor replaces secrets in text with ***: as they are, and in their encodings in
// URLs, JSON, Go strings, base64 and hexadecimal. A nil Redactor changes nothing. It is
// safe for concurrent use.
type Redactor struct{ replacer *strings.Replacer }

// NewRedactor returns a redactor for secrets. It ignores those of less than four bytes.
func NewRedactor(secrets ...string) *Redactor {
	var forms []string
	for _, s := range secrets {
		if len(s) >= minSecretLength {
			forms = append(forms, secretEncodings(s)...)
		}
	}
	// One form may be a prefix of another: replace the longer one first.
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, form := range slices.Compact(forms) {
		pairs = append(pairs, form, redacted)
	}
	return &Redactor{strings.NewReplacer(pairs...)}
}

// secretEncodings returns the forms in which a secret may appear.
func secretEncodings(secret string) []string {
	inner := func(quoted string) string { return quoted[1 : len(quoted)-1] }
	quoted := inner(strconv.Quote(secret))
	forms := []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), (&url.URL{Path: secret}).EscapedPath(),
		quoted, inner(strconv.QuoteToASCII(secret)), strings.ReplaceAll(quoted, "/", `\/`),
		hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))),
	}
	// JSON encoders may or may not escape HTML characters.
	if text, err := json.Marshal(secret); err == nil {
		forms = append(forms, inner(string(text)), strings.ReplaceAll(inner(string(text)), "/", `\/`))
	}
	for _, code := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		forms = append(forms, code.EncodeToString([]byte(secret)))
		for before := range 3 {
			// Within a longer text, the first and last base64 characters of the secret
			// also encode the adjacent text: leave them out.
			text := code.EncodeToString([]byte("xx"[:before] + secret))
			if form := text[(before*8+5)/6 : len(text)-1]; len(form) >= 2*minSecretLength {
				forms = append(forms, form)
			}
		}
	}
	return forms
}

// RedactString returns the text without secrets.
func (r *Redactor) RedactString(text string) string {
	if r == nil {
		return text
	}
	return r.replacer.Replace(text)
}

// RedactValue returns a JSON value without secrets in its strings and keys.
func (r *Redactor) RedactValue(value any) any {
	switch value := value.(type) {
	case string:
		return r.RedactString(value)
	case []any:
		items := make([]any, len(value))
		for i, item := range value {
			items[i] = r.RedactValue(item)
		}
		return items
	case map[string]any:
		fields := make(map[string]any, len(value))
		for key, item := range value {
			fields[r.RedactString(key)] = r.RedactValue(item)
		}
		return fields
	}
	return value
}
