package template

import "strings"

// A body is a text cut at its placeholders: literals[i] stands before refs[i],
// and the last literal behind all of them.
type body struct {
	literals []string
	refs     []Ref
}

func (b *body) static() (string, bool) {
	switch {
	case len(b.refs) > 0:
		return "", false
	case len(b.literals) == 0:
		return "", true
	}
	return b.literals[0], true
}

// render asks for the values first, so that the result is allocated once and
// in its final size.
func (b *body) render(lookup func(*Ref) (any, bool, error)) (string, error) {
	var few [33]string
	pieces, err := b.appendPieces(few[:0], lookup)
	return strings.Join(pieces, ""), err
}

// maxFilled bounds what the values of a text come to: a text may name a large
// one any number of times.
const maxFilled = 16 << 20

// appendPieces adds the literals and values of the text in turn.
func (b *body) appendPieces(pieces []string, lookup func(*Ref) (any, bool, error)) ([]string, error) {
	filled := 0
	for i := range b.refs {
		ref := &b.refs[i]
		v, ok, err := lookup(ref)
		if err != nil {
			return nil, err
		}
		if !ok && !ref.Optional {
			return nil, &MissingError{Ref: *ref}
		}
		text, ok := v.(string)
		if !ok {
			text = String(v)
		}
		if filled += len(text); filled > maxFilled {
			return nil, &Error{Offset: ref.Offset, Msg: "the values of the text come to more than 16 MiB"}
		}
		pieces = append(pieces, b.literals[i], text)
	}
	if len(b.literals) == 0 {
		return pieces, nil
	}
	return append(pieces, b.literals[len(b.refs)]), nil
}

// A builder collects a body from left to right.
type builder struct {
	done    body
	pending strings.Builder
}

func (b *builder) literal(s string) { b.pending.WriteString(s) }

func (b *builder) placeholder(ref Ref) {
	b.cut()
	b.done.refs = append(b.done.refs, ref)
}

func (b *builder) cut() {
	b.done.literals = append(b.done.literals, b.pending.String())
	b.pending.Reset()
}

func (b *builder) body() body {
	b.cut()
	return b.done
}
