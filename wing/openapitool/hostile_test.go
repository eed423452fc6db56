package openapitool

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/tool"
)

// pingDocument has one operation without parameters.
const pingDocument = `{"openapi": "3.0.0", "servers": [{"url": "HOST"}], "security": [{"a": []}],
"paths": {"/ping": {"get": {"operationId": "ping"}}}, "components": {"securitySchemes": {"a": {"type": "SCHEME", "scheme": "basic", "in": "query", "name": "key"}}}}`

// A hostile or broken service's response is bounded, and secrets in it are redacted.
func TestHostileResponses(t *testing.T) {
	release := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("X-Mode") {
		case "large":
			fmt.Fprint(w, strings.Repeat("x", 10<<20))
		case "lying":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "<html>")
		case "garbage":
			w.Header().Set("Content-Type", "application/octet-stream")
			_, _ = w.Write([]byte{0xff, 0xfe, 0})
		case "image":
			w.Header().Set("Content-Type", "image/png")
			fmt.Fprint(w, "\x89 s3cret-PASSWORD")
		case "loop":
			http.Redirect(w, r, "/ping", http.StatusFound)
		case "slow":
			<-release
		case "status":
			w.WriteHeader(http.StatusTeapot)
			fmt.Fprint(w, "no: ", r.URL.Query().Get("key"))
		case "json":
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprintf(w, `{"authorization": %q, "list": [%q]}`, r.Header.Get("Authorization"), "s3cret-PASSWORD")
		case "empty":
			w.WriteHeader(http.StatusNoContent)
		}
	})
	t.Cleanup(func() { close(release) }) // before the server closes
	for _, tt := range []struct{ mode, auth, want string }{
		{"large", "", "error: openapi tool ping: the response exceeds the limit of 1 MiB"},
		{"lying", "", "error: openapi tool ping: response declared as JSON but failed to parse: expected a value, got '<' at byte 0"},
		{"garbage", "", `{"artifact":"ping-ba778c02.bin","mime_type":"application/octet-stream","size":3,"version":0}`},
		{"garbage", "artifacts: {ping: \"{agent?}/a.bin\"}\n", `error: openapi tool ping: artifact: artifact name "/a.bin" must be relative: invalid`},
		{"garbage", "artifacts: {ping: a.bin}\nresult: {ping: body.artifact}\n", `{"result":"a.bin"}`},
		{"image", "auth: {basic: {username: bot, password: \"${secret:PASSWORD}\"}}\n", `{"artifact":"ping-1e0aa006.png","mime_type":"image/png","size":5,"version":0}`},
		{"loop", "", "error: openapi tool ping: stopped after 10 redirects"},
		{"slow", "timeout: 50ms\n", "error: ping: timed out after 50ms"},
		{"status", "auth: {api_key: \"${secret:KEY}\"}\n", "error: openapi tool ping: 418 I'm a teapot: no: ***"},
		{"json", "auth: {basic: {username: bot, password: \"${secret:PASSWORD}\"}}\n", `{"authorization":"Basic ***","list":["***"]}`},
		{"empty", "", ""},
		{"json", "result: {ping: \"body.list[0]\"}\nauth: {basic: {username: bot, password: \"${secret:PASSWORD}\"}}\n", `{"result":"***"}`},
	} {
		t.Run(tt.mode, func(t *testing.T) {
			scheme := "http"
			if strings.Contains(tt.auth, "api_key") {
				scheme = "apiKey"
			}
			doc := strings.NewReplacer("HOST", s.URL, "SCHEME", scheme).Replace(pingDocument)
			tools := mustReadTools(t, doc, "spec: api.json\nheaders: {X-Mode: "+tt.mode+"}\n"+tt.auth)
			if diff := cmp.Diff(tt.want, callTool(t.Context(), tools["ping"], nil)); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

// A credential is sent as its scheme asks: in the query, a cookie, or as Basic.
func TestCredentialsPlacedByScheme(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		encoded := base64.StdEncoding.EncodeToString([]byte(r.Header.Get("Authorization") + r.URL.RawQuery + r.Header.Get("Cookie") + r.Header.Get("X-Key")))
		fmt.Fprint(w, encoded)
	})
	doc := func(scheme string) string {
		return `{"openapi": "3.0.0", "servers": [{"url": "` + s.URL + `"}], "security": [{"a": []}], "paths": {"/ping": {"get": {"operationId": "ping"}}}, "components": {"securitySchemes": {"a": ` + scheme + `}}}`
	}
	for _, tt := range []struct{ scheme, auth, want string }{
		{`{"type": "apiKey", "in": "query", "name": "key"}`, `{api_key: k y}`, "key=k+y"},
		{`{"type": "apiKey", "in": "cookie", "name": "key"}`, `{api_key: k}`, "key=k"},
		{`{"type": "http", "scheme": "Basic"}`, `{basic: {username: u, password: p}}`, "Basic dTpw"},
		{`{"type": "oauth2"}`, `{bearer: t}`, "Bearer t"},
		{`{"type": "oauth2"}`, `{api_key: {in: header, name: X-Key, value: v}}`, "v"},
	} {
		tools := mustReadTools(t, doc(tt.scheme), "spec: api.json\nauth: "+tt.auth)
		got, _ := base64.StdEncoding.DecodeString(callTool(t.Context(), tools["ping"], nil))
		if string(got) != tt.want {
			t.Errorf("%s with %s = %q, want %q", tt.scheme, tt.auth, got, tt.want)
		}
	}
}

// ADK's form has the same tools; its document is in the config.
func TestADKToolset(t *testing.T) {
	s := serve(t, echo)
	text := strings.NewReplacer("HOST", s.URL, "SCHEME", "http", "\n", " ").Replace(pingDocument)
	for _, form := range []string{"spec_str: '" + text + "'", "spec_dict: " + text} {
		tools := mustReadTools(t, "", form+"\ntool_name_prefix: my\ntool_filter: [ping]\nauth_scheme: {type: apiKey, in: header, name: X-Key}\nauth_credential: {auth_type: apiKey, api_key: \"${secret:KEY}\"}\n")
		if got := callTool(t.Context(), tools["my_ping"], nil); got != "GET /ping\nX-Key: ***\n" {
			t.Errorf("%s: %q", form, got)
		}
	}
}

// A model's arguments neither replace a parameter that the settings fix, nor make a request
// arbitrarily long.
func TestHostileArguments(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.RawQuery) })
	doc := `{"openapi": "3.0.0", "servers": [{"url": "` + s.URL + `"}], "paths": {"/` + strings.Repeat("{id}/", 200) + `": {"get": {"operationId": "find", "parameters": [
		{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}},
		{"name": "tenant", "in": "query", "schema": {"type": "string"}},
		{"name": "filter", "in": "query", "schema": {"type": "object", "additionalProperties": true}}]}}}}`
	tools := mustReadTools(t, doc, "spec: api.json\nparams: {find: {tenant: mine}}")
	for _, tt := range []struct {
		args map[string]any
		want string
	}{
		{map[string]any{"id": "1", "filter": map[string]any{"a&tenant": "x"}}, "tenant=mine&a%26tenant=x"},
		{map[string]any{"id": "1", "filter": map[string]any{"tenant": "other"}}, "error: openapi tool find: parameter filter must not contain tenant, which is another parameter"},
		{map[string]any{"id": strings.Repeat("x", 1000)}, "error: openapi tool find: the URL exceeds the limit of 64 KiB"},
		{map[string]any{"id": "1", "filter": map[string]any{"a": strings.Repeat("x", 70_000)}}, "error: openapi tool find: the URL exceeds the limit of 64 KiB"},
	} {
		if got := callTool(t.Context(), tools["find"], tt.args); got != tt.want {
			t.Errorf("%.200v: %.300s, want %s", tt.args, got, tt.want)
		}
	}
}

