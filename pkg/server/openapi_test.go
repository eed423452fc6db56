package server

import (
	"maps"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"google.golang.org/genai"
)

// Every route on the server is described, and the document has each path.
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

// The schemas for Part and its fields have every field in Gemini's SDK.
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
