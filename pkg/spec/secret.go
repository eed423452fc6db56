package spec

import (
	"log/slog"
	"strings"
)

// redacted is what a secret looks like wherever something is printed.
const redacted = "***"

// A Secret is a scalar that may hold ${secret:X}. Its Value has *** in the
// place of secrets, and so have all ways to print it; only [Secret.Reveal] and
// [Secret.Parts] tell them.
type Secret struct {
	Text
	pieces []SecretPart
}

// A SecretPart is a part of a secret's text, in order: one that may be shown, or
// what a ${secret:X} stands for.
type SecretPart struct {
	Text string
	// Hidden says that the text is a secret.
	Hidden bool
	// Offset is where the piece begins in the secret's Value.
	Offset int
}

// DecodeSpec reads a scalar. What it held is known to be in good hands from
// then on, see [CheckSecrets].
func (s *Secret) DecodeSpec(n *Node) Diagnostics {
	if ds := s.Text.DecodeSpec(n); ds != nil {
		return ds
	}
	n.readAsSecret = true
	s.pieces = n.secretParts()
	return nil
}

// SchemaSpec allows what DecodeSpec reads.
func (s *Secret) SchemaSpec() map[string]any { return s.Text.SchemaSpec() }

// Reveal is the text with its secrets. It is for whoever sends it to where it
// belongs, and for nobody who prints.
func (s Secret) Reveal() string {
	var b strings.Builder
	for _, p := range s.pieces {
		b.WriteString(p.Text)
	}
	return b.String()
}

// Parts are the parts of the text. They are only read.
func (s Secret) Parts() []SecretPart { return s.pieces }

// GoString hides what String hides.
func (s Secret) GoString() string { return s.Value }

// LogValue hides what String hides.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.Value) }

// MarshalText hides what String hides.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.Value), nil }

// secretParts cuts a scalar at its secrets.
func (n *Node) secretParts() []SecretPart {
	var all []SecretPart
	done := 0
	for _, p := range n.parts {
		if p.secret == "" {
			continue
		}
		if done < p.start {
			all = append(all, SecretPart{Text: n.Value[done:p.start], Offset: done})
		}
		all = append(all, SecretPart{Text: p.secret, Hidden: true, Offset: p.start})
		done = p.end
	}
	if done < len(n.Value) {
		all = append(all, SecretPart{Text: n.Value[done:], Offset: done})
	}
	return all
}

// CheckSecrets reports the secrets of a tree that no [Secret] has read: what
// stands there is shown to people or to models. It is for trees that were
// decoded whole.
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
		return append(ds, text.Errorf(p.start, "secret", "a secret cannot stand here, where people or models see it").
			WithHint("a secret belongs in the api_key or the headers of a model, in the headers or the query of an http tool, or in the headers or the env of an mcp tool"))
	}
	return ds
}
