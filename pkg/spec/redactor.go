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

// minSecretLength is the shortest secret that is looked for in texts: a shorter one
// stands in many by chance.
const minSecretLength = 4

// A Redactor puts *** in the place of secrets that somebody else repeats: as they are,
// and as URLs, JSON, Go, base64 and hexadecimal digits have them. The nil Redactor
// hides nothing. Many goroutines may use it.
type Redactor struct{ replacer *strings.Replacer }

// NewRedactor returns a veil for some secrets. Those of less than four letters are
// left out.
func NewRedactor(secrets ...string) *Redactor {
	var forms []string
	for _, s := range secrets {
		if len(s) >= minSecretLength {
			forms = append(forms, secretEncodings(s)...)
		}
	}
	// One may be the beginning of another: the longer one goes first.
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, form := range slices.Compact(forms) {
		pairs = append(pairs, form, redacted)
	}
	return &Redactor{strings.NewReplacer(pairs...)}
}

// secretEncodings are the ways in which a secret may be written.
func secretEncodings(secret string) []string {
	inner := func(quoted string) string { return quoted[1 : len(quoted)-1] }
	quoted := inner(strconv.Quote(secret))
	forms := []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), (&url.URL{Path: secret}).EscapedPath(),
		quoted, inner(strconv.QuoteToASCII(secret)), strings.ReplaceAll(quoted, "/", `\/`),
		hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))),
	}
	// A text of JSON escapes what HTML has a meaning for, or does not.
	if text, err := json.Marshal(secret); err == nil {
		forms = append(forms, inner(string(text)), strings.ReplaceAll(inner(string(text)), "/", `\/`))
	}
	for _, code := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		forms = append(forms, code.EncodeToString([]byte(secret)))
		for before := range 3 {
			// Of a secret in the midst of other text, what stands beside it has a
			// share of the letters at both ends.
			text := code.EncodeToString([]byte("xx"[:before] + secret))
			if form := text[(before*8+5)/6 : len(text)-1]; len(form) >= 2*minSecretLength {
				forms = append(forms, form)
			}
		}
	}
	return forms
}

// RedactString is a text with its secrets hidden.
func (r *Redactor) RedactString(text string) string {
	if r == nil {
		return text
	}
	return r.replacer.Replace(text)
}

// RedactValue is a value of JSON with the secrets hidden in its texts and keys.
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
