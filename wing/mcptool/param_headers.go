package mcptool

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// A stateless server may want arguments as HTTP headers too, so that a proxy can route by them (MCP
// SEP-2243): the property x-mcp-header in a tool's input schema names the header.

// paramHeaderPrefix begins the name of each such header, so that no server can set others.
const paramHeaderPrefix = "Mcp-Param-"

// maxParamHeaders and maxParamDepth bound a tool's headers, and how deep their properties are.
const (
	maxParamHeaders = 32
	maxParamDepth   = 8
)

// maxSafeInteger bounds the integers that every JSON implementation reads exactly.
const maxSafeInteger = 1<<53 - 1

// A paramHeader is an argument that is also sent as a header.
type paramHeader struct {
	// path are the names of the nested properties.
	path []string
	// name is the header's name.
	name string
}

// readParamHeaders returns the headers that an input schema asks for. It fails for a schema whose
// headers are not as in the protocol: such a tool must not be used.
func readParamHeaders(schema map[string]any) ([]paramHeader, error) {
	var headers []paramHeader
	err := collectParamHeaders(schema, nil, &headers)
	if err == nil && len(headers) > maxParamHeaders {
		err = fmt.Errorf("the schema has %d x-mcp-header, and the limit is %d", len(headers), maxParamHeaders)
	}
	return headers, err
}

func collectParamHeaders(schema map[string]any, path []string, headers *[]paramHeader) error {
	properties, _ := schema["properties"].(map[string]any)
	if len(path) >= maxParamDepth {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property, ok := properties[name].(map[string]any)
		if !ok {
			continue
		}
		inner := append(slices.Clip(path), name)
		if asked, ok := property["x-mcp-header"]; ok {
			header, err := checkParamHeader(asked, property["type"])
			if err == nil && slices.ContainsFunc(*headers, func(h paramHeader) bool { return strings.EqualFold(h.name, paramHeaderPrefix+header) }) {
				err = fmt.Errorf("x-mcp-header %s is used twice", header)
			}
			if err != nil {
				return fmt.Errorf("property %s: %w", cutText(cleanText(strings.Join(inner, ".")), maxNameShown), err)
			}
			*headers = append(*headers, paramHeader{inner, paramHeaderPrefix + header})
		}
		if err := collectParamHeaders(property, inner, headers); err != nil {
			return err
		}
	}
	return nil
}

// checkParamHeader returns the name of a header, without its prefix.
func checkParamHeader(asked, kind any) (string, error) {
	name, _ := asked.(string)
	const punctuation = "!#$%&'*+-.^_`|~" // RFC 9110, 5.6.2, tchar
	isToken := name != "" && !strings.ContainsFunc(name, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && !strings.ContainsRune(punctuation, c)
	})
	switch {
	case !isToken || len(name) > maxNameShown:
		return "", errors.New("x-mcp-header must be the name of a header")
	case kind != "string" && kind != "integer" && kind != "boolean":
		return "", fmt.Errorf("x-mcp-header needs a string, an integer or a boolean, got %s", cutText(cleanText(textOf(kind)), maxNameShown))
	}
	return name, nil
}

// paramHeadersKey is the context key for a call's headers.
type paramHeadersKey struct{}

// withParamHeaders returns a context in which requests get a call's headers. An argument that is
// missing, null or of another type has none.
func withParamHeaders(ctx context.Context, asked []paramHeader, args map[string]any) context.Context {
	headers := map[string]string{}
	for _, h := range asked {
		var v any = args
		for _, name := range h.path {
			members, _ := v.(map[string]any)
			v = members[name]
		}
		if text, ok := formatParam(v); ok {
			headers[h.name] = encodeParam(text)
		}
	}
	if len(headers) == 0 {
		return ctx
	}
	return context.WithValue(ctx, paramHeadersKey{}, headers)
}

// addParamHeaders returns a request with the headers in its context. Only calls to stateless
// servers have them.
func addParamHeaders(req *http.Request) *http.Request {
	headers, _ := req.Context().Value(paramHeadersKey{}).(map[string]string)
	if method := req.Header.Get("Mcp-Method"); len(headers) == 0 || method != callMethod && !slices.Contains(taskMethods(), method) {
		return req
	}
	req = req.Clone(req.Context())
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	return req
}

// formatParam formats an argument; ok is false for one that no header can have.
func formatParam(v any) (text string, ok bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case json.Number:
		n, err := v.Int64()
		return strconv.FormatInt(n, 10), err == nil && n >= -maxSafeInteger && n <= maxSafeInteger
	case float64:
		return strconv.FormatInt(int64(v), 10), v == float64(int64(v)) && v >= -maxSafeInteger && v <= maxSafeInteger
	case int64:
		return strconv.FormatInt(v, 10), v >= -maxSafeInteger && v <= maxSafeInteger
	case int:
		return strconv.Itoa(v), v >= -maxSafeInteger && v <= maxSafeInteger
	}
	return "", false
}

// encodeParam encodes what a header cannot carry as it is (SEP-2243).
func encodeParam(text string) string {
	const begin, end = "=?base64?", "?="
	unsafe := strings.Trim(text, " \t") != text || strings.HasPrefix(text, begin) && strings.HasSuffix(text, end) ||
		strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' })
	if unsafe {
		return begin + base64.StdEncoding.EncodeToString([]byte(text)) + end
	}
	return text
}
