package spec

import (
	"errors"
	"regexp"
	"strings"
	"sync"
)

// A Lookup returns what a reference stands for, by its kind (env, secret or
// file) and its name. The error is [ErrUnset], or says in words for people why
// there is nothing.
type Lookup func(kind, name string) (string, error)

// ErrUnset says that there is no variable or secret of that name.
var ErrUnset = errors.New("is not set")

// Interpolate replaces the references ${env:X}, ${env:X:-default}, ${secret:X}
// and ${file:path} in every scalar of a tree but keys; any other $ is literal.
// What lookup returns is not scanned again, nor by a second call. A plain
// scalar that is one variable and nothing else takes the type of its new text,
// so ${env:PORT} may be a number, and nothing when the text is empty; a quoted
// one stays text, as do secrets and files. In the place of a secret the value
// has ***; only a [Secret] reads it.
//
// A variable that is not there and has no default is a diagnostic at its
// place, as is a reference that is not well formed. Its scalar stays as it is.
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

// A LookupError is an error of a [Lookup] that has a rule and a hint of its own,
// such as a variable that may not be read.
type LookupError struct {
	Rule, Message, Hint string
	// Ignored is what a warning says where a reference has a default that is used
	// for that reason; empty uses it without a warning.
	Ignored string
}

// Error is the message.
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

// maxScalarProblems bounds the problems that are told of one scalar.
const maxScalarProblems = 100

// A part is a piece of a scalar's value, from start to end, that stands for
// what was written from from to to. Secret is what it hides, or "".
type substitution struct {
	start, end, writtenStart, writtenEnd int
	secret                               string
}

func (i *interpolator) interpolateScalar(n *Node) {
	var value strings.Builder
	var parts []substitution
	done, before := 0, len(i.ds)
	for _, r := range findReferences(n.Value) {
		text, ok := i.resolveReference(n, r)
		if len(i.ds)-before >= maxScalarProblems {
			break
		}
		if !ok {
			continue
		}
		value.WriteString(n.Value[done:r.from])
		p := substitution{start: value.Len(), writtenStart: r.from, writtenEnd: r.to}
		if r.kind == "secret" {
			p.secret, text = text, redacted
		}
		value.WriteString(text)
		p.end = value.Len()
		parts = append(parts, p)
		done = r.to
	}
	if len(parts) == 0 {
		return
	}
	value.WriteString(n.Value[done:])
	whole := parts[0].writtenStart == 0 && parts[0].writtenEnd == len(n.Value) && strings.HasPrefix(n.Value, "${env:")
	n.written, n.Value, n.parts = n.Value, value.String(), parts
	if whole && n.style == 0 {
		n.Tag = resolveTag(n.Value)
	}
}

// A reference is ${kind:body} at the bytes from from to to of a value.
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

// readReference reads what follows a "${". The kind is empty when it is not a
// reference of ours.
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
	refused, isRefused := errors.AsType[*LookupError](err)
	switch {
	case err == nil && (value != "" || r.kind != "secret"):
		return value, true
	case hasFallback:
		if isRefused && refused.Ignored != "" {
			i.report(text.Warnf(r.from, refused.Rule, "%s: the default is used", refused.Ignored).WithHint("%s", refused.Hint))
		}
		return fallback, true
	case isRefused:
		i.report(text.Errorf(r.from, refused.Rule, "%s", refused.Message).WithHint("%s", refused.Hint))
	case r.kind == "env":
		i.report(text.Errorf(r.from, "env", "the environment variable %s is not set", name).
			WithHint("set %s, or write ${env:%s:-default}", name, name))
	case r.kind == "secret" && (err == nil || errors.Is(err, ErrUnset)):
		i.report(text.Errorf(r.from, "secret", "there is no secret %s, or it is empty", name).
			WithHint("write it to the file %s in the folder of --secrets, or set the environment variable %s", name, name))
	default:
		i.report(text.Errorf(r.from, "file", "%s", err))
	}
	return "", false
}

// expectedForms are the ways to write a reference of this kind.
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
		return "the reference that starts here has no }"
	case name == "":
		return "a reference without a name"
	case r.kind == "env" && !i.namePatterns()["env"].MatchString(name):
		return "\"" + name + "\" cannot be the name of an environment variable"
	case r.kind == "secret" && !i.namePatterns()["secret"].MatchString(name):
		return "\"" + name + "\" cannot be the name of a secret"
	case strings.Contains(fallback, "${"):
		return "a default cannot hold another reference"
	}
	return ""
}

// HasReference says whether references stood in a scalar.
func (n *Node) HasReference() bool { return len(n.parts) > 0 }

// writtenValue is a scalar's value for messages: the reference and not what it stands
// for, which may be a secret.
func (n *Node) writtenValue() string {
	if len(n.parts) > 0 {
		return n.written
	}
	return n.Value
}

// sourceOffset returns a scalar's value as it is written in the file, and what an
// offset in the present value is there.
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

// BeforeInterpolation returns what a scalar was before ${…} values were filled into it; false
// when there were none.
func (n *Node) BeforeInterpolation() (written string, ok bool) { return n.written, len(n.parts) > 0 }
