package tool

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"agenthost/internal/charset"
	"agenthost/pkg/spec"
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

// newStatusError returns an error with the status and the beginning of the
// body, unless it is a file.
func newStatusError(resp *http.Response, raw []byte) error {
	const most = 200
	contentType := resp.Header.Get("Content-Type")
	raw = charset.DecodeText(contentType, raw)
	text := strings.TrimSpace(strings.ToValidUTF8(string(raw[:min(len(raw), most)]), ""))
	kind, _, _ := mime.ParseMediaType(contentType)
	status := resp.Status
	if text != "" && !isFileType(kind) && !strings.Contains(text, "\x00") {
		status += ": " + text
	}
	return errors.New(status)
}

// decodeBody decodes JSON if the content type declares it or the body looks
// like it, and text otherwise, each in its charset. Other bytes are a file. An
// empty body is nil.
func decodeBody(contentType string, raw []byte) (*Response, error) {
	got := &Response{raw: raw}
	if len(raw) == 0 {
		return got, nil
	}
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind = ""
	}
	if kind == "application/json" || strings.HasSuffix(kind, "+json") {
		if got.Body, err = decodeJSON(charset.DecodeJSON(contentType, raw)); err != nil {
			return nil, fmt.Errorf("response declared as JSON but failed to parse: %w", err)
		}
		got.IsJSON = true
		return got, nil
	}
	text := raw
	if strings.HasPrefix(kind, "text/") || params["charset"] != "" || utf8.Valid(raw) {
		text = charset.DecodeText(contentType, raw)
	}
	if !isFileType(kind) && len(text) > 0 && (text[0] == '{' || text[0] == '[') {
		if v, err := decodeJSON(text); err == nil {
			got.Body, got.IsJSON = v, true
			return got, nil
		}
	}
	switch {
	case strings.HasPrefix(kind, "text/"):
		got.Body = strings.ToValidUTF8(string(text), "\uFFFD")
	case isFileType(kind) || !utf8.Valid(text):
		got.file = newFile(kind, raw)
	default:
		got.Body = string(text)
	}
	return got, nil
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
