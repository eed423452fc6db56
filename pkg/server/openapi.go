package server

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// openAPIBase is the OpenAPI document without its paths.
//
//go:embed openapi.yaml
var openAPIBase []byte

// encodeOpenAPI returns the OpenAPI document for all routes. It does not depend on the
// server's options, because it is public.
func encodeOpenAPI(routes []Route, components [][]byte) ([]byte, error) {
	doc, err := readOpenAPIBase(components)
	if err != nil {
		return nil, err
	}
	paths := map[string]map[string]any{}
	for _, rt := range routes {
		for i, pattern := range rt.listPatterns() {
			method, path := splitPattern(pattern)
			if paths[path] == nil {
				paths[path] = map[string]any{}
			}
			operation := rt.encodeOperation(path)
			if i > 0 { // the older path of a developer route
				operation["operationId"], operation["deprecated"] = rt.Doc.ID+"Old", true
			}
			operation["tags"] = []string{rt.Doc.groupTag()}
			paths[path][strings.ToLower(method)] = operation
		}
	}
	doc["paths"] = paths
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if missing := findDangling(paths[path], doc); missing != "" {
			return nil, fmt.Errorf("the docs of the routes at %s name %s, which no component has", path, missing)
		}
	}
	return EncodeJSON(doc)
}

// findDangling names a component that a value refers to and the document lacks.
func findDangling(value any, doc map[string]any) (missing string) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if ref, ok := inner.(string); ok && key == "$ref" {
				kind, name, _ := strings.Cut(strings.TrimPrefix(ref, "#/components/"), "/")
				components, _ := doc["components"].(map[string]any)
				named, _ := components[kind].(map[string]any)
				if named[name] == nil {
					return name
				}
			} else if missing := findDangling(inner, doc); missing != "" {
				return missing
			}
		}
	case []any:
		for _, inner := range v {
			if missing := findDangling(inner, doc); missing != "" {
				return missing
			}
		}
	}
	return ""
}

// readOpenAPIBase returns the document without its paths, with the extensions' components.
func readOpenAPIBase(components [][]byte) (doc map[string]any, err error) {
	if err := yaml.Unmarshal(openAPIBase, &doc); err != nil {
		return nil, err
	}
	own, _ := doc["components"].(map[string]any)
	for _, text := range components {
		var more map[string]map[string]any
		if err := yaml.Unmarshal(text, &more); err != nil {
			return nil, fmt.Errorf("parsing the components of an extension: %w", err)
		}
		for kind, named := range more {
			kept, _ := own[kind].(map[string]any)
			if kept == nil {
				kept = map[string]any{}
				own[kind] = kept
			}
			maps.Copy(kept, named)
		}
	}
	return doc, nil
}

// handleOpenAPI serves the document.
func (s *Services) handleOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	text, err := s.openAPI()
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-cache")
	WriteRawJSON(w, http.StatusOK, text)
	return nil
}

// splitPattern returns a route's method and path in OpenAPI's notation.
func splitPattern(pattern string) (method, path string) {
	method, path, _ = strings.Cut(pattern, " ")
	return method, strings.NewReplacer("{$}", "", "...}", "}").Replace(path)
}

// notSupported is the answer from a route that always responds with 501.
const notSupported = "501"

// groupTag returns the route's group.
func (d *Doc) groupTag() string { return cmp.Or(d.Tag, "server") }

// encodeOperation describes the route at one path, in OpenAPI's notation.
func (rt *Route) encodeOperation(path string) map[string]any {
	d := &rt.Doc
	o := map[string]any{"summary": d.Summary, "responses": d.encodeResponses()}
	if d.ID != "" {
		o["operationId"] = d.ID
	}
	if d.Answer == notSupported {
		o["summary"] = "Not supported by this server"
	}
	if rt.Access.isPublic() {
		o["security"] = []any{} // no token needed
	}
	var params []any
	for _, m := range pathParam.FindAllStringSubmatch(path, -1) {
		params = append(params, map[string]any{"name": m[1], "in": "path", "required": true, "schema": map[string]any{"type": "string"}})
	}
	for _, name := range d.Params {
		params = append(params, componentRef("parameters", name))
	}
	if len(params) > 0 {
		o["parameters"] = params
	}
	if d.Body != "" {
		o["requestBody"] = map[string]any{"content": mediaContent(d.Body)}
	}
	return o
}

var pathParam = regexp.MustCompile(`\{(\w+)\}`)

func (d *Doc) encodeResponses() map[string]any {
	all := map[string]any{"default": componentRef("responses", "Error")}
	switch d.Answer {
	case notSupported:
		return map[string]any{notSupported: componentRef("responses", "Error")}
	case "307":
		all["307"] = map[string]any{"description": "Redirect"}
		return all
	}
	for _, status := range []string{"200", d.AltStatus} {
		if status != "" {
			all[status] = map[string]any{"description": "The answer.", "content": mediaContent(d.Answer)}
		}
	}
	return all
}

// mediaContent returns the content object for an operation's schema.
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
