package template

import (
	"strconv"
	"strings"
)

// Paths is a compiled text whose placeholders are dotted paths into a call's values:
// {args.order_id}, {state.tier}, {response.items.0.id}, {user}, {user:name?}. It is immutable and
// safe for concurrent use. The zero Paths is empty.
//
// Paths is for URLs, headers, bodies and scripts, which contain their own braces. It is therefore
// stricter than [Text]: one brace on each side, no spaces. {"id": {args.id}} keeps its outer
// braces, {{x}} prints the value between braces, and { login } is literal. {!x} prints {x}.
type Paths struct {
	body compiledText
}

// ParsePaths compiles a template. Braces around anything but a path are literal.
// The error is an [*Error] for a mistyped path, such as {args.} or {args..id}.
func ParsePaths(src string) (*Paths, error) {
	var b textBuilder
	for pos := 0; pos < len(src); {
		n, err := scanPath(&b, src, pos)
		if err != nil {
			return nil, err
		}
		pos += n
	}
	return &Paths{body: b.buildText()}, nil
}

// Refs lists the placeholders in order; Name is the whole path. The caller must
// not modify the slice.
func (p *Paths) Refs() []Ref { return p.body.refs }

// Static returns the text and true when it has no placeholders.
func (p *Paths) Static() (string, bool) { return p.body.staticText() }

// Render replaces each placeholder with the value that lookup returns, printed by
// [String] and passed through escape, unless escape is nil. Literal text is
// never escaped. The error for a missing required path is a [*MissingError].
func (p *Paths) Render(lookup func(path string) (any, bool), escape func(string) string) (string, error) {
	if text, ok := p.body.staticText(); ok {
		return text, nil
	}
	return p.body.renderText(func(ref *Ref) (any, bool, error) {
		v, ok := lookup(ref.Name)
		if ok && escape != nil {
			v = escape(String(v))
		}
		return v, ok, nil
	})
}

// Dig resolves a dotted path through maps and lists, and reports whether it has
// a value. List indexes start at 0.
func Dig(root any, path string) (any, bool) {
	for path != "" {
		var name string
		name, path, _ = strings.Cut(path, ".")
		var ok bool
		if root, ok = memberValue(root, name); !ok {
			return nil, false
		}
	}
	return root, root != nil
}

func memberValue(v any, name string) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		v2, ok := v[name]
		return v2, ok
	case []any:
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || i >= len(v) {
			return nil, false
		}
		return v[i], true
	default:
		return nil, false
	}
}

// scanPath consumes one placeholder or one literal run at pos, and returns its length.
func scanPath(b *textBuilder, src string, pos int) (int, error) {
	rest := src[pos:]
	inner, braced := cutBraces(rest)
	if !braced {
		n := len(rest)
		if brace := strings.IndexByte(rest[1:], '{'); brace >= 0 {
			n = brace + 1
		}
		b.appendLiteral(rest[:n])
		return n, nil
	}
	total := len(inner) + 2
	if bare, ok := strings.CutPrefix(inner, "!"); ok && isPath(strings.TrimLeft(bare, "!")) {
		b.appendLiteral("{" + bare + "}")
		return total, nil
	}
	if isPath(inner) {
		name, optional := strings.CutSuffix(inner, "?")
		b.appendPlaceholder(Ref{Name: name, Optional: optional, Offset: pos})
		return total, nil
	}
	b.appendLiteral(rest[:total])
	return total, checkMistyped(inner, pos)
}

// cutBraces returns the inside of {inner} at the start of s.
func cutBraces(s string) (inner string, ok bool) {
	if s[0] != '{' {
		return "", false
	}
	end := strings.IndexAny(s[1:], "{}")
	if end < 0 || s[1+end] == '{' {
		return "", false
	}
	return s[1 : 1+end], true
}

func isPath(s string) bool {
	s = trimScopePrefix(strings.TrimSuffix(s, "?"))
	first, rest, dotted := strings.Cut(s, ".")
	if !isIdentifier(first) {
		return false
	}
	for dotted {
		var name string
		name, rest, dotted = strings.Cut(rest, ".")
		if !isIdentifier(name) && !isIndex(name) {
			return false
		}
	}
	return true
}

func isIndex(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// checkMistyped returns an error if inner looks like a path with an extra dot.
// Anything else in braces may be JSON or code, and is literal.
func checkMistyped(inner string, pos int) error {
	names := strings.Split(trimScopePrefix(strings.TrimSuffix(inner, "?")), ".")
	if len(names) < 2 || !isIdentifier(names[0]) {
		return nil
	}
	for _, name := range names[1:] {
		if name != "" && !isIdentifier(name) && !isIndex(name) {
			return nil
		}
	}
	return &Error{Offset: pos, Msg: "{" + inner + "}: missing name before or after a dot"}
}
