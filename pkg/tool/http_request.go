package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"agenthost/pkg/template"
)

const userAgent = "agenthost"

// newRequest builds the request of a call. Its errors name fields and
// placeholders, never values, which may be secret.
func (t *httpTool) newRequest(ctx context.Context, call *Call) (*http.Request, error) {
	address, err := t.buildURL(call)
	if err != nil {
		return nil, err
	}
	body, kind, err := t.encodeBody(call)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, t.method, address, body)
	if err != nil {
		return nil, errors.New("url: invalid URL after rendering")
	}
	req.Header.Set("User-Agent", userAgent)
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if t.method != http.MethodGet && call.IdempotencyKey != "" {
		req.Header.Set("Idempotency-Key", call.IdempotencyKey)
	}
	return req, t.setHeaders(req, call)
}

func (t *httpTool) setHeaders(req *http.Request, call *Call) error {
	for _, h := range t.header {
		v, ok, err := h.text.renderValue(call)
		if err != nil {
			return fmt.Errorf("header %s: %w", h.name, err)
		}
		s := template.String(v)
		switch {
		case !ok:
			continue
		case strings.ContainsAny(s, "\r\n\x00"):
			return fmt.Errorf("header %s: the value contains a line break", h.name)
		case strings.EqualFold(h.name, "Host"):
			req.Host = s
		default:
			req.Header.Set(h.name, s)
		}
	}
	return nil
}

// buildURL returns the URL with the query parameters.
func (t *httpTool) buildURL(call *Call) (string, error) {
	address, err := t.url.renderURL(call)
	if err != nil {
		return "", fmt.Errorf("url: %w", err)
	}
	query := url.Values{}
	for _, q := range t.query {
		v, ok, err := q.text.renderValue(call)
		if err != nil {
			return "", fmt.Errorf("query %s: %w", q.name, err)
		}
		if list, many := v.([]any); many {
			for _, item := range list {
				query.Add(q.name, template.String(item))
			}
		} else if ok {
			query.Set(q.name, template.String(v))
		}
	}
	return appendQuery(address, query.Encode()), nil
}

func appendQuery(address, query string) string {
	switch {
	case query == "":
		return address
	case !strings.Contains(address, "?"):
		return address + "?" + query
	case strings.HasSuffix(address, "?"), strings.HasSuffix(address, "&"):
		return address + query
	default:
		return address + "&" + query
	}
}

// encodeBody returns the request body and its media type; both are empty if
// there is none.
func (t *httpTool) encodeBody(call *Call) (io.Reader, string, error) {
	var value any
	switch {
	case t.body != nil:
		v, ok, err := t.body.render(call)
		if err != nil {
			return nil, "", fmt.Errorf("body: %w", err)
		}
		if !ok {
			return nil, "", nil
		}
		if s, ok := v.(string); ok && t.body.text != nil {
			return strings.NewReader(s), "text/plain; charset=utf-8", nil
		}
		value = v
	case t.method == http.MethodGet, t.method == http.MethodDelete:
		return nil, "", nil
	default:
		value = t.unusedArgs(call.Args)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, "", fmt.Errorf("body: %w", err)
	}
	return bytes.NewReader(raw), "application/json", nil
}

// unusedArgs returns the arguments that neither the URL nor the query uses.
func (t *httpTool) unusedArgs(args map[string]any) map[string]any {
	rest := maps.Clone(args)
	if rest == nil {
		rest = map[string]any{}
	}
	drop := func(refs []template.Ref) {
		for _, ref := range refs {
			if path, ok := strings.CutPrefix(ref.Name, "args."); ok {
				name, _, _ := strings.Cut(path, ".")
				delete(rest, name)
			}
		}
	}
	drop(t.url.placeholders())
	for _, q := range t.query {
		drop(q.text.placeholders())
	}
	return rest
}
