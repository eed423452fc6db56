package spec

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"log/slog"
	"net/url"
	"slices"
	"strings"
)

// A Secret is a scalar that may contain ${secret:X}. Its Value and all formatted forms
// show *** for secrets; only [Secret.Reveal] and [Secret.Parts] return them.
type Secret struct {
	Text
	parts []SecretPart
}

// A SecretPart is a section in a secret's text: plain text or a ${secret:X} value.
type SecretPart struct {
	Text string
	// Hidden marks a secret's value.
	Hidden bool
	// Offset is where the part starts in the secret's Value.
	Offset int
}

// DecodeSpec decodes a scalar and marks it as read by a Secret, see [CheckSecrets].
func (s *Secret) DecodeSpec(n *Node) Diagnostics {
	if ds := s.Text.DecodeSpec(n); ds != nil {
		return ds
	}
	n.readAsSecret = true
	s.parts = n.secretParts()
	return nil
}

// SchemaSpec describes the accepted types.
func (s *Secret) SchemaSpec() map[string]any { return s.Text.SchemaSpec() }

// Reveal returns the text with its secrets. Callers must not print or log it.
func (s Secret) Reveal() string {
	var b strings.Builder
	for _, p := range s.parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// Parts returns the text's parts, which must not be modified.
func (s Secret) Parts() []SecretPart { return s.parts }

// GoString returns the redacted value.
func (s Secret) GoString() string { return s.Value }

// LogValue returns the redacted value.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.Value) }

// MarshalText returns the redacted value.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.Value), nil }

// secretParts splits a scalar at its secrets.
func (n *Node) secretParts() []SecretPart {
	var all []SecretPart
	end := 0
	for _, p := range n.parts {
		if p.secret == "" {
			continue
		}
		if end < p.start {
			all = append(all, SecretPart{Text: n.Value[end:p.start], Offset: end})
		}
		all = append(all, SecretPart{Text: p.secret, Hidden: true, Offset: p.start})
		end = p.end
	}
	if end < len(n.Value) {
		all = append(all, SecretPart{Text: n.Value[end:], Offset: end})
	}
	return all
}

// CheckSecrets reports secrets in a tree that no [Secret] decoded, because users or models would
// see them. Call it after the whole tree is decoded.
func CheckSecrets(n *Node) Diagnostics {
	var ds Diagnostics
	for _, e := range n.Entries {
		ds = append(ds, CheckSecrets(e.Value)...)
	}
	for _, item := range n.Items {
		ds = append(ds, CheckSecrets(item)...)
	}
	if n.readAsSecret {
		return ds
	}
	for _, p := range n.parts {
		if p.secret == "" {
			continue
		}
		text := Text{Value: n.Value, Pos: n.Pos, node: n}
		return append(ds, text.Errorf(p.start, "secret", "secrets are not allowed here: users or models would see them").
			WithHint("use secrets only in connections, in the api_key or headers of a model, in the headers or query of an http tool, in the auth or headers of an openapi tool, or in the headers or env of an mcp tool"))
	}
	return ds
}

// minSecretLength is the shortest secret that is redacted: shorter ones occur in text by
// chance.
const minSecretLength = 4

// A Redactor replaces secrets in text with ***: as they are, and encoded in URLs, JSON, program
// strings, HTML, base64 and hexadecimal. A nil Redactor changes nothing. It is safe for concurrent
// use.
type Redactor struct {
	replacer *strings.Replacer
	base64   []base64Form
	escapes  *escapeMatcher
}

// NewRedactor returns a redactor for secrets. It ignores those shorter than four bytes.
func NewRedactor(secrets ...string) *Redactor {
	var forms, long []string
	var inBase64 []base64Form
	for _, s := range secrets {
		if len(s) >= minSecretLength {
			long = append(long, s)
			forms = append(forms, secretEncodings(s)...)
			inBase64 = append(inBase64, base64Forms(s)...)
		}
	}
	// One form may begin another: replace the longer one first.
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, form := range slices.Compact(forms) {
		pairs = append(pairs, form, redacted)
	}
	return &Redactor{strings.NewReplacer(pairs...), inBase64, newEscapeMatcher(long)}
}

// secretEncodings returns the forms in which a secret may appear without escapes.
func secretEncodings(secret string) []string {
	forms := []string{secret, url.QueryEscape(secret), hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret)))}
	for _, code := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		forms = append(forms, code.EncodeToString([]byte(secret)))
	}
	return forms
}

// A base64Form is a secret within longer text in base64. Its first and last characters also
// encode the adjacent text, so that they differ: inner are those between.
type base64Form struct {
	inner string
	// hasHead reports that the character before inner encodes secret bits.
	hasHead bool
}

// base64Forms returns a secret's forms after 0, 1 and 2 other bytes. Their inner part has at least
// minSecretLength characters.
func base64Forms(secret string) []base64Form {
	var forms []base64Form
	for _, code := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			text := code.EncodeToString([]byte("xx"[:before] + secret))
			f := base64Form{text[(before*8+5)/6 : len(text)-1], before > 0}
			if !slices.Contains(forms, f) {
				forms = append(forms, f)
			}
		}
	}
	return forms
}

// redactText replaces the form with the adjacent characters that encode a part of the secret, and
// the padding.
func (f base64Form) redactText(text string) string {
	var out strings.Builder
	for {
		start := strings.Index(text, f.inner)
		if start < 0 {
			out.WriteString(text)
			return out.String()
		}
		end := start + len(f.inner)
		if f.hasHead && start > 0 && isBase64(text[start-1]) {
			start--
		}
		if end < len(text) && isBase64(text[end]) {
			end++
		}
		for range 2 {
			if end < len(text) && text[end] == '=' {
				end++
			}
		}
		out.WriteString(text[:start])
		out.WriteString(redacted)
		text = text[end:]
	}
}

func isBase64(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("+/-_", c) >= 0
}

// RedactString returns the text without secrets.
func (r *Redactor) RedactString(text string) string {
	if r == nil {
		return text
	}
	// A secret that is base64 itself, such as a Basic credential, before the secrets in it.
	text = r.replacer.Replace(r.escapes.redactText(text))
	for _, f := range r.base64 {
		text = f.redactText(text)
	}
	return text
}

// RedactStart returns the first bytes of the text without secrets, at most as many as most, and …
// if there is more. It reads only as much text as decides it: a secret that begins in the first
// bytes is seen whole.
func (r *Redactor) RedactStart(text string, most int) string {
	overlap := 0
	if r != nil {
		overlap = r.escapes.longestForm()
	}
	start := text[:min(len(text), most+overlap)]
	isCut := len(start) < len(text)
	start = r.RedactString(start)
	if isCut { // the last bytes may begin a secret
		start = start[:max(0, len(start)-overlap)]
	}
	if len(start) > most {
		start, isCut = start[:most], true
	}
	if !isCut {
		return start
	}
	return strings.ToValidUTF8(start, "") + "…"
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