// A document that refers to itself, is deeply nested or very large costs bounded time and
// memory.
func TestHostileDocuments(t *testing.T) {
	doc := func(paths, components string) string {
		return `{"openapi": "3.0.0", "servers": [{"url": "https://a.example.com"}], "paths": {` + paths + `}, "components": {"schemas": {` + components + `}}}`
	}
	body := func(schema string) string {
		return `"/a": {"post": {"operationId": "a", "requestBody": {"content": {"application/json": {"schema": ` + schema + `}}}}}`
	}
	var fan, ops strings.Builder
	for i := range 40 { // 2^40 schemas if they were copied
		fmt.Fprintf(&fan, `"s%d": {"type": "object", "properties": {"a": {"$ref": "#/components/schemas/s%d"}, "b": {"$ref": "#/components/schemas/s%[2]d"}}},`, i, i+1)
	}
	for i := range 50_000 {
		fmt.Fprintf(&ops, `"/p%d": {"get": {"operationId": "op%[1]d", "responses": {"200": {"description": "`+strings.Repeat("d", 100)+`"}}}},`, i)
	}
	var variables, properties, schemas strings.Builder
	for i := range 60 { // 2^60 bytes if they were expanded
		fmt.Fprintf(&variables, `"v%d": {"default": "{v%d}{v%[2]d}"},`, i, i+1)
	}
	for i := range 40_000 { // 1.6 billion comparisons without an index
		fmt.Fprintf(&properties, `"p%d": {"$ref": "#/components/schemas/last"},`, i)
		fmt.Fprintf(&schemas, `"s%d": {},`, i)
	}
	server := func(url string) string {
		return `{"openapi": "3.0.0", "servers": [{"url": "` + url + `", "variables": {` + variables.String() + `"v60": {"default": "x"}}}], "paths": {"/a": {"get": {"operationId": "a"}}}}`
	}
	var names strings.Builder
	for i := range 1200 {
		fmt.Fprintf(&names, `{"name": "p%d", "in": "query"},`, i)
	}
	deep := strings.Repeat(`{"items": `, 500) + "{}" + strings.Repeat("}", 500)
	for _, tt := range []struct{ name, doc, yaml, want string }{
		{"fan", doc(body(`{"$ref": "#/components/schemas/s0"}`), fan.String()+`"s40": {}`), "spec: x", `operation a has more than 300 schemas: the others accept any value`},
		{"cycle of references", doc(body(`{"$ref": "#/components/schemas/a"}`), `"a": {"$ref": "#/components/schemas/b"}, "b": {"$ref": "#/components/schemas/a"}`), "spec: x", "the reference leads to itself"},
		{"cycle of all", doc(body(`{"$ref": "#/components/schemas/a"}`), `"a": {"allOf": [{"$ref": "#/components/schemas/a"}, {"type": "object"}]}`), "spec: x", ""},
		{"remote", doc(body(`{"$ref": "https://evil.example.com/a"}`), ""), "spec: x", "references must stay within the document, got"},
		{"file", doc(body(`{"$ref": "file:///etc/passwd"}`), ""), "spec: x", "references must stay within the document, got"},
		{"variables of variables", server("https://a.example.com/{v0}"), "spec: x", "the server URL with its variables exceeds the limit of 2000 characters"},
		{"long server", server("https://a.example.com/" + strings.Repeat("a", 2000)), "spec: x", "the server URL with its variables exceeds the limit of 2000 characters"},
		{"long path", doc(`"/`+strings.Repeat("{a}", 1000)+`": {"get": {"operationId": "a"}}`, ""), "spec: x", "the path of operation a exceeds the limit of 2000 characters"},
		{"many references", doc(body(`{"type": "object", "properties": {`+properties.String()+`"q": {}}}`), schemas.String()+`"last": {}`), "spec: x", "operation a has more than 300 schemas"},
		{"many parameters", doc(`"/a": {"get": {"operationId": "a", "parameters": [`+names.String()+`{"name": "q", "in": "query"}]}}`, ""), "spec: x", "operation a has more than 1000 parameters"},
		{"nesting", doc(body(deep), ""), "spec: x", "nesting exceeds the limit of 100 levels"},
		{"nesting elsewhere", `{"x-a": ` + deep + `, ` + doc(body("{}"), "")[1:], "spec: x", ""},
		{"many operations", doc(ops.String()+body("{}"), ""), "spec: x", "50001 operations exceed the limit of 128 tools"},
		{"one of many", doc(ops.String()+body("{}"), ""), "spec: x\noperations: [op9]", ""},
		{"a word", "openapi", "spec: x", "the document must be a mapping"},
		{"nothing", "", "spec: x", "the document must be a mapping"},
		{"brackets", strings.Repeat("[", 1<<20), "spec: x", "limit"},
		{"objects", `{"a":` + strings.Repeat(`{"a":`, 1<<20), "spec: x", "nesting exceeds the limit of 100 levels"},
		{"no UTF-8", "{\"a\": \"\xff\"}", "spec: x", "not valid UTF-8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			start := time.Now()
			tools, ds := readTools(t, tt.doc, tt.yaml)
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("reading took %s", took)
			}
			if got := ds.Error(); tt.want == "" && tools == nil || !strings.Contains(got, tt.want) {
				t.Errorf("diagnostics = %.500s, want %q", got, tt.want)
			}
		})
	}
}

// From a large document, only what the chosen operations use stays in memory.
func TestLargeDocument(t *testing.T) {
	content := largeDocument(4000)
	kind, _ := Kinds().Lookup("openapi")
	plan, ds := kind.Decode(mustParse(t, "spec: x\noperations: [op1, op2, op3, op3999]"))
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	found, ds := plan.Config.(tool.DocumentConfig).ReadDocument("x", content)
	if found == nil || ds.HasErrors() {
		t.Fatal(ds)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if live := int64(after.HeapAlloc) - int64(before.HeapAlloc); live > 2<<20 {
		t.Errorf("%d bytes of the document's %d stay in memory", live, len(content))
	}
	if size := len(found.Reduced()); size > 64<<10 {
		t.Errorf("the reduced document has %d bytes", size)
	}
	runtime.KeepAlive(content)
}
