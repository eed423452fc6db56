package spec

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// redacted replaces secrets in all output.
const redacted = "***"

// A Lookup resolves a reference by its kind (env, secret or file) and its name. Without
// a value, the error is [ErrUnset] or describes the reason.
type Lookup func(kind, name string) (string, error)

// ErrUnset means that no variable or secret has the name. ErrKept means that the scalar keeps the
// reference as it is written, without a diagnostic.
var (
	ErrUnset = errors.New("is not set")
	ErrKept  = errors.New("is kept")
)

// Interpolate replaces the references ${env:X}, ${env:X:-default}, ${secret:X} and ${file:path} in
// a tree's scalars except keys; any other $ is literal. It does not scan replacements for further
// references, not even when called again. If a plain scalar is one ${env:X} only, its replacement
// may be a number, a boolean or null (if empty). Quoted scalars, secrets and files are always
// strings. The value shows *** for a secret; only [Secret] exposes it.
//
// A variable that is not set and has no default is reported at its position, and so is a malformed
// reference. The scalar then keeps the reference.
func Interpolate(n *Node, lookup Lookup) Diagnostics {
	i := interpolator{lookup: lookup, namePatterns: sync.OnceValue(func() map[string]*regexp.Regexp {
		return map[string]*regexp.Regexp{
			"env": regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`), "secret": regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`),
		}
	})}
	i.interpolateNode(n)
	i.ds.Sort()
	return i.ds
}

// A LookupError is an error from a [Lookup] with its own rule and hint, for example for a variable
// that the app may not read.
type LookupError struct {
	Rule, Message, Hint string
	// Ignored is the warning's message if the reference has a default, which is then used. If it is
	// empty, there is no warning.
	Ignored string
}

// Error returns the message.
func (e *LookupError) Error() string { return e.Message }

type interpolator struct {
	lookup       Lookup
	namePatterns func() map[string]*regexp.Regexp
	ds           Diagnostics
}

func (i *interpolator) interpolateNode(n *Node) {
	for _, e := range n.Entries {
		i.interpolateNode(e.Value)
	}
	for _, item := range n.Items {
		i.interpolateNode(item)
	}
	if n.Kind == Scalar && len(n.parts) == 0 && strings.Contains(n.Value, "${") {
		i.interpolateScalar(n)
	}
}

// maxScalarProblems limits the problems reported for one scalar.
const maxScalarProblems = 100

func (i *interpolator) interpolateScalar(n *Node) {
	var value strings.Builder
	var parts []substitution
	copied, before := 0, len(i.ds)
	for _, r := range findReferences(n.Value) {
		text, ok := i.resolveReference(n, r)
		if len(i.ds)-before >= maxScalarProblems {
			break
		}
		if !ok {
			continue
		}
		value.WriteString(n.Value[copied:r.from])
		p := substitution{start: value.Len(), writtenStart: r.from, writtenEnd: r.to}
		if r.kind == "secret" {
			p.secret, text = text, redacted
		}
		value.WriteString(text)
		p.end = value.Len()
		parts = append(parts, p)
		copied = r.to
	}
	if len(parts) == 0 {
		return
	}
	value.WriteString(n.Value[copied:])
	whole := parts[0].writtenStart == 0 && parts[0].writtenEnd == len(n.Value) && strings.HasPrefix(n.Value, "${env:")
	n.written, n.Value, n.parts = n.Value, value.String(), parts
	if whole && n.style == 0 {
		n.Tag = resolveTag(n.Value)
	}
}

// A reference is ${kind:body} in a value's byte range [from, to).
type reference struct {
	kind, body string
	from, to   int
	closed     bool
}

func findReferences(value string) []reference {
	var found []reference
	for at := 0; ; {
		start := strings.Index(value[at:], "${")
		if start < 0 {
			return found
		}
		start += at
		r := readReference(value, start)
		if r.kind != "" {
			found = append(found, r)
		}
		at = r.to
	}
}

