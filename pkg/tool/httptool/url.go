package httptool

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"agenthost/internal/toolconfig"
	"agenthost/internal/toolhttp"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// A urlTemplate is a URL with placeholders in its path and query. The host is fixed, so that the
// agent's users cannot choose it.
type urlTemplate struct {
	base        string
	path, query *template.Paths
}

func compileURL(c *toolconfig.Compiler, src spec.Text) *urlTemplate {
	base := toolhttp.ConstantHost(src.Value)
	rest := src.Value[len(base):]
	parsed, err := url.Parse(base)
	if base == "" || err != nil || parsed.Hostname() == "" || rest != "" && !strings.ContainsRune("/?#", rune(rest[0])) {
		c.AddDiagnostic(src.Errorf(0, "url",
			"the URL must start with http:// or https:// and a fixed host; placeholders are allowed in the path and the query only"))
		return nil
	}
	cut := len(base) + findQueryStart(rest)
	return &urlTemplate{
		base:  base,
		path:  compileURLSection(c, src, len(base), cut),
		query: compileURLSection(c, src, cut, len(src.Value)),
	}
}

func compileURLSection(c *toolconfig.Compiler, src spec.Text, from, to int) *template.Paths {
	paths, err := template.ParsePaths(src.Value[from:to])
	if err == nil {
		err = c.Params.CheckPlaceholders(paths.Refs())
	}
	if err == nil {
		return paths
	}
	c.AddDiagnostic(tool.NewTemplateDiagnostic(src, "placeholder", toolconfig.ShiftError(err, from)))
	return nil
}

// findQueryStart returns where the query or fragment starts; a question mark inside braces belongs
// to a placeholder.
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

func (t *urlTemplate) renderURL(call *tool.Call) (string, error) {
	path, err := t.renderPath(call)
	if err != nil {
		return "", err
	}
	query, err := t.query.Render(toolconfig.ValueLookup(call), url.QueryEscape)
	if err != nil {
		return "", toolconfig.ExplainMissing(err)
	}
	return t.base + path + query, nil
}

// renderPath keeps values inside their path segment: an empty segment or ..
// would address another resource.
func (t *urlTemplate) renderPath(call *tool.Call) (string, error) {
	find := toolconfig.ValueLookup(call)
	for _, ref := range t.path.Refs() {
		if v, ok := find(ref.Name); ok && template.String(v) == "" && !ref.Optional {
			return "", fmt.Errorf("%s is empty", ref.Name)
		}
	}
	path, err := t.path.Render(find, url.PathEscape)
	if err != nil {
		return "", toolconfig.ExplainMissing(err)
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return "", errors.New("the path must not contain . or .. segments")
		}
	}
	return path, nil
}
