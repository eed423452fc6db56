package spec

import (
	"errors"
	"regexp"
	"strings"
	"sync"
)

// A Lookup resolves a reference by its kind (env, secret or file) and its name. Without
// a value, the error is [ErrUnset] or describes the reason.
type Lookup func(kind, name string) (string, error)

// ErrUnset means that no variable or secret has the name.
var ErrUnset = errors.New("is not set")

// Interpolate replaces the references ${env:X}, ${env:X:-default}, ${secret:X} and
// ${file:path} in every scalar of a tree except keys; any other $ is literal. It does
// not scan replacements for further references, not even when called again. If a plain
// scalar consists of one ${env:X} only, its replacement may be a number, a boolean or
// null (if empty). Quoted scalars, secrets and files are always strings. The value shows
// *** for a secret; only [Secret] exposes it.
//
// A variable that is not set and has no default is reported at its position, and so is a
// malformed reference. The scalar then keeps the reference.
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

// A LookupError is an error of a [Lookup] with its own rule and hint, for example for a
// variable that the app may not read.
type LookupError struct {
	Rule, Message, Hint string
	// Ignored is the message of a warning if the reference has a default, which is then
	// used. If it is empty, there is no warning.
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

// A substitution is the range [start, end) of a scalar's value that replaced the range
// [writtenStart, writtenEnd) of its written form. secret is the hidden value, or "".
type substitution struct {
	start, end, writtenStart, writtenEnd int
	secret                               string
}

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

// A reference is ${kind:body} in the byte range [from, to) of a value.
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

// readReference reads the reference at start, where value has "${". The kind is empty if
// it is not a reference of this package.
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
	case hasFallback:
		if isLookupErr && lookupErr.Ignored != "" {
			i.report(text.Warnf(r.from, lookupErr.Rule, "%s; using the default", lookupErr.Ignored).WithHint("%s", lookupErr.Hint))
		}
		return fallback, true
	case isLookupErr:
		i.report(text.Errorf(r.from, lookupErr.Rule, "%s", lookupErr.Message).WithHint("%s", lookupErr.Hint))
	case r.kind == "env":
		i.report(text.Errorf(r.from, "env", "environment variable %s is not set", name).
			WithHint("set %s, or write ${env:%s:-default}", name, name))
	case r.kind == "secret" && (err == nil || errors.Is(err, ErrUnset)):
		i.report(text.Errorf(r.from, "secret", "secret %s is not set or is empty", name).
			WithHint("create the file %s in the --secrets directory, or set the environment variable %s", name, name))
	default:
		i.report(text.Errorf(r.from, "file", "%s", err))
	}
	return "", false
}

// expectedForms lists the valid forms of a reference of this kind.
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
func (n *Node) HasReference() bool { return len(n.parts) > 0 }

// writtenValue returns the scalar's value for messages: with its references, because the
// replacements may be secrets.
func (n *Node) writtenValue() string {
	if len(n.parts) > 0 {
		return n.written
	}
	return n.Value
}

// sourceOffset maps an offset in the value to the scalar as written in the file, and
// returns both.
func (n *Node) sourceOffset(offset int) (written string, at int) {
	if len(n.parts) == 0 {
		return n.Value, offset
	}
	shift := 0
	for _, p := range n.parts {
		if offset < p.start {
			break
		}
		if offset < p.end {
			return n.written, p.writtenStart
		}
		shift = p.writtenEnd - p.end
	}
	return n.written, offset + shift
}

// BeforeInterpolation returns a scalar as it was before references were replaced; false
// if it had none.
func (n *Node) BeforeInterpolation() (written string, ok bool) { return n.written, len(n.parts) > 0 }