// readReference reads the reference at start, where value has "${". The kind is empty if it is not
// one of this package's references.
func readReference(value string, start int) reference {
	rest := value[start+len("${"):]
	for _, kind := range []string{"env", "secret", "file"} {
		after, ok := strings.CutPrefix(rest, kind+":")
		if !ok {
			continue
		}
		body, _, closed := strings.Cut(after, "}")
		r := reference{kind: kind, body: body, from: start, closed: closed}
		r.to = start + len("${") + len(kind) + len(":") + len(body)
		if closed {
			r.to++
		}
		return r
	}
	return reference{from: start, to: start + len("${")}
}

func (i *interpolator) resolveReference(n *Node, r reference) (string, bool) {
	name, fallback, hasFallback := r.body, "", false
	if r.kind == "env" {
		name, fallback, hasFallback = strings.Cut(r.body, ":-")
	}
	text := Text{Value: n.Value, Pos: n.Pos, node: n}
	if problem := i.validateReference(r, name, fallback); problem != "" {
		i.report(text.Errorf(r.from, "value", "%s", problem).WithHint("write %s", r.expectedForms()))
		return "", false
	}
	value, err := i.lookup(r.kind, name)
	lookupErr, isLookupErr := errors.AsType[*LookupError](err)
	switch {
	case err == nil && (value != "" || r.kind != "secret"):
		return value, true
	case errors.Is(err, ErrKept):
		return "", false
	case hasFallback:
		if isLookupErr && lookupErr.Ignored != "" {
			i.report(text.Warnf(r.from, lookupErr.Rule, "%s; using the default", lookupErr.Ignored).WithHint("%s", lookupErr.Hint))
		}
		return fallback, true
	case isLookupErr:
		i.report(text.Errorf(r.from, lookupErr.Rule, "%s", lookupErr.Message).WithHint("%s", lookupErr.Hint))
	case r.kind == "env":
		i.report(text.Errorf(r.from, "env", "environment variable %s is not set", name).
			WithHint("set %s, or write ${env:%s:-default}", name, name).
			WithProposal("${env:"+name+"}", "${env:"+name+":-default}"))
	case r.kind == "secret" && (err == nil || errors.Is(err, ErrUnset)):
		i.report(text.Errorf(r.from, "secret", "secret %s is not set or is empty", name).
			WithHint("create the file %s in the --secrets directory, or set the environment variable %s", name, name))
	default:
		i.report(text.Errorf(r.from, "file", "%s", err))
	}
	return "", false
}

// expectedForms lists the valid forms for a reference of this kind.
func (r reference) expectedForms() string {
	switch r.kind {
	case "secret":
		return "${secret:NAME}"
	case "file":
		return "${file:PATH}"
	}
	return "${env:NAME} or ${env:NAME:-default}"
}

func (i *interpolator) report(d Diagnostic) { i.ds = append(i.ds, d) }

func (i *interpolator) validateReference(r reference, name, fallback string) string {
	switch {
	case !r.closed:
		return "reference is not closed: missing }"
	case name == "":
		return "reference has no name"
	case r.kind == "env" && !i.namePatterns()["env"].MatchString(name):
		return "invalid environment variable name \"" + name + "\""
	case r.kind == "secret" && !i.namePatterns()["secret"].MatchString(name):
		return "invalid secret name \"" + name + "\""
	case strings.Contains(fallback, "${"):
		return "a default cannot contain another reference"
	}
	return ""
}

// HasReference reports whether the scalar contained references.
func (n *Node) HasReference() bool { return n != nil && len(n.parts) > 0 }

// BeforeInterpolation returns a scalar as it was before references were replaced; false
// if it had none.
func (n *Node) BeforeInterpolation() (written string, ok bool) { return n.written, len(n.parts) > 0 }

