package template

import (
	"context"
	"fmt"
	"strings"
)

// A template becomes a prompt by ADK's rules (adk-python utils/instructions_utils.py):
//
//	Hi {name}, {{app:x}} ${y} {no-key} {artifact.menu?}
//
//  1. [Parse] scans the source once, from left to right. A key or an artifact in braces is a
//     placeholder, however many braces each side has: {name}, {{app:x}}, {artifact.menu?}.
//     Everything else is literal: ${y} belongs to a shell, and {no-key} is not an identifier.
//  2. A compiledText alternates: literal, placeholder, literal, …, literal.
//  3. Rendering looks up the values in order, then joins the segments once, in the final size.
//
// ADK replaces with a regular expression before each model call. Scanning once, when the app is
// loaded, is faster, and the placeholders are known before a run: for checks against the state
// schema, and for errors with a position.
//
// Invariants:
//   - Every string is a valid template, since ADK accepts any instruction.
//   - Apart from <key?> and {!key}, the scanner finds exactly the matches that ADK finds.
//     FuzzText compares it with the regular expression.
//   - Values are not scanned: what a user writes into the state never becomes a placeholder.
//   - A template without placeholders renders without an allocation.

// Text is a compiled template with placeholders. It is immutable and safe for
// concurrent use. The zero Text is empty.
type Text struct {
	body      compiledText
	preserved []Ref
}

// Parse compiles a template. Every string is valid: anything that is not a
// placeholder is literal text.
func Parse(src string) *Text {
	s := textScanner{src: src}
	for s.pos < len(src) {
		s.scanNext()
	}
	return &Text{body: s.builder.buildText(), preserved: s.preserved}
}

// Refs lists the placeholders in order. The caller must not modify the slice.
func (t *Text) Refs() []Ref { return t.body.refs }

// Preserved lists the matches that would be placeholders without the dollar sign or
// backslash before them, and are literal text. The caller must not modify the slice.
func (t *Text) Preserved() []Ref { return t.preserved }

// Static returns the text and true if it has no placeholders and therefore
// renders the same for every scope.
func (t *Text) Static() (string, bool) { return t.body.staticText() }

// Render replaces the placeholders in one pass; placeholders in values are not expanded. The error
// for a missing required key or artifact is a [*MissingError]. Scope errors are wrapped.
func (t *Text) Render(ctx context.Context, s Scope) (string, error) {
	if text, ok := t.body.staticText(); ok {
		return text, nil
	}
	return t.body.renderText(scopeLookup(ctx, s))
}

// AppendSegments appends the strings that Render would join, for callers that join
// them with others.
func (t *Text) AppendSegments(ctx context.Context, segments []string, s Scope) ([]string, error) {
	return t.body.appendSegments(segments, scopeLookup(ctx, s))
}

func scopeLookup(ctx context.Context, s Scope) func(*Ref) (any, bool, error) {
	return func(ref *Ref) (any, bool, error) {
		if !ref.Artifact {
			v, ok := s.Lookup(ref.Name)
			return v, ok, nil
		}
		text, ok, err := s.Artifact(ctx, ref.Name)
		if err != nil {
			return nil, false, fmt.Errorf("reading artifact %s: %w", ref.Name, err)
		}
		return text, ok, nil
	}
}

// textScanner finds ADK's placeholders: the matches for the regular expression {+[^{}]*}+, from
// left to right.
type textScanner struct {
	src     string
	pos     int
	builder textBuilder
	// preserved are the matches after a dollar sign or backslash.
	preserved []Ref
}

// scanNext consumes one placeholder or one literal run.
func (s *textScanner) scanNext() {
	rest := s.src[s.pos:]
	n := strings.IndexAny(rest, "{<")
	switch {
	case n < 0:
		s.consumeLiteral(len(rest))
	case n > 0:
		s.consumeLiteral(n)
	case rest[0] == '<':
		s.scanAngle(rest)
	default:
		s.scanBraces(rest)
	}
}

func (s *textScanner) consumeLiteral(n int) {
	s.builder.appendLiteral(s.src[s.pos : s.pos+n])
	s.pos += n
}

func (s *textScanner) consumePlaceholder(ref Ref, n int) {
	ref.Offset = s.pos
	s.builder.appendPlaceholder(ref)
	s.pos += n
}

// scanBraces consumes {name}. Each side may have several braces, not necessarily the same: ADK
// strips them all.
func (s *textScanner) scanBraces(rest string) {
	open := countLeading(rest, '{')
	size := strings.IndexAny(rest[open:], "{}")
	if size < 0 || rest[open+size] == '{' {
		s.consumeLiteral(open)
		return
	}
	inner := rest[open : open+size]
	total := open + size + countLeading(rest[open+size:], '}')
	ref, ok := parseRef(strings.TrimFunc(inner, isSpace))
	switch {
	case ok && s.isPreserved():
		ref.Offset = s.pos
		s.preserved = append(s.preserved, ref)
	case ok:
		s.consumePlaceholder(ref, total)
		return
	}
	s.consumeLiteral(open)
	if isEscaped(inner) {
		s.pos++ // the exclamation mark
		s.consumeLiteral(total - open - 1)
	}
}

// isPreserved reports whether a dollar sign or a backslash is before the braces: they
// belong to a shell, a template string or TeX (adk-python since 2.10).
func (s *textScanner) isPreserved() bool {
	return s.pos > 0 && strings.IndexByte("$\\", s.src[s.pos-1]) >= 0
}

// isEscaped reports whether {inner} is a placeholder escaped with exclamation
// marks.
func isEscaped(inner string) bool {
	bare := strings.TrimLeft(inner, "!")
	if bare == inner {
		return false
	}
	_, ok := parseRef(strings.TrimFunc(bare, isSpace))
	return ok
}

// scanAngle consumes <name?>, another spelling for {name?}. Names with spaces or without the
// question mark are literal, so that tags stay tags.
func (s *textScanner) scanAngle(rest string) {
	end := strings.IndexAny(rest[1:], "<>{}") + 1
	if end > 0 && rest[end] == '>' {
		if ref, ok := parseRef(rest[1:end]); ok && ref.Optional && !strings.ContainsFunc(ref.Name, isSpace) {
			s.consumePlaceholder(ref, end+1)
			return
		}
	}
	s.consumeLiteral(1)
}

func countLeading(s string, c byte) int {
	n := 0
	for n < len(s) && s[n] == c {
		n++
	}
	return n
}

// A compiledText is a template split at its placeholders: literals[i] precedes refs[i], and the
// last literal follows them all.
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

// maxValueBytes limits the total value size in one template, which may name a large value many
// times.
const maxValueBytes = 16 << 20

// appendSegments appends the text's literals and values in order.
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
			return nil, &Error{Offset: ref.Offset, Msg: "the text's values exceed the limit of 16 MiB"}
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
