package spec

import (
	"log/slog"
	"strings"
)

// redacted replaces secrets in all output.
const redacted = "***"

// A Secret is a scalar that may contain ${secret:X}. Its Value and all formatted forms
// show *** for secrets; only [Secret.Reveal] and [Secret.Parts] return them.
type Secret struct {
	Text
	parts []SecretPart
}

// A SecretPart is a section of a secret's text: plain text or the value of a
// ${secret:X}.
type SecretPart struct {
	Text string
	// Hidden marks the value of a secret.
	Hidden bool
	// Offset is the start of the part in the secret's Value.
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

// Parts returns the parts of the text, which must not be modified.
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

// CheckSecrets reports secrets of a tree that no [Secret] decoded, because users or
// models would see them. Call it after the whole tree is decoded.
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
			WithHint("use secrets only in the api_key or headers of a model, in the headers or query of an http tool, or in the headers or env of an mcp tool"))
	}
	return ds
}
