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

// minHidden is the shortest secret that is looked for in texts: a shorter one
// stands in many by chance.
const minHidden = 4

// A Veil puts *** in the place of secrets that somebody else repeats: as they are,
// and as URLs, JSON, Go, base64 and hexadecimal digits have them. The nil Veil
// hides nothing. Many goroutines may use it.
type Veil struct{ replacer *strings.Replacer }

// NewVeil returns a veil for some secrets. Those of less than four letters are
// left out.
func NewVeil(secrets ...string) *Veil {
	var forms []string
	for _, s := range secrets {
		if len(s) >= minHidden {
			forms = append(forms, formsOf(s)...)
		}
	}
	// One may be the beginning of another: the longer one goes first.
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, form := range slices.Compact(forms) {
		pairs = append(pairs, form, hidden)
	}
	return &Veil{strings.NewReplacer(pairs...)}
}

// formsOf are the ways in which a secret may be written.
func formsOf(secret string) []string {
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
			if form := text[(before*8+5)/6 : len(text)-1]; len(form) >= 2*minHidden {
				forms = append(forms, form)
			}
		}
	}
	return forms
}

// Text is a text with its secrets hidden.
func (v *Veil) Text(text string) string {
	if v == nil {
		return text
	}
	return v.replacer.Replace(text)
}

// Value is a value of JSON with the secrets hidden in its texts and keys.
func (v *Veil) Value(value any) any {
	switch value := value.(type) {
	case string:
		return v.Text(value)
	case []any:
		items := make([]any, len(value))
		for i, item := range value {
			items[i] = v.Value(item)
		}
		return items
	case map[string]any:
		fields := make(map[string]any, len(value))
		for key, item := range value {
			fields[v.Text(key)] = v.Value(item)
		}
		return fields
	}
	return value
}
