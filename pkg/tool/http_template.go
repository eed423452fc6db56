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

// A valueTemplate is a string with placeholders. A single placeholder without
// other text renders to the value itself: numbers stay numbers.
type valueTemplate struct {
	parts         []templatePart
	isSingleValue bool
}

// A templatePart is either text with placeholders or a secret without any.
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

// compileSecret compiles the text between the secrets: braces inside a secret
// are literal.
func compileSecret(src spec.Secret, p *Params) (*valueTemplate, error) {
	parts := src.Parts()
	if len(parts) < 2 && src.Value == src.Reveal() {
		return compileValue(src.Value, p)
	}
	t := &valueTemplate{}
	for _, part := range parts {
		if part.Hidden {
			t.parts = append(t.parts, templatePart{secret: part.Text})
			continue
		}
		v, err := compileValue(part.Text, p)
		if err != nil {
			return nil, shiftError(err, part.Offset)
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

// compileTexts sorts the templates by name, so that requests are deterministic.
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

// SecretsOf returns the secrets in the texts.
func SecretsOf(all ...map[string]spec.Secret) []string {
	var secrets []string
	for _, texts := range all {
		for _, text := range texts {
			for _, p := range text.Parts() {
				if p.Hidden {
					secrets = append(secrets, p.Text)
				}
			}
		}
	}
	return secrets
}

// placeholders lists the placeholders of all parts.
func (t *valueTemplate) placeholders() []template.Ref {
	var all []template.Ref
	for _, p := range t.parts {
		if p.paths != nil {
			all = append(all, p.paths.Refs()...)
		}
	}
	return all
}

// renderValue returns the value for a call. The second result is false for a
// single optional placeholder without a value.
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

// explainMissing replaces ADK's error for a missing value with one that names
// the fix.
func explainMissing(err error) error {
	if missing := (*template.MissingError)(nil); errors.As(err, &missing) {
		name := missing.Ref.Name
		return fmt.Errorf("%s has no value; if it is optional, write {%s?}", name, name)
	}
	return err
}

// A urlTemplate is a URL with placeholders in its path and query. The host is
// fixed, so that no user of the agent can choose it.
type urlTemplate struct {
	base        string
	path, query *template.Paths
}

// ConstantHost returns the scheme and host with which an http or https URL begins, or
// "" if the host contains a placeholder or is missing.
func ConstantHost(url string) string { return urlBase.FindString(url) }

var urlBase = regexp.MustCompile(`^https?://[^/?#{}\\]+`)

func (c *configCompiler) compileURL(src spec.Text) *urlTemplate {
	base := ConstantHost(src.Value)
	rest := src.Value[len(base):]
	parsed, err := url.Parse(base)
	if base == "" || err != nil || parsed.Hostname() == "" || rest != "" && !strings.ContainsRune("/?#", rune(rest[0])) {
		c.addDiagnostic(src.Errorf(0, "url",
			"the URL must start with http:// or https:// and a fixed host; placeholders are allowed in the path and the query only"))
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

// shiftError adds offset to the position of a template error.
func shiftError(err error, offset int) error {
	if te := (*template.Error)(nil); errors.As(err, &te) {
		return &template.Error{Offset: offset + te.Offset, Msg: te.Msg}
	}
	return err
}

// findQueryStart returns the start of the query or fragment; a question mark
// inside braces belongs to a placeholder.
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

// renderPath keeps values inside their path segment: an empty segment or ..
// would address another resource.
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
			return "", errors.New("the path must not contain . or .. segments")
		}
	}
	return path, nil
}