// Patch applies a JSON merge patch (RFC 7396): it merges mappings key by key, null
// removes a key, and any other value replaces the previous one. Nodes keep their
// positions. Patch does not change its arguments; the result shares nodes with them.
func Patch(base, patch *Node) *Node {
	if patch.Kind != Mapping {
		return patch
	}
	merged := *patch
	merged.Entries = nil
	if base != nil && base.Kind == Mapping {
		merged = *base
		merged.Entries = slices.Clone(base.Entries)
	}
	for _, e := range patch.Entries {
		at := slices.IndexFunc(merged.Entries, func(old Entry) bool { return old.Key.Value == e.Key.Value })
		switch {
		case e.Value.IsNull() && at >= 0:
			merged.Entries = slices.Delete(merged.Entries, at, at+1)
		case e.Value.IsNull():
		case at >= 0:
			merged.Entries[at] = Entry{e.Key, Patch(merged.Entries[at].Value, e.Value)}
		default:
			merged.Entries = append(merged.Entries, Entry{e.Key, Patch(nil, e.Value)})
		}
	}
	return &merged
}

// Text is a string with its position, for messages and templates. It accepts strings,
// and numbers and booleans as written.
type Text struct {
	Value string
	Pos   Pos
	node  *Node
}

// DecodeSpec decodes a scalar.
func (t *Text) DecodeSpec(n *Node) Diagnostics {
	if n.Kind != Scalar || n.IsNull() {
		return Diagnostics{n.typeError(stringType)}
	}
	*t = Text{Value: n.Value, Pos: n.Pos, node: n}
	return nil
}

// Text returns the scalar with its position, or an empty text if n is nil or not a scalar.
func (n *Node) Text() Text {
	if n == nil {
		return Text{}
	}
	if n.Kind != Scalar {
		return Text{Pos: n.Pos, node: n}
	}
	return Text{Value: n.Value, Pos: n.Pos, node: n}
}

// SchemaSpec describes the accepted types.
func (t *Text) SchemaSpec() map[string]any {
	return map[string]any{"type": []any{"string", "number", "boolean"}}
}

// String returns the value.
func (t Text) String() string { return t.Value }

// At returns the position for a byte offset in Value. In a folded block, or a plain or quoted
// string over several lines, it returns where the string starts.
func (t Text) At(offset int) Pos {
	if t.node == nil {
		return t.Pos
	}
	return t.node.positionAt(offset)
}

// Mapping returns a mapping with one entry at the text's position, for texts that are its short
// form.
func (t Text) Mapping(key, value string) *Node {
	scalar := func(v string) *Node { return &Node{Pos: t.Pos, Tag: strTag, Value: v, src: t.nodeSource()} }
	return &Node{Pos: t.Pos, Kind: Mapping, Tag: mapTag, Entries: []Entry{{scalar(key), scalar(value)}}, src: t.nodeSource()}
}

func (t Text) nodeSource() *source {
	if t.node == nil {
		return nil
	}
	return t.node.src
}

// FindCuttingComment returns where a comment ends a plain scalar on one line, which may have been
// meant as a part of it.
func (t Text) FindCuttingComment() (at Pos, ok bool) {
	if t.node == nil || t.node.src == nil || !t.node.isPlain() || t.node.HasReference() {
		return at, false
	}
	rest, ok := strings.CutPrefix(t.node.src.textFrom(t.Pos), t.Value)
	if gap := len(rest) - len(strings.TrimLeft(rest, " ")); ok && gap > 0 && strings.HasPrefix(rest[gap:], "#") {
		at = t.Pos
		at.Col += utf8.RuneCountInString(t.Value) + gap
		return at, true
	}
	return at, false
}

// Errorf returns an error at a byte offset in the text.
func (t Text) Errorf(offset int, rule, format string, args ...any) Diagnostic {
	pos := t.At(offset)
	d := Diagnostic{Pos: pos, Rule: rule, Message: fmt.Sprintf(format, args...)}
	if t.node != nil {
		d.Source = t.node.src.lineText(pos.Line)
	}
	return d
}

// Warnf returns a warning at a byte offset in the text.
func (t Text) Warnf(offset int, rule, format string, args ...any) Diagnostic {
	d := t.Errorf(offset, rule, format, args...)
	d.Severity = Warning
	return d
}

// An Expr is an expression's source.
type Expr struct{ Text }
