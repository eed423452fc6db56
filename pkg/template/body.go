package template

import (
	"strings"
)

// A body is a text cut at its placeholders: literals[i] stands before refs[i],
// and the last literal behind all of them.
type body struct {
	literals []string
	refs     []Ref
	size     int // bytes of all literals
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
	values, size := few[:0], b.size
	for i := range b.refs {
		ref := &b.refs[i]
		v, ok, err := lookup(ref)
		if err != nil {
			return "", err
		}
		if !ok && !ref.Optional {
			return "", &MissingError{Ref: *ref}
		}
		text, ok := v.(string)
		if !ok {
			text = String(v)
		}
		size += len(text)
		values = append(values, b.literals[i], text)
	}
	values = append(values, b.literals[len(b.refs)])
	var out strings.Builder
	out.Grow(size)
	for _, v := range values {
		out.WriteString(v)
	}
	return out.String(), nil
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
	b.done.size += b.pending.Len()
	b.pending.Reset()
}

func (b *builder) body() body {
	b.cut()
	return b.done
}
