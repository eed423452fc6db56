package openapitool

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"

	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/httptool"
)

func mustParse(tb testing.TB, yaml string) *spec.Node {
	tb.Helper()
	n, ds := spec.Parse("app.yaml", []byte(yaml))
	if ds.HasErrors() {
		tb.Fatal(ds)
	}
	return n
}

// largeDocument generates a document with n operations, each about 3 KB.
func largeDocument(n int) []byte {
	var b strings.Builder
	b.WriteString("{\n\"openapi\": \"3.0.3\",\n\"servers\": [{\"url\": \"https://api.example.com\"}],\n\"paths\": {\n")
	for i := range n {
		if i > 0 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, `"/items/%d/{id}": {"post": {"operationId": "op%[1]d", "description": "Changes item %[1]d.", "tags": ["t"],
 "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
 "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/s%[1]d"}}}},
 "responses": {"200": {"description": "%s"}}}}`, i, strings.Repeat("text \\\" ", 300))
	}
	b.WriteString("},\n\"components\": {\"schemas\": {\n")
	for i := range n {
		if i > 0 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, `"s%d": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "description": "%s"}, "next": {"$ref": "#/components/schemas/s%d"}}}`,
			i, strings.Repeat("text ", 20), min(i+1, i/4*4+3, n-1))
	}
	b.WriteString("}}}\n")
	return []byte(b.String())
}

// BenchmarkReadLarge reads ten operations from a large document: a generated one, or the file in
// AGENTHOST_OPENAPI_FILE with the operations in AGENTHOST_OPENAPI_OPERATIONS, such as GitHub's in
// the npm package @octokit/openapi. live-MB is the heap afterwards.
func BenchmarkReadLarge(b *testing.B) {
	content, operations := largeDocument(4000), "op1, op11, op21, op31, op41, op51, op61, op71, op81, op3999"
	if file := os.Getenv("AGENTHOST_OPENAPI_FILE"); file != "" {
		var err error
		if content, err = os.ReadFile(file); err != nil {
			b.Fatal(err)
		}
		operations = os.Getenv("AGENTHOST_OPENAPI_OPERATIONS")
	}
	kind, _ := Kinds().Lookup("openapi")
	plan, ds := kind.Decode(mustParse(b, "spec: x\noperations: ["+operations+"]"))
	if ds.HasErrors() {
		b.Fatal(ds)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b.SetBytes(int64(len(content)))
	b.ReportAllocs()
	var kept tool.Set
	for b.Loop() {
		found, ds := plan.Config.(tool.DocumentConfig).ReadDocument("x", content)
		if found == nil {
			b.Fatal(ds)
		}
		var err error
		if kept, err = plan.Build(b.Context(), tool.Env{Logger: slog.New(slog.DiscardHandler), Document: found}); err != nil {
			b.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/(1<<20), "live-MB")
	runtime.KeepAlive(kept)
	runtime.KeepAlive(content)
}

// BenchmarkBuild reads a document with 50 operations, and builds their tools.
func BenchmarkBuild(b *testing.B) {
	content := largeDocument(50)
	kind, _ := Kinds().Lookup("openapi")
	plan, _ := kind.Decode(mustParse(b, "spec: x"))
	read := func() tool.Document {
		found, ds := plan.Config.(tool.DocumentConfig).ReadDocument("x", content)
		if found == nil {
			b.Fatal(ds)
		}
		return found
	}
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			read()
		}
	})
	found := read()
	b.Run("build", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := plan.Build(b.Context(), tool.Env{Logger: slog.New(slog.DiscardHandler), Document: found}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCall compares calling an operation with calling an http tool.
func BenchmarkCall(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"ok": true}`)
	}))
	defer s.Close()
	env := tool.Env{Logger: slog.New(slog.DiscardHandler)}
	measure := func(name string, set tool.Set, err error) {
		if err != nil {
			b.Fatal(err)
		}
		tools, err := set.Tools(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tools[0].Run(b.Context(), newCall(map[string]any{"id": "7", "limit": 3})); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	kind, _ := httptool.Kinds().Lookup("http")
	plan, _ := kind.Decode(mustParse(b, "{name: get, url: \""+s.URL+"/pets/{args.id}\", query: {limit: \"{args.limit}\"}, params: {id: string, limit: integer}}"))
	set, err := plan.Build(b.Context(), env)
	measure("http", set, err)
	own, _ := Kinds().Lookup("openapi")
	plan, _ = own.Decode(mustParse(b, "spec: x"))
	found, ds := plan.Config.(tool.DocumentConfig).ReadDocument("x", []byte(`{"openapi": "3.0.0", "servers": [{"url": "`+s.URL+`"}], "paths": {"/pets/{id}": {"get": {"operationId": "get",
 "parameters": [{"name": "id", "in": "path", "schema": {"type": "string"}}, {"name": "limit", "in": "query", "schema": {"type": "integer"}}]}}}}`))
	if found == nil {
		b.Fatal(ds)
	}
	env.Document = found
	set, err = plan.Build(b.Context(), env)
	measure("openapi", set, err)
}

// FuzzReadDocument reads any document without panic, and a reduced document to an equal one.
func FuzzReadDocument(f *testing.F) {
	pets, err := os.ReadFile("testdata/petstore.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{string(pets), strings.ReplaceAll(string(pets), "HOST", "https://a.example.com"), pingDocument, string(largeDocument(2)), `{"openapi":"3","paths":{"/a":{"get":{"$ref":"#/paths/~1a"}}}}`} {
		f.Add([]byte(seed))
	}
	kind, _ := Kinds().Lookup("openapi")
	plan, _ := kind.Decode(mustParse(f, "spec: x\nbase_url: https://a.example.com"))
	config := plan.Config.(tool.DocumentConfig)
	f.Fuzz(func(t *testing.T, content []byte) {
		found, _ := config.ReadDocument("x", content)
		if found == nil {
			return
		}
		if _, ds := config.ReadDocument("x", found.Reduced()); ds.HasErrors() {
			t.Errorf("the reduced document has errors: %s\n%s", ds, found.Reduced())
		}
	})
}
