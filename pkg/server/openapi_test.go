package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"google.golang.org/genai"
)

// Every route of the server is described, and the document has each of its paths.
func TestOpenAPIListsEveryRoute(t *testing.T) {
	s := New(nil, nil)
	paths := readOpenAPI(t)["paths"].(map[string]any)
	for _, rt := range s.allRoutes() {
		if rt.Doc.ID == "" || rt.Doc.Tag == "" || rt.Doc.Summary == "" && rt.Doc.Answer != notSupported {
			t.Errorf("%s %s is not described: %+v", rt.Method, rt.Pattern, rt.Doc)
		}
		for _, pattern := range rt.listPatterns() {
			method, path := splitPattern(pattern)
			if item, _ := paths[path].(map[string]any); item[strings.ToLower(method)] == nil {
				t.Errorf("the document does not have %s", pattern)
			}
		}
	}
}

// readOpenAPI returns the document served to clients.
func readOpenAPI(t *testing.T) map[string]any {
	t.Helper()
	w := httptest.NewRecorder()
	New(nil, nil).ServeHTTP(w, httptest.NewRequest("GET", "/openapi.json", nil))
	doc, err := jsonschema.UnmarshalJSON(w.Body)
	if err != nil || w.Code != 200 {
		t.Fatalf("GET /openapi.json = %d: %v", w.Code, err)
	}
	return doc.(map[string]any)
}

// Operation IDs are unique, references resolve, and path parameters are declared once.
func TestOpenAPIIsValid(t *testing.T) {
	doc := readOpenAPI(t)
	ids := map[string]string{}
	for path, item := range doc["paths"].(map[string]any) {
		for method, v := range item.(map[string]any) {
			op, _ := v.(map[string]any)
			id := fmt.Sprint(op["operationId"])
			if ids[id] != "" {
				t.Errorf("%s and %s %s have the same id %s", ids[id], method, path, id)
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

// The schema of Part and its fields have every field of Gemini's SDK.
func TestOpenAPIPartHasEveryField(t *testing.T) {
	schemas := readOpenAPI(t)["components"].(map[string]any)["schemas"].(map[string]any)
	for name, of := range map[string]any{
		"Content": genai.Content{}, "Part": genai.Part{}, "Blob": genai.Blob{}, "FileData": genai.FileData{},
		"FunctionCall": genai.FunctionCall{}, "FunctionResponse": genai.FunctionResponse{},
	} {
		var want []string
		for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			want = append(want, key)
		}
		slices.Sort(want)
		got := slices.Sorted(maps.Keys(schemas[name].(map[string]any)["properties"].(map[string]any)))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-genai +openapi.yaml):\n%s", name, diff)
		}
	}
}

// Accepted requests and all responses in testdata/http match the document and have no
// undeclared keys.
func TestOpenAPIDescribesExchanges(t *testing.T) {
	checker := newSchemaChecker(t, readOpenAPI(t))
	files, err := filepath.Glob("testdata/http/*.txtar")
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
				for _, problem := range checker.checkExchange(request, f.Data) {
					t.Errorf("%s: %s: %v", filepath.Base(file), firstLine(request), problem)
				}
			}
		}
	}
	if checker.checked < 100 {
		t.Errorf("only %d bodies were checked", checker.checked)
	}
}

// The schema check rejects responses that do not match the document.
func TestOpenAPICheckFindsFaults(t *testing.T) {
	checker := newSchemaChecker(t, readOpenAPI(t))
	for _, answer := range []string{`{"status":"fine"}`, `{"status":"ok","more":1}`, `[]`} {
		if len(checker.checkExchange([]byte("GET /health\n"), []byte("200\nContent-Type: application/json\n\n"+answer+"\n"))) == 0 {
			t.Errorf("%s is accepted as the response of /health", answer)
		}
	}
}

func firstLine(text []byte) string {
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// A schemaChecker validates bodies against the schemas of a document.
type schemaChecker struct {
	doc      map[string]any
	compiler *jsonschema.Compiler
	routes   *Server
	checked  int
}

func newSchemaChecker(t *testing.T, doc map[string]any) *schemaChecker {
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
	return &schemaChecker{doc: doc, compiler: c, routes: New(nil, &Options{Metrics: NewMetrics("")})}
}

// checkExchange returns the mismatches of an exchange.
func (c *schemaChecker) checkExchange(request, response []byte) (problems []error) {
	method, target, _ := strings.Cut(firstLine(request), " ")
	_, pattern := c.routes.mux.Handler(httptest.NewRequest(method, target, nil))
	status, err := strconv.Atoi(firstLine(response))
	if err != nil || pattern == "" || !strings.Contains(string(response), "\nContent-Type: application/json\n") {
		return nil
	}
	_, path := splitPattern(pattern)
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
	text, _ := json.Marshal(renameKeys(fields))
	return text
}

func (c *schemaChecker) schemaAt(keys ...string) map[string]any {
	at := c.doc
	for _, key := range keys {
		at, _ = at[key].(map[string]any)
	}
	return at
}

func (c *schemaChecker) validateBody(at []string, body []byte) error {
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

// The page lists every operation and has no inline scripts or styles.
func TestDocsPage(t *testing.T) {
	w := httptest.NewRecorder()
	New(nil, nil).ServeHTTP(w, httptest.NewRequest("GET", "/docs", nil))
	page := w.Body.String()
	for _, rt := range New(nil, nil).allRoutes() {
		if !strings.Contains(page, `<details id="`+rt.Doc.ID+`">`) {
			t.Errorf("the page does not have %s %s", rt.Method, rt.Pattern)
		}
	}
	for _, m := range regexp.MustCompile(`href="#(\w+)"`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(page, `id="`+m[1]+`"`) {
			t.Errorf("unresolved link to %s", m[1])
		}
	}
	if policy := w.Header().Get("Content-Security-Policy"); policy != pageCSP || strings.Contains(page, "<script") || strings.Contains(page, "style=") {
		t.Errorf("policy = %q", policy)
	}
	if _, err := os.Stat("ui/docs.css"); err != nil {
		t.Error(err)
	}
}
