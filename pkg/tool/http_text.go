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
type valueText struct {
	paths *template.Paths
	alone bool
}

func parseValue(src string, p *Params) (*valueText, error) {
	paths, err := template.ParsePaths(src)
	if err != nil {
		return nil, err
	}
	if err := p.checkRefs(paths.Refs()); err != nil {
		return nil, err
	}
	return &valueText{paths: paths, alone: isAlone(src, paths.Refs())}, nil
}

func isAlone(src string, refs []template.Ref) bool {
	if len(refs) != 1 {
		return false
	}
	return src == "{"+refs[0].Name+"}" || src == "{"+refs[0].Name+"?}"
}

type namedText struct {
	name string
	text *valueText
}

// texts sorts the texts by name, so that requests are always the same.
func (c *compiler) texts(src map[string]spec.Text) []namedText {
	texts := make([]namedText, 0, len(src))
	for _, name := range slices.Sorted(maps.Keys(src)) {
		v, err := parseValue(src[name].Value, c.params)
		if err != nil {
			c.add(located(src[name], "placeholder", err))
		}
		texts = append(texts, namedText{name, v})
	}
	return texts
}

// value is what the text stands for in a call; false if it is a single
// optional placeholder without value.
func (t *valueText) value(call *Call) (any, bool, error) {
	find := lookup(call)
	if !t.alone {
		s, err := t.paths.Render(find, nil)
		return s, true, plainMissing(err)
	}
	ref := t.paths.Refs()[0]
	v, ok := find(ref.Name)
	if !ok && !ref.Optional {
		return nil, false, plainMissing(&template.MissingError{Ref: ref})
	}
	return v, ok, nil
}

// plainMissing says what to write instead, where ADK's text only says that
// something is missing.
func plainMissing(err error) error {
	if missing := (*template.MissingError)(nil); errors.As(err, &missing) {
		name := missing.Ref.Name
		return fmt.Errorf("%s has no value; if it may be missing, write {%s?}", name, name)
	}
	return err
}

// A urlText is an address with placeholders in its path and its query. The
// host is fixed, so that nobody who talks to the agent can choose it.
type urlText struct {
	base        string
	path, query *template.Paths
}

var urlBase = regexp.MustCompile(`^https?://[^/?#{}\\]+`)

func (c *compiler) url(src spec.Text) *urlText {
	base := urlBase.FindString(src.Value)
	rest := src.Value[len(base):]
	parsed, err := url.Parse(base)
	if base == "" || err != nil || parsed.Hostname() == "" || rest != "" && !strings.ContainsRune("/?#", rune(rest[0])) {
		c.add(src.Errorf(0, "url",
			"want http:// or https:// and a fixed host; placeholders may stand in the path and the query"))
		return nil
	}
	cut := len(base) + queryStart(rest)
	return &urlText{
		base:  base,
		path:  c.section(src, len(base), cut),
		query: c.section(src, cut, len(src.Value)),
	}
}

func (c *compiler) section(src spec.Text, from, to int) *template.Paths {
	paths, err := template.ParsePaths(src.Value[from:to])
	if err == nil {
		err = c.params.checkRefs(paths.Refs())
	}
	if err == nil {
		return paths
	}
	if te := (*template.Error)(nil); errors.As(err, &te) {
		err = &template.Error{Offset: from + te.Offset, Msg: te.Msg}
	}
	c.add(located(src, "placeholder", err))
	return nil
}

// queryStart is where the query or fragment begins; a question mark inside
// braces belongs to a placeholder.
func queryStart(s string) int {
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

func (t *urlText) refs() []template.Ref { return slices.Concat(t.path.Refs(), t.query.Refs()) }

func (t *urlText) render(call *Call) (string, error) {
	path, err := t.renderPath(call)
	if err != nil {
		return "", err
	}
	query, err := t.query.Render(lookup(call), url.QueryEscape)
	if err != nil {
		return "", plainMissing(err)
	}
	return t.base + path + query, nil
}

// renderPath keeps values inside their segment: an empty one or a step up
// would address something else.
func (t *urlText) renderPath(call *Call) (string, error) {
	find := lookup(call)
	for _, ref := range t.path.Refs() {
		if v, ok := find(ref.Name); ok && template.String(v) == "" && !ref.Optional {
			return "", fmt.Errorf("%s is empty", ref.Name)
		}
	}
	path, err := t.path.Render(find, url.PathEscape)
	if err != nil {
		return "", plainMissing(err)
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return "", errors.New("the path has a . or .. in it")
		}
	}
	return path, nil
}
