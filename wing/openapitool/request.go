package openapitool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"agenthost/internal/toolconfig"
	"agenthost/internal/toolhttp"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// newRequest builds a call's request. Its errors name parameters, never values.
func (o *operation) newRequest(ctx context.Context, call *tool.Call) (*http.Request, error) {
	path, err := o.renderPath(call.Args)
	if err != nil {
		return nil, err
	}
	body, contentType, err := o.encodeBody(call.Args)
	if err != nil {
		return nil, err
	}
	query, err := o.encodeQuery(call.Args)
	if err != nil {
		return nil, err
	}
	address := toolhttp.AppendQuery(o.server.Value+path, query)
	if len(address) > maxURL {
		return nil, errURLTooLong
	}
	req, err := http.NewRequestWithContext(ctx, o.method, address, body)
	if err != nil {
		return nil, errors.New("url: invalid URL after rendering")
	}
	toolhttp.SetRequestHeaders(req, call, contentType)
	return req, o.setParameters(req, call.Args)
}

// maxURL limits a request's URL, in bytes; services accept less.
const maxURL = 64 << 10

var errURLTooLong = fmt.Errorf("the URL exceeds the limit of %d KiB", maxURL>>10)

// valueOf returns a parameter's value: the fixed one, or the call's. Null is a value only in a
// body.
func (p *parameter) valueOf(args map[string]any) (any, bool) {
	if p.hasFixed {
		return p.fixed, p.fixed != nil
	}
	v, ok := args[p.name]
	return v, ok && (v != nil || p.in == "body")
}

// renderPath fills in the placeholders. A value is one segment, unless the document allows
// several; . and .. would lead to another resource, also for services that decode %2F.
func (o *operation) renderPath(args map[string]any) (string, error) {
	path, _, _ := strings.Cut(o.path, "#")
	path, query, hasQuery := strings.Cut(path, "?")
	for _, p := range o.params {
		if p.in != "path" {
			continue
		}
		v, ok := p.valueOf(args)
		text := p.formatValue(v, p.escapePath)
		if !ok || text == "" || joinValues(v, ",", ",", p.escapePath) == "" {
			return "", fmt.Errorf("path parameter %s is empty", p.name)
		}
		plain, err := url.PathUnescape(text)
		if err != nil || slices.ContainsFunc(strings.FieldsFunc(plain, isSlash), isDots) {
			return "", fmt.Errorf("parameter %s must not contain . or .. segments", p.name)
		}
		name := "{" + p.original + "}"
		if len(path)+strings.Count(path, name)*len(text) > maxURL {
			return "", errURLTooLong
		}
		path = strings.ReplaceAll(path, name, text)
	}
	if hasQuery { // the document's
		path += "?" + query
	}
	return path, nil
}

// escapePath escapes a path value. A colon would begin another operation's custom method
// (google.aip.dev/136).
func (p *parameter) escapePath(value string) string {
	escaped := strings.ReplaceAll(url.PathEscape(value), ":", "%3A")
	if p.keepsSlashes {
		escaped = strings.ReplaceAll(escaped, "%2F", "/")
	}
	return escaped
}

func isSlash(r rune) bool { return r == '/' || r == '\\' }

func isDots(segment string) bool { return segment == "." || segment == ".." }

// formatValue returns the value as one string, by its style or as JSON.
func (p *parameter) formatValue(v any, escape func(string) string) string {
	if p.asJSON {
		return escape(template.String(v))
	}
	return p.style.formatValue(p.original, v, escape)
}

// encodeQuery encodes the query parameters in the document's order. Every value that was given is
// sent, also false, 0 and the empty string.
func (o *operation) encodeQuery(args map[string]any) (string, error) {
	var pairs []string
	for _, p := range o.params {
		v, ok := p.valueOf(args)
		if !ok || p.in != "query" {
			continue
		}
		fields, err := o.fieldsOf(p, v, url.QueryEscape)
		if err != nil {
			return "", err
		}
		for _, f := range fields {
			pairs = append(pairs, url.QueryEscape(f.name)+"="+f.value)
		}
	}
	return strings.Join(pairs, "&"), nil
}

// fieldsOf returns a parameter's fields. Their names cannot be other parameters' names in the same
// place: one could be fixed in the settings.
func (o *operation) fieldsOf(p *parameter, v any, escape func(string) string) ([]field, error) {
	if p.asJSON {
		return []field{{p.original, escape(template.String(v))}}, nil
	}
	fields, err := p.style.appendFields(nil, p.original, v, escape)
	if err != nil {
		return nil, fmt.Errorf("parameter %s: %w", p.name, err)
	}
	for _, other := range o.params {
		if other == p || other.in != p.in {
			continue
		}
		if slices.ContainsFunc(fields, func(f field) bool { return f.name == other.original }) {
			return nil, fmt.Errorf("parameter %s must not contain %s, which is another parameter", p.name, other.name)
		}
	}
	return fields, nil
}

// setParameters sets the headers and cookies that are parameters.
func (o *operation) setParameters(req *http.Request, args map[string]any) error {
	for _, p := range o.params {
		v, ok := p.valueOf(args)
		if !ok {
			continue
		}
		switch p.in {
		case "header":
			text := p.formatValue(v, withoutEscapes)
			if strings.ContainsAny(text, "\r\n\x00") || !toolconfig.IsHeaderName(p.original) {
				return fmt.Errorf("header %s: the name or the value is invalid", p.name)
			}
			req.Header.Set(p.original, text)
		case "cookie":
			if !toolconfig.IsHeaderName(p.original) {
				return fmt.Errorf("cookie %s: the name is invalid", p.name)
			}
			addCookie(req, p.original, p.formatValue(v, withoutEscapes))
		}
	}
	return nil
}

