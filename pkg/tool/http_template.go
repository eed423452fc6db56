package tool

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// A valueText is a text with placeholders. If it is one placeholder and no
// more, it stands for the value itself: numbers stay numbers.
type valueTemplate struct {
	parts         []templatePart
	isSingleValue bool
}

// A textPart is a piece of text with placeholders, or a secret, which has none.
type templatePart struct {
	paths  *template.Paths
	secret string
}

func compileValue(src string, p *Params) (*valueTemplate, error) {
	paths, err := template.ParsePaths(src)
	if err != nil {
		return nil, err
	}
	if err := p.checkPlaceholders(paths.Refs()); err != nil {
		return nil, err
	}
	return &valueTemplate{parts: []templatePart{{paths: paths}}, isSingleValue: isSinglePlaceholder(src, paths.Refs())}, nil
}

// compileSecret parses the pieces of a text between its secrets: what is in
// braces in a secret is no placeholder.
func compileSecret(src spec.Secret, p *Params) (*valueTemplate, error) {
	pieces := src.Pieces()
	if len(pieces) < 2 && src.Value == src.Reveal() {
		return compileValue(src.Value, p)
	}
	t := &valueTemplate{}
	for _, piece := range pieces {
		if piece.Hidden {
			t.parts = append(t.parts, templatePart{secret: piece.Text})
			continue
		}
		v, err := compileValue(piece.Text, p)
		if err != nil {
			return nil, shiftError(err, piece.Offset)
		}
		t.parts = append(t.parts, v.parts...)
	}
	return t, nil
}

func isSinglePlaceholder(src string, refs []template.Ref) bool {
	if len(refs) != 1 {
		return false
	}
	return src == "{"+refs[0].Name+"}" || src == "{"+refs[0].Name+"?}"
}

type namedTemplate struct {
	name string
	text *valueTemplate
}

// compileTexts sorts the texts by name, so that requests are always the same.
func (c *configCompiler) compileTexts(src map[string]spec.Secret) []namedTemplate {
	texts := make([]namedTemplate, 0, len(src))
	for _, name := range slices.Sorted(maps.Keys(src)) {
		v, err := compileSecret(src[name], c.params)
		if err != nil {
			c.addDiagnostic(templateError(src[name].Text, "placeholder", err))
		}
		texts = append(texts, namedTemplate{name, v})
	}
	return texts
}

// newRedactor hides the secrets of the texts.
func newRedactor(all ...map[string]spec.Secret) *spec.Veil {
	var secrets []string
	for _, texts := range all {
		for _, text := range texts {
			for _, p := range text.Pieces() {
				if p.Hidden {
					secrets = append(secrets, p.Text)
				}
			}
		}
	}
	return spec.NewVeil(secrets...)
}

// placeholders are the placeholders.
func (t *valueTemplate) placeholders() []template.Ref {
	var all []template.Ref
	for _, p := range t.parts {
		if p.paths != nil {
			all = append(all, p.paths.Refs()...)
		}
	}
	return all
}

// renderValue is what the text stands for in a call; false if it is a single
// optional placeholder without value.
func (t *valueTemplate) renderValue(call *Call) (any, bool, error) {
	find := valueLookup(call)
	if !t.isSingleValue {
		s, err := t.renderString(find)
		return s, true, explainMissing(err)
	}
	ref := t.placeholders()[0]
	v, ok := find(ref.Name)
	if !ok && !ref.Optional {
		return nil, false, explainMissing(&template.MissingError{Ref: ref})
	}
	return v, ok, nil
}

func (t *valueTemplate) renderString(find func(string) (any, bool)) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		if p.paths == nil {
			b.WriteString(p.secret)
			continue
		}
		s, err := p.paths.Render(find, nil)
		if err != nil {
			return "", err
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

// explainMissing says what to write instead, where ADK's text only says that
// something is missing.
func explainMissing(err error) error {
	if missing := (*template.MissingError)(nil); errors.As(err, &missing) {
		name := missing.Ref.Name
		return fmt.Errorf("%s has no value; if it may be missing, write {%s?}", name, name)
	}
	return err
}

// A urlText is an address with placeholders in its path and its query. The
// host is fixed, so that nobody who talks to the agent can choose it.
type urlTemplate struct {
	base        string
	path, query *template.Paths
}

var urlBase = regexp.MustCompile(`^https?://[^/?#{}\\]+`)

func (c *configCompiler) compileURL(src spec.Text) *urlTemplate {
	base := urlBase.FindString(src.Value)
	rest := src.Value[len(base):]
	parsed, err := url.Parse(base)
	if base == "" || err != nil || parsed.Hostname() == "" || rest != "" && !strings.ContainsRune("/?#", rune(rest[0])) {
		c.addDiagnostic(src.Errorf(0, "url",
			"want http:// or https:// and a fixed host; placeholders may stand in the path and the query"))
		return nil
	}
	cut := len(base) + findQueryStart(rest)
	return &urlTemplate{
		base:  base,
		path:  c.compileURLSection(src, len(base), cut),
		query: c.compileURLSection(src, cut, len(src.Value)),
	}
}

func (c *configCompiler) compileURLSection(src spec.Text, from, to int) *template.Paths {
	paths, err := template.ParsePaths(src.Value[from:to])
	if err == nil {
		err = c.params.checkPlaceholders(paths.Refs())
	}
	if err == nil {
		return paths
	}
	c.addDiagnostic(templateError(src, "placeholder", shiftError(err, from)))
	return nil
}

// shiftError is the error of a template that begins at an offset of its text.
func shiftError(err error, offset int) error {
	if te := (*template.Error)(nil); errors.As(err, &te) {
		return &template.Error{Offset: offset + te.Offset, Msg: te.Msg}
	}
	return err
}

// findQueryStart is where the query or fragment begins; a question mark inside
// braces belongs to a placeholder.
func findQueryStart(s string) int {
	depth := 0
	for i, r := range s {
		switch r {
		case '{':
			depth++
		case '}':
			depth = max(0, depth-1)
		case '?', '#':
			if depth == 0 {
				return i
			}
		}
	}
	return len(s)
}

func (t *urlTemplate) placeholders() []template.Ref {
	return slices.Concat(t.path.Refs(), t.query.Refs())
}

func (t *urlTemplate) renderURL(call *Call) (string, error) {
	path, err := t.renderPath(call)
	if err != nil {
		return "", err
	}
	query, err := t.query.Render(valueLookup(call), url.QueryEscape)
	if err != nil {
		return "", explainMissing(err)
	}
	return t.base + path + query, nil
}

// renderPath keeps values inside their segment: an empty one or a step up
// would address something else.
func (t *urlTemplate) renderPath(call *Call) (string, error) {
	find := valueLookup(call)
	for _, ref := range t.path.Refs() {
		if v, ok := find(ref.Name); ok && template.String(v) == "" && !ref.Optional {
			return "", fmt.Errorf("%s is empty", ref.Name)
		}
	}
	path, err := t.path.Render(find, url.PathEscape)
	if err != nil {
		return "", explainMissing(err)
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return "", errors.New("the path has a . or .. in it")
		}
	}
	return path, nil
}
