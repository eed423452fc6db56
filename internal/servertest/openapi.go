package servertest

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"agenthost/internal/jsonbody"
	"agenthost/pkg/server"
)

// CheckExchanges checks that the accepted requests and all responses in a glob's exchanges match a
// server's OpenAPI document, and have no undeclared keys. At least atLeast bodies must be checked.
func CheckExchanges(t *testing.T, srv *server.Server, glob string, atLeast int) {
	t.Helper()
	checker := NewSchemaChecker(t, srv)
	files, err := filepath.Glob(glob)
	if err != nil || len(files) == 0 {
		t.Fatalf("no exchanges: %v", err)
	}
	for _, file := range files {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var request []byte
		for _, f := range ar.Files {
			switch f.Name {
			case "request":
				request = f.Data
			case "response":
				for _, problem := range checker.CheckExchange(request, f.Data) {
					t.Errorf("%s: %s: %v", filepath.Base(file), firstLine(request), problem)
				}
			}
		}
	}
	if checker.checked < atLeast {
		t.Errorf("only %d bodies were checked", checker.checked)
	}
}

func firstLine(text []byte) string {
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// CheckDocument reports operations without their own ID, path parameters that are not declared
// once, and references that do not resolve.
func CheckDocument(t *testing.T, srv *server.Server) {
	t.Helper()
	doc := NewSchemaChecker(t, srv).doc
	ids := map[string]string{}
	for path, item := range doc["paths"].(map[string]any) {
		for method, v := range item.(map[string]any) {
			op, _ := v.(map[string]any)
			id, _ := op["operationId"].(string)
			if id == "" || ids[id] != "" {
				t.Errorf("%s %s has the ID %q, as %s", method, path, id, ids[id])
			}
			ids[id] = method + " " + path
			var declared []string
			params, _ := op["parameters"].([]any)
			for _, p := range params {
				if p := p.(map[string]any); p["in"] == "path" {
					declared = append(declared, "{"+p["name"].(string)+"}")
				}
			}
			if want := regexp.MustCompile(`\{[^}]*\}`).FindAllString(path, -1); !slices.Equal(declared, want) {
				t.Errorf("%s %s declares %v", method, path, declared)
			}
		}
	}
	checkReferences(t, doc, doc)
}

func checkReferences(t *testing.T, doc map[string]any, v any) {
	switch v := v.(type) {
	case map[string]any:
		if to, ok := v["$ref"].(string); ok {
			at := any(doc)
			for _, key := range strings.Split(strings.TrimPrefix(to, "#/"), "/") {
				at = at.(map[string]any)[key]
			}
			if at == nil {
				t.Errorf("unresolved reference %s", to)
			}
		}
		for _, inner := range v {
			checkReferences(t, doc, inner)
		}
	case []any:
		for _, inner := range v {
			checkReferences(t, doc, inner)
		}
	}
}

// A SchemaChecker validates bodies against a document's schemas.
type SchemaChecker struct {
	doc      map[string]any
	compiler *jsonschema.Compiler
	routes   *http.ServeMux
	checked  int
}

// NewSchemaChecker returns a checker for the document that a server serves.
func NewSchemaChecker(t *testing.T, srv *server.Server) *SchemaChecker {
	t.Helper()
	w := httptest.NewRecorder()
	srv.ServeHTTP(w, httptest.NewRequest("GET", "/openapi.json", nil))
	text, err := jsonschema.UnmarshalJSON(w.Body)
	if err != nil || w.Code != 200 {
		t.Fatalf("GET /openapi.json = %d: %v", w.Code, err)
	}
	doc := text.(map[string]any)
	routes := http.NewServeMux()
	for _, pattern := range srv.Patterns() {
		routes.Handle(pattern, http.NotFoundHandler())
	}
	for _, schema := range doc["components"].(map[string]any)["schemas"].(map[string]any) {
		if s := schema.(map[string]any); s["properties"] != nil && s["additionalProperties"] == nil {
			s["additionalProperties"] = false // reject undeclared keys
		}
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	return &SchemaChecker{doc: doc, compiler: c, routes: routes}
}

// CheckExchange returns an exchange's mismatches.
func (c *SchemaChecker) CheckExchange(request, response []byte) (problems []error) {
	method, target, _ := strings.Cut(firstLine(request), " ")
	_, pattern := c.routes.Handler(httptest.NewRequest(method, target, nil))
	status, err := strconv.Atoi(firstLine(response))
	if err != nil || pattern == "" || !strings.Contains(string(response), "\nContent-Type: application/json\n") {
		return nil
	}
	_, path, _ := strings.Cut(pattern, " ")
	path = strings.NewReplacer("{$}", "", "...}", "}").Replace(path)
	at := []string{"paths", path, strings.ToLower(method)}
	responses := c.schemaAt(at...)["responses"].(map[string]any)
	schema := []string{"components", "responses", "Error"}
	if responses[strconv.Itoa(status)] != nil && status != 501 {
		schema = append(slices.Clone(at), "responses", strconv.Itoa(status))
	}
	problems = append(problems, c.validateBody(append(schema, "content", "application/json", "schema"), messageBody(response)))
	if body := toDocumented(messageBody(request)); status == 200 && body != nil && c.schemaAt(at...)["requestBody"] != nil {
		problems = append(problems, c.validateBody(append(at, "requestBody", "content", "application/json", "schema"), body))
	}
	return slices.DeleteFunc(problems, func(err error) bool { return err == nil })
}

// toDocumented converts a request body to camelCase and removes nulls, which count as
// absent. It returns nil if the body is not an object.
func toDocumented(body []byte) []byte {
	var fields map[string]any
	if json.Unmarshal(body, &fields) != nil || fields == nil {
		return nil
	}
	maps.DeleteFunc(fields, func(_ string, v any) bool { return v == nil })
	text, _ := json.Marshal(jsonbody.RenameKeys(fields))
	return text
}

func (c *SchemaChecker) schemaAt(keys ...string) map[string]any {
	at := c.doc
	for _, key := range keys {
		at, _ = at[key].(map[string]any)
	}
	return at
}

func (c *SchemaChecker) validateBody(at []string, body []byte) error {
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D")
	for i := range at {
		at[i] = escape.Replace(at[i])
	}
	schema, err := c.compiler.Compile("openapi.json#/" + strings.Join(at, "/"))
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	c.checked++
	return schema.Validate(v)
}

func messageBody(message []byte) []byte {
	_, body, _ := bytes.Cut(message, []byte("\n\n"))
	return body
}