func withoutEscapes(text string) string { return text }

// encodeBody returns the request body and its media type; both are empty if there is none.
func (o *operation) encodeBody(args map[string]any) (io.Reader, string, error) {
	if o.body == nil {
		return nil, "", nil
	}
	value, ok := o.bodyValue(args)
	if !ok {
		return nil, "", nil
	}
	kind := encodingOf(o.body.mediaType)
	if value == nil && kind != jsonEncoding {
		return nil, "", nil
	}
	switch kind {
	case formEncoding:
		form, err := o.encodeForm(value)
		return strings.NewReader(form), o.body.mediaType, err
	case multipartEncoding:
		return o.encodeMultipart(value)
	case rawEncoding:
		return strings.NewReader(template.String(value)), o.body.mediaType, nil
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, "", fmt.Errorf("body: %w", err)
	}
	mediaType := o.body.mediaType
	if strings.Contains(mediaType, "*") {
		mediaType = "application/json"
	}
	return bytes.NewReader(raw), mediaType, nil
}

// bodyValue returns the body's value: the argument that is the body, or an object with the given
// properties. An optional body without properties is left out.
func (o *operation) bodyValue(args map[string]any) (any, bool) {
	object := map[string]any{}
	for _, p := range o.params {
		if p.in != "body" {
			continue
		}
		v, ok := p.valueOf(args)
		if o.body.whole {
			return v, ok
		}
		if ok {
			object[p.original] = v
		}
	}
	if o.body.takesMore {
		o.addUndeclared(object, args)
	}
	return object, len(object) > 0 || o.body.required
}

// addUndeclared adds the arguments that the document neither names nor forbids. Parameter names are
// taken, also those of fixed ones.
func (o *operation) addUndeclared(object, args map[string]any) {
	taken := maps.Clone(o.body.hidden)
	if taken == nil {
		taken = map[string]bool{}
	}
	for _, p := range o.params {
		taken[p.name], taken[p.original] = true, true
	}
	for name, v := range args {
		if !taken[name] {
			object[name] = v
		}
	}
}

// A formField is a form field with its part's media type.
type formField struct {
	field
	mediaType string
	isFile    bool
}

// formFields returns a form's fields, sorted by their properties. A list is repeated and an object
// is JSON, unless the document sets a style or a media type; null is left out.
func (o *operation) formFields(value any, escape func(string) string) ([]formField, error) {
	object, ok := value.(map[string]any)
	if !ok {
		object = map[string]any{"body": value}
	}
	var fields []formField
	for _, name := range slices.Sorted(maps.Keys(object)) {
		v := object[name]
		if v == nil {
			continue
		}
		p := o.fieldOf(name)
		found, mediaType := []field(nil), p.contentType
		switch list, isList := v.([]any); {
		case p.hasStyle:
			var err error
			if found, err = o.fieldsOf(p, v, escape); err != nil {
				return nil, err
			}
		case isList && !p.isJSON():
			for _, item := range list {
				found = append(found, field{name, escape(template.String(item))})
			}
		default:
			found = []field{{name, escape(template.String(v))}}
		}
		if _, isObject := v.(map[string]any); isObject && mediaType == "" && !p.hasStyle {
			mediaType = "application/json"
		}
		for _, f := range found {
			fields = append(fields, formField{f, mediaType, p.isFile()})
		}
	}
	return fields, nil
}

// isJSON reports whether the whole value is one field in JSON.
func (p *parameter) isJSON() bool {
	return p.contentType != "" && encodingOf(p.contentType) == jsonEncoding
}

// encodeForm encodes a form's fields.
func (o *operation) encodeForm(value any) (string, error) {
	fields, err := o.formFields(value, url.QueryEscape)
	if err != nil {
		return "", err
	}
	pairs := make([]string, len(fields))
	for i, f := range fields {
		pairs[i] = url.QueryEscape(f.name) + "=" + f.value
	}
	return strings.Join(pairs, "&"), nil
}

// encodeMultipart encodes each field as a part; a binary one is a file with its name.
func (o *operation) encodeMultipart(value any) (io.Reader, string, error) {
	fields, err := o.formFields(value, withoutEscapes)
	if err != nil {
		return nil, "", err
	}
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	for _, f := range fields {
		disposition := fmt.Sprintf(`form-data; name="%s"`, escapeQuotes(f.name))
		if f.isFile {
			disposition += fmt.Sprintf(`; filename="%s"`, escapeQuotes(f.name))
		}
		header := textproto.MIMEHeader{"Content-Disposition": {disposition}}
		if f.mediaType != "" {
			header.Set("Content-Type", f.mediaType)
		}
		part, err := w.CreatePart(header)
		if err == nil {
			_, err = io.WriteString(part, f.value)
		}
		if err != nil {
			return nil, "", fmt.Errorf("body: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, "", fmt.Errorf("body: %w", err)
	}
	return &out, w.FormDataContentType(), nil
}

// isFile reports whether the parameter is a form file, or a list of files.
func (p *parameter) isFile() bool {
	items, _ := p.schema["items"].(map[string]any)
	return p.in == "body" && (p.schema["format"] == "binary" || items["format"] == "binary" || p.schema["contentMediaType"] != nil)
}

func escapeQuotes(name string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\r", "%0D", "\n", "%0A").Replace(name)
}
