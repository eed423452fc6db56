package tool

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// A bodyTemplate is a value with placeholders: exactly one field is set, or
// none for a constant.
type bodyTemplate struct {
	text     *valueTemplate
	object   []bodyMember
	list     []*bodyTemplate
	constant any
}

type bodyMember struct {
	key  string
	body *bodyTemplate
}

// compileBody returns nil if there is no body.
func (c *configCompiler) compileBody(n *spec.Node) *bodyTemplate {
	switch {
	case n == nil:
		return nil
	case n.Kind == spec.Mapping:
		return c.compileBodyObject(n)
	case n.Kind == spec.Sequence:
		return c.compileBodyList(n)
	case n.Tag != "!!str":
		return &bodyTemplate{constant: n.Any()}
	}
	text, err := compileValue(n.Value, c.params)
	if err != nil {
		c.addDiagnostic(n.Errorf("placeholder", "%s", err))
	}
	return &bodyTemplate{text: text}
}

func (c *configCompiler) compileBodyObject(n *spec.Node) *bodyTemplate {
	b := &bodyTemplate{object: make([]bodyMember, len(n.Entries))}
	for i, e := range n.Entries {
		b.object[i] = bodyMember{e.Key.Value, c.compileBody(e.Value)}
	}
	return b
}

func (c *configCompiler) compileBodyList(n *spec.Node) *bodyTemplate {
	b := &bodyTemplate{list: make([]*bodyTemplate, len(n.Items))}
	for i, item := range n.Items {
		b.list[i] = c.compileBody(item)
	}
	return b
}

// render fills in the placeholders. The second result is false for an optional
// placeholder without a value, which is omitted from its map or list.
func (b *bodyTemplate) render(call *Call) (any, bool, error) {
	switch {
	case b.text != nil:
		return b.text.renderValue(call)
	case b.object != nil:
		return b.renderObject(call)
	case b.list != nil:
		return b.renderList(call)
	default:
		return b.constant, true, nil
	}
}

func (b *bodyTemplate) renderObject(call *Call) (any, bool, error) {
	m := make(map[string]any, len(b.object))
	for _, member := range b.object {
		v, ok, err := member.body.render(call)
		if err != nil {
			return nil, false, err
		}
		if ok {
			m[member.key] = v
		}
	}
	return m, true, nil
}

func (b *bodyTemplate) renderList(call *Call) (any, bool, error) {
	list := make([]any, 0, len(b.list))
	for _, item := range b.list {
		v, ok, err := item.render(call)
		if err != nil {
			return nil, false, err
		}
		if ok {
			list = append(list, v)
		}
	}
	return list, true, nil
}

// A response is a decoded response with a 2xx status.
type response struct {
	status int
	header http.Header
	body   any
}

// responseEnv declares the variables of the result expression.
func responseEnv() template.Env {
	return template.Env{"status": int64(0), "headers": map[string]any{}, "body": nil}
}

// exprVars returns the values of the variables in responseEnv. Header names are
// in lower case.
func (r *response) exprVars() map[string]any {
	headers := make(map[string]any, len(r.header))
	for name, values := range r.header {
		headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	return map[string]any{"status": int64(r.status), "headers": headers, "body": r.body}
}

// readResponse reads a response of at most limit bytes, with *** for secrets
// that the service repeats. A status other than 2xx is an error.
func readResponse(resp *http.Response, limit int64, redactor *spec.Redactor) (*response, error) {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	tooLarge := int64(len(raw)) > limit
	raw = []byte(redactor.RedactString(string(raw)))
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, newStatusError(resp, raw)
	}
	if err != nil {
		return nil, fmt.Errorf("reading response: %w", err)
	}
	if tooLarge {
		return nil, fmt.Errorf("the response exceeds the limit of %s", formatSize(limit))
	}
	body, err := decodeBody(resp.Header.Get("Content-Type"), raw)
	if err != nil {
		return nil, err
	}
	header := resp.Header.Clone()
	for _, values := range header {
		for i := range values {
			values[i] = redactor.RedactString(values[i])
		}
	}
	return &response{status: resp.StatusCode, header: header, body: redactor.RedactValue(body)}, nil
}

// newStatusError returns an error with the status and the beginning of the
// body.
func newStatusError(resp *http.Response, raw []byte) error {
	const most = 200
	text := strings.TrimSpace(strings.ToValidUTF8(string(raw[:min(len(raw), most)]), ""))
	status := resp.Status
	if text != "" {
		status += ": " + text
	}
	return errors.New(status)
}

// decodeBody decodes JSON if the content type declares it or the body looks
// like it, and text otherwise. An empty body is nil.
func decodeBody(contentType string, raw []byte) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind = ""
	}
	if kind == "application/json" || strings.HasSuffix(kind, "+json") {
		v, err := decodeJSON(raw)
		if err != nil {
			return nil, fmt.Errorf("response declared as JSON but failed to parse: %w", err)
		}
		return v, nil
	}
	if raw[0] == '{' || raw[0] == '[' {
		if v, err := decodeJSON(raw); err == nil {
			return v, nil
		}
	}
	if strings.HasPrefix(kind, "text/") {
		return strings.ToValidUTF8(string(raw), "\uFFFD"), nil
	}
	if !utf8.Valid(raw) {
		return nil, fmt.Errorf("the response is neither JSON nor UTF-8 text (content type %q)", kind)
	}
	return string(raw), nil
}

// formatSize formats a size in the largest unit that is exact.
func formatSize(n int64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB"}
	i := 0
	for i < len(units)-1 && n >= 1024 && n%1024 == 0 {
		n, i = n/1024, i+1
	}
	return fmt.Sprintf("%d %s", n, units[i])
}
