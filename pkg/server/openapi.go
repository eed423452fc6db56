package server

import (
	_ "embed"
	"net/http"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// openAPIBase is the OpenAPI document without its paths.
//
//go:embed openapi.yaml
var openAPIBase []byte

// encodeOpenAPI returns the OpenAPI document of the patterns of all routes. It does not
// depend on the options of the server, because it is public.
func encodeOpenAPI(patterns []string) ([]byte, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(openAPIBase, &doc); err != nil {
		return nil, err
	}
	described := map[string]pathItem{}
	for _, g := range operationGroups() {
		for _, op := range g.operations {
			for _, item := range op.routeItems(g.tag) {
				described[item.pattern] = item
			}
		}
	}
	paths := map[string]map[string]any{}
	for _, pattern := range patterns {
		method, path := splitPattern(pattern)
		if paths[path] == nil {
			paths[path] = map[string]any{}
		}
		paths[path][strings.ToLower(method)] = described[pattern].json
	}
	doc["paths"] = paths
	return encodeJSON(doc)
}

// handleOpenAPI serves the document.
func (s *Server) handleOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	text, err := s.openAPI()
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-cache")
	writeRawJSON(w, http.StatusOK, text)
	return nil
}

// splitPattern returns the method and the path of a route in OpenAPI's notation.
func splitPattern(pattern string) (method, path string) {
	method, path, _ = strings.Cut(pattern, " ")
	return method, strings.NewReplacer("{$}", "", "...}", "}").Replace(path)
}

// A pathItem is the operation of one route.
type pathItem struct {
	pattern string
	json    map[string]any
}

// routeItems returns an item for each of the operation's routes. Developer operations
// have two.
func (op operation) routeItems(tag string) []pathItem {
	if !strings.Contains(op.pattern, "…") {
		return []pathItem{{op.pattern, op.encodeOperation(op.pattern, tag)}}
	}
	first, older := strings.Replace(op.pattern, "…", "/dev/apps/{app}", 1), strings.Replace(op.pattern, "…", "/apps/{app}", 1)
	old := op
	old.id += "Old"
	items := []pathItem{{first, op.encodeOperation(first, tag)}, {older, old.encodeOperation(older, tag)}}
	items[1].json["deprecated"] = true
	return items
}

func (op operation) encodeOperation(pattern, tag string) map[string]any {
	o := map[string]any{"operationId": op.id, "summary": op.summary, "tags": []string{tag}, "responses": op.encodeResponses()}
	if op.answer == notSupported {
		o["summary"] = "Not supported by this server"
	}
	if isPublicRoute(pattern) {
		o["security"] = []any{} // no token needed
	}
	if params := op.encodeParameters(pattern); len(params) > 0 {
		o["parameters"] = params
	}
	if op.body != "" {
		o["requestBody"] = map[string]any{"content": mediaContent(op.body)}
	}
	return o
}

var pathParam = regexp.MustCompile(`\{(\w+)\}`)

func (op operation) encodeParameters(pattern string) []any {
	var all []any
	_, path := splitPattern(pattern)
	for _, m := range pathParam.FindAllStringSubmatch(path, -1) {
		all = append(all, map[string]any{"name": m[1], "in": "path", "required": true, "schema": map[string]any{"type": "string"}})
	}
	for _, name := range op.params {
		all = append(all, componentRef("parameters", name))
	}
	return all
}

func (op operation) encodeResponses() map[string]any {
	all := map[string]any{"default": componentRef("responses", "Error")}
	switch op.answer {
	case notSupported:
		return map[string]any{notSupported: componentRef("responses", "Error")}
	case "307":
		all["307"] = map[string]any{"description": "Redirect"}
		return all
	}
	for _, status := range []string{"200", op.altStatus} {
		if status != "" {
			all[status] = map[string]any{"description": "The answer.", "content": mediaContent(op.answer)}
		}
	}
	return all
}

// mediaContent returns the content object of an operation's schema.
func mediaContent(schema string) map[string]any {
	media, inner, text := strings.Cut(schema, ":")
	switch {
	case !strings.Contains(media, "/"):
		return map[string]any{"application/json": map[string]any{"schema": schemaFor(schema)}}
	case strings.HasPrefix(media, "multipart/"):
		return map[string]any{media: map[string]any{"schema": schemaFor(inner)}}
	case text:
		return map[string]any{media: map[string]any{"schema": map[string]any{
			"type": "string", "contentMediaType": "application/json", "contentSchema": schemaFor(inner),
			"description": "Each `data:` line is a " + inner + ".",
		}}}
	default:
		return map[string]any{media: map[string]any{"schema": map[string]any{"type": "string"}}}
	}
}

func schemaFor(name string) map[string]any {
	switch item, isList := strings.CutPrefix(name, "["); {
	case isList:
		return map[string]any{"type": "array", "items": schemaFor(strings.TrimSuffix(item, "]"))}
	case name == "":
		return map[string]any{"type": "null"}
	case name == "any":
		return map[string]any{}
	case name == "string", name == "boolean":
		return map[string]any{"type": name}
	default:
		return componentRef("schemas", name)
	}
}

func componentRef(kind, name string) map[string]any {
	return map[string]any{"$ref": "#/components/" + kind + "/" + name}
}
