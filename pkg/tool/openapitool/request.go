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

	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// newRequest builds the request of a call. Its errors name parameters, never values.
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
	address := tool.AppendQuery(o.server.Value+path, query)
	if len(address) > maxURL {
		return nil, errURLTooLong
	}
	req, err := http.NewRequestWithContext(ctx, o.method, address, body)
	if err != nil {
		return nil, errors.New("url: invalid URL after rendering")
	}
	tool.SetRequestHeaders(req, call, contentType)
	return req, o.setParameters(req, call.Args)
}

// maxURL limits the URL of a request, in bytes; services accept less.
const maxURL = 64 << 10

var errURLTooLong = fmt.Errorf("the URL exceeds the limit of %d KiB", maxURL>>10)

// valueOf returns the value of a parameter: the fixed one, or that of the call.
func (p *parameter) valueOf(args map[string]any) (any, bool) {
	if p.hasFixed {
		return p.fixed, p.fixed != nil
	}
	v, ok := args[p.name]
	return v, ok && v != nil
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
		text := p.joinValues(v, p.escapePath)
		if !ok || text == "" {
			return "", fmt.Errorf("parameter %s of the path is empty", p.name)
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
	if hasQuery { // of the document
		path += "?" + query
	}
	return path, nil
}

// escapePath escapes a value of the path. A colon would begin the custom method of another
// operation (google.aip.dev/136).
func (p *parameter) escapePath(value string) string {
	escaped := strings.ReplaceAll(url.PathEscape(value), ":", "%3A")
	if p.keepsSlashes {
		escaped = strings.ReplaceAll(escaped, "%2F", "/")
	}
	return escaped
}

func isSlash(r rune) bool { return r == '/' || r == '\\' }

func isDots(segment string) bool { return segment == "." || segment == ".." }

// joinValues formats a value in one string: lists and objects are joined by commas.
func (p *parameter) joinValues(v any, escape func(string) string) string {
	switch v := v.(type) {
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = escape(template.String(item))
		}
		return strings.Join(parts, ",")
	case map[string]any:
		if p.asJSON {
			break
		}
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, escape(key), escape(template.String(v[key])))
		}
		return strings.Join(parts, ",")
	}
	return escape(template.String(v))
}

// encodeQuery encodes the query parameters in the order of the document. Every value that was
// given is sent, also false, 0 and the empty string.
func (o *operation) encodeQuery(args map[string]any) (string, error) {
	var pairs []string
	for _, p := range o.params {
		v, ok := p.valueOf(args)
		if !ok || p.in != "query" {
			continue
		}
		if err := o.checkKeys(p, v); err != nil {
			return "", err
		}
		pairs = p.appendQuery(pairs, v)
	}
	return strings.Join(pairs, "&"), nil
}

// checkKeys rejects an object whose keys become parameters, if one is another parameter: it could
// be fixed in the settings.
func (o *operation) checkKeys(p *parameter, v any) error {
	object, ok := v.(map[string]any)
	if !ok || p.asJSON || !p.explode || p.style == "deepObject" {
		return nil
	}
	for _, other := range o.params {
		if _, ok := object[other.original]; ok && other != p && other.in == "query" {
			return fmt.Errorf("parameter %s must not contain %s, which is another parameter", p.name, other.name)
		}
	}
	return nil
}

func (p *parameter) appendQuery(pairs []string, v any) []string {
	add := func(name, value string) { pairs = append(pairs, url.QueryEscape(name)+"="+value) }
	switch v := v.(type) {
	case []any:
		switch {
		case p.asJSON:
			add(p.original, url.QueryEscape(template.String(v)))
		case p.explode:
			for _, item := range v {
				add(p.original, url.QueryEscape(template.String(item)))
			}
		default:
			parts := make([]string, len(v))
			for i, item := range v {
				parts[i] = url.QueryEscape(template.String(item))
			}
			separators := map[string]string{"spaceDelimited": "%20", "pipeDelimited": "%7C"}
			separator, ok := separators[p.style]
			if !ok {
				separator = ","
			}
			add(p.original, strings.Join(parts, separator))
		}
	case map[string]any:
		switch {
		case p.asJSON:
			add(p.original, url.QueryEscape(template.String(v)))
		case p.style == "deepObject" || p.explode:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				name := key
				if p.style == "deepObject" {
					name = p.original + "[" + key + "]"
				}
				add(name, url.QueryEscape(template.String(v[key])))
			}
		default:
			add(p.original, p.joinValues(v, url.QueryEscape))
		}
	default:
		add(p.original, url.QueryEscape(template.String(v)))
	}
	return pairs
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
			text := p.joinValues(v, func(s string) string { return s })
			if strings.ContainsAny(text, "\r\n\x00") || !tool.IsHeaderName(p.original) {
				return fmt.Errorf("header %s: the name or the value is invalid", p.name)
			}
			req.Header.Set(p.original, text)
		case "cookie":
			if !tool.IsHeaderName(p.original) {
				return fmt.Errorf("cookie %s: the name is invalid", p.name)
			}
			addCookie(req, p.original, p.joinValues(v, func(s string) string { return s }))
		}
	}
	return nil
}

// encodeBody returns the request body and its media type; both are empty if there is none.
func (o *operation) encodeBody(args map[string]any) (io.Reader, string, error) {
	if o.body == nil {
		return nil, "", nil
	}
	value, ok := o.bodyValue(args)
	if !ok {
		return nil, "", nil
	}
	switch kind := encodingOf(o.body.mediaType); kind {
	case formEncoding:
		return strings.NewReader(encodeForm(value)), o.body.mediaType, nil
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

// bodyValue returns the value of the body: the argument that is the body, or an object of the
// properties that were given. An optional body without properties is left out.
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
	return object, len(object) > 0 || o.body.required
}

// encodeForm encodes the fields of a form; lists are repeated.
func encodeForm(value any) string {
	fields := url.Values{}
	for name, v := range formFields(value) {
		for _, item := range v {
			fields.Add(name, item)
		}
	}
	return fields.Encode()
}

// formFields returns the fields of a form with their values.
func formFields(value any) map[string][]string {
	object, ok := value.(map[string]any)
	if !ok {
		object = map[string]any{"body": value}
	}
	fields := make(map[string][]string, len(object))
	for name, v := range object {
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		for _, item := range list {
			fields[name] = append(fields[name], template.String(item))
		}
	}
	return fields
}

// encodeMultipart encodes each field as a part; a binary one is a file of its name.
func (o *operation) encodeMultipart(value any) (io.Reader, string, error) {
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	fields := formFields(value)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		disposition := fmt.Sprintf(`form-data; name="%s"`, escapeQuotes(name))
		if slices.ContainsFunc(o.params, func(p *parameter) bool { return p.original == name && p.isFile() }) {
			disposition += fmt.Sprintf(`; filename="%s"`, escapeQuotes(name))
		}
		for _, text := range fields[name] {
			part, err := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {disposition}})
			if err == nil {
				_, err = io.WriteString(part, text)
			}
			if err != nil {
				return nil, "", fmt.Errorf("body: %w", err)
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, "", fmt.Errorf("body: %w", err)
	}
	return &out, w.FormDataContentType(), nil
}

// isFile reports whether the parameter is a file of a form, or a list of files.
func (p *parameter) isFile() bool {
	items, _ := p.schema["items"].(map[string]any)
	return p.in == "body" && (p.schema["format"] == "binary" || items["format"] == "binary" || p.schema["contentMediaType"] != nil)
}

func escapeQuotes(name string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\r", "%0D", "\n", "%0A").Replace(name)
}
