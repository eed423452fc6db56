package template

import "strings"

// A compiledText is a template split at its placeholders: literals[i] precedes refs[i],
// and the last literal follows all of them.
type compiledText struct {
	literals []string
	refs     []Ref
}

func (b *compiledText) staticText() (string, bool) {
	switch {
	case len(b.refs) > 0:
		return "", false
	case len(b.literals) == 0:
		return "", true
	}
	return b.literals[0], true
}

// renderText looks up all values first, so that it allocates the result once, in
// its final size.
func (b *compiledText) renderText(lookup func(*Ref) (any, bool, error)) (string, error) {
	var buf [33]string
	segments, err := b.appendSegments(buf[:0], lookup)
	return strings.Join(segments, ""), err
}

// maxValueBytes limits the total size of the values in one template, which may name
// a large value any number of times.
const maxValueBytes = 16 << 20

// appendSegments appends the literals and values of the text in order.
func (b *compiledText) appendSegments(segments []string, lookup func(*Ref) (any, bool, error)) ([]string, error) {
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
		if filled += len(text); filled > maxValueBytes {
			return nil, &Error{Offset: ref.Offset, Msg: "the values of the text exceed the limit of 16 MiB"}
		}
		segments = append(segments, b.literals[i], text)
	}
	if len(b.literals) == 0 {
		return segments, nil
	}
	return append(segments, b.literals[len(b.refs)]), nil
}

// textBuilder builds a compiledText from left to right.
type textBuilder struct {
	text    compiledText
	pending strings.Builder
}

func (b *textBuilder) appendLiteral(s string) { b.pending.WriteString(s) }

func (b *textBuilder) appendPlaceholder(ref Ref) {
	b.flushLiteral()
	b.text.refs = append(b.text.refs, ref)
}

func (b *textBuilder) flushLiteral() {
	b.text.literals = append(b.text.literals, b.pending.String())
	b.pending.Reset()
}

func (b *textBuilder) buildText() compiledText {
	b.flushLiteral()
	return b.text
}
