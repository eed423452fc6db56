package openapitool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/pkg/connection"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	connections "agenthost/wing/connection"
)

// serve starts a server. Its URL replaces HOST in documents.
func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// echo responds with the request.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "text/plain")
	fmt.Fprintf(w, "%s %s\n", r.Method, r.RequestURI)
	for _, name := range []string{"Authorization", "Content-Type", "Cookie", "Idempotency-Key", "X-Key", "X-Tenant", "X-Trace-Id"} {
		if v := r.Header.Get(name); v != "" {
			fmt.Fprintf(w, "%s: %s\n", name, v)
		}
	}
	if len(body) > 0 {
		fmt.Fprintf(w, "\n%s", body)
	}
}

// readTools builds a document's tools with the settings in YAML.
func readTools(t *testing.T, doc, yaml string) ([]tool.Tool, spec.Diagnostics) {
	t.Helper()
	n, ds := spec.Parse("app.yaml", []byte(yaml))
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	ds = append(ds, spec.Interpolate(n, func(_, name string) (string, error) { return "s3cret-" + name, nil })...)
	kind, _ := Kinds().Lookup("openapi")
	if n.Get("spec") == nil {
		kind, _ = Toolsets[connections.ADKAuth](connections.Google{}).Lookup("OpenAPIToolset")
	}
	plan, more := kind.Decode(n)
	if ds = append(ds, more...); !ds.HasErrors() {
		ds = append(ds, plan.Config.(spec.Checker).Check(n)...)
	}
	if ds.HasErrors() {
		return nil, ds
	}
	found, more := plan.Config.(tool.DocumentConfig).ReadDocument("api.yaml", []byte(doc))
	if ds = append(ds, more...); found == nil {
		return nil, ds
	}
	again, more := plan.Config.(tool.DocumentConfig).ReadDocument("api.yaml", found.Reduced())
	if _, own := plan.Config.(*config); own && (more.HasErrors() || string(again.Reduced()) != string(found.Reduced())) {
		t.Errorf("reduced document:\n%s\n%s", more, found.Reduced())
	}
	env := tool.Env{Logger: slog.New(slog.DiscardHandler), Document: found}
	if refs, ok := plan.Config.(connection.RefConfig); ok && refs.Connection() != nil && refs.Connection().Inline != nil {
		source, err := connections.NewKind(nil).Open(refs.Connection().Inline, connection.Env{})
		if err != nil {
			t.Fatal(err)
		}
		var hosts []string
		for _, address := range found.Addresses() {
			hosts = append(hosts, connection.HostOf(address.Value))
		}
		env.Connection = connection.New("inline", source, hosts)
	}
	set, err := plan.Build(t.Context(), env)
	if err != nil {
		if failed := spec.Diagnostics(nil); errors.As(err, &failed) {
			return nil, append(ds, failed...)
		}
		t.Fatal(err)
	}
	tools, err := set.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tools, ds
}

func mustReadTools(t *testing.T, doc, yaml string) map[string]tool.Tool {
	t.Helper()
	tools, ds := readTools(t, doc, yaml)
	if tools == nil {
		t.Fatalf("reading the tools: %s", ds)
	}
	byName := map[string]tool.Tool{}
	for _, found := range tools {
		byName[found.Declaration().Name] = found
	}
	return byName
}

// mapState is a state that only reads.
type mapState map[string]any

func (s mapState) Get(key string) (any, bool)        { v, ok := s[key]; return v, ok }
func (mapState) Set(string, any)                     {}
func (mapState) Update(...session.StateUpdate) error { return nil }
func (s mapState) All() map[string]any               { return s }

// noArtifacts accepts artifacts and keeps none.
type noArtifacts struct{ tool.Artifacts }

func (noArtifacts) Save(context.Context, string, *genai.Part) (int, error) { return 0, nil }

func newCall(args map[string]any) *tool.Call {
	return &tool.Call{ID: "c1", Name: "ping", Args: args, Artifacts: noArtifacts{}, State: mapState{"user:tenant": "acme"}, Actions: &session.Actions{}, IdempotencyKey: "inv-1/call-1"}
}

// callTool runs a tool, and returns its response or its error as text.
func callTool(ctx context.Context, called tool.Tool, args map[string]any) string {
	got, err := called.Run(ctx, newCall(args))
	if err != nil {
		return "error: " + err.Error()
	}
	if text, ok := got.Response["text"].(string); ok && len(got.Response) == 1 {
		return text
	}
	raw, _ := json.Marshal(got.Response)
	return string(raw)
}

func petstore(t *testing.T, host string) string {
	t.Helper()
	raw, err := os.ReadFile("testdata/petstore.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(raw), "HOST", host)
}

// An operation's request has its arguments where the document places them.
func TestRequestPlacesArguments(t *testing.T) {
	s := serve(t, echo)
	tools := mustReadTools(t, petstore(t, s.URL), "spec: api.yaml\nauth: {api_key: \"${secret:KEY}\"}\nheaders: {X-Tenant: \"{user:tenant}\"}\nparams: {setOwner: {session: \"a b\"}}\n")
	const end = "X-Tenant: acme\n"
	// The key is redacted, because the service repeats it.
	const key = "X-Key: ***\n" + end
	const idempotency = "Idempotency-Key: inv-1/call-1\n"
	tests := []struct {
		name, tool string
		args       map[string]any
		want       string
	}{
		{"false and 0 are sent, a required default too", "list_pets", map[string]any{"sold": false, "x_trace_id": "t"}, "GET /v1/pets?limit=20&sold=false\nX-Key: ***\n" + end + "X-Trace-Id: t\n"},
		{"0", "list_pets", map[string]any{"limit": 0}, "GET /v1/pets?limit=0\n" + key},
		{
			"lists and objects", "list_pets",
			map[string]any{"limit": 1, "tags": []any{"a", "b c"}, "ids": []any{1, 2}, "filter": map[string]any{"x": "1"}, "param_from": "me&you"},
			"GET /v1/pets?limit=1&tags=a&tags=b+c&ids=1,2&filter%5Bx%5D=1&from=me%26you\n" + key,
		},
		{"a path value is one segment", "get_pet", map[string]any{"pet_id": "a/b c?"}, "GET /v1/pets/a%2Fb%20c%3F\n" + end},
		{"security: [] sends no credential", "get_pet", map[string]any{"pet_id": "{petId}"}, "GET /v1/pets/%7BpetId%7D\n" + end},
		{"optional security with a credential", "delete_pet", map[string]any{"pet_id": 7}, "error: Invoking `delete_pet()` failed as the following input parameters are wrong:\npet_id: got number, want string\nYou could retry calling this tool with parameters that fit its declaration."},
		{"the credential is sent", "delete_pet", map[string]any{"pet_id": "7"}, "DELETE /v1/pets/7\n" + idempotency + key},
		{
			"body properties", "create_pet",
			map[string]any{"name": "Rex", "param_class": "1", "id": 3, "parent": map[string]any{"name": "Max"}},
			"POST /v1/pets\nContent-Type: application/json\n" + idempotency + key + "\n" + `{"class":"1","name":"Rex","parent":{"name":"Max"}}`,
		},
		{"defaults of optional properties are not sent", "update_pet", map[string]any{"pet_id": "7", "toys": []any{"ball"}}, "PATCH /v1/pets/7\nContent-Type: application/merge-patch+json\n" + idempotency + key + "\n" + `{"toys":["ball"]}`},
		{"an optional body without values", "update_pet", map[string]any{"pet_id": "7"}, "PATCH /v1/pets/7\n" + idempotency + key},
		{"a composed body", "set_owner", map[string]any{"pet_id": "7", "body": map[string]any{"name": "Ana"}}, "PUT /v1/pets/7/owner\nContent-Type: application/json\nCookie: session=a+b\n" + idempotency + key + "\n" + `{"name":"Ana"}`},
		{"a form", "send_form", map[string]any{"a": "x&y", "b": []any{1, 2}}, "POST /v1/form\nContent-Type: application/x-www-form-urlencoded\n" + idempotency + key + "\na=x%26y&b=1&b=2"},
		{"text", "send_text", map[string]any{"body": "hello"}, "POST /v1/text\nContent-Type: text/plain\n" + idempotency + key + "\nhello"},
		{"dots", "get_pet", map[string]any{"pet_id": "../admin"}, "error: openapi tool get_pet: parameter pet_id must not contain . or .. segments"},
		{"a dot", "get_pet", map[string]any{"pet_id": `a\.`}, "error: openapi tool get_pet: parameter pet_id must not contain . or .. segments"},
		{"an empty path value", "get_pet", map[string]any{"pet_id": ""}, "error: openapi tool get_pet: path parameter pet_id is empty"},
		{"a line break in a header", "list_pets", map[string]any{"x_trace_id": "a\r\nHost: evil"}, "error: openapi tool list_pets: header x_trace_id: the name or the value is invalid"},
		{"a missing parameter", "create_pet", map[string]any{}, "error: Invoking `create_pet()` failed as the following mandatory input parameters are not present:\nname\nYou could retry calling this tool, but it is IMPORTANT for you to provide all the mandatory parameters."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, callTool(t.Context(), tools[tt.tool], tt.args)); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
	got := callTool(t.Context(), tools["send_file"], map[string]any{"note": "n", "data": "bytes"})
	got = regexp.MustCompile(`[0-9a-f]{60}`).ReplaceAllString(got, "BOUNDARY")
	want := "POST /v1/files\nContent-Type: multipart/form-data; boundary=BOUNDARY\n" + idempotency + key + "\n--BOUNDARY\r\nContent-Disposition: form-data; name=\"data\"; filename=\"data\"\r\n\r\nbytes\r\n" +
		"--BOUNDARY\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nn\r\n--BOUNDARY--\r\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("multipart (-want +got):\n%s", diff)
	}
}

// A reduced document lacks the operations that except leaves out; readTools reads both.
func TestExceptHidesOperations(t *testing.T) {
	tools := mustReadTools(t, petstore(t, "https://pets.example.com"), "spec: api.yaml\nauth: {api_key: k}\nexcept: [listPets, {method: DELETE}, {method: PUT}]\n")
	if tools["list_pets"] != nil || tools["get_pet"] == nil {
		t.Errorf("tools = %v", tools)
	}
}

// A declaration has the parameters in ADK's names, without read-only properties; recursive
// schemas become definitions.
func TestDeclarationUsesADKNames(t *testing.T) {
	tools := mustReadTools(t, petstore(t, "https://pets.example.com"), "spec: api.yaml\nauth: {api_key: k}\n")
	for name, want := range map[string]string{
		"create_pet": `{"$defs":{"pet_1":{"properties":{"class":{"enum":["1","cat",null],"type":["string","null"]},"name":{"type":"string"},"parent":{"$ref":"#/$defs/pet_1"}},"required":["name"],"type":"object"}},` +
			`"properties":{"name":{"type":"string"},"param_class":{"enum":["1","cat",null],"type":["string","null"]},"parent":{"$ref":"#/$defs/pet_1"},"x_trace_id":{"type":"string"}},"required":["name"],"title":"createPet_Arguments","type":"object"}`,
		"update_pet": `{"properties":{"name":{"default":"Rex","type":["string","null"]},"pet_id":{"type":"string"},"toys":{"items":{"type":"string"},"type":["array","null"]}},"required":["pet_id"],"title":"updatePet_Arguments","type":"object"}`,
	} {
		raw, _ := json.Marshal(tools[name].Declaration().ParametersJsonSchema)
		if diff := cmp.Diff(want, string(raw)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := tools["list_pets"].Declaration().Description; got != "Lists pets." {
		t.Errorf("description = %q", got)
	}
}

// Names are ADK's (adk-python tools/openapi_tool/common/common.py). Names are cut as in ADK, then
// with their prefix at OpenAI's limit; of equal names the second one ends with a hash. More tools
// than a model can choose from are a warning, and more than OpenAI accepts an error.
func TestNamesAndNumbers(t *testing.T) {
	document := func(ids ...string) string {
		paths := map[string]any{}
		for i, id := range ids {
			paths[fmt.Sprintf("/p%03d", i)] = map[string]any{"get": map[string]any{"operationId": id}}
		}
		raw, err := json.Marshal(map[string]any{"openapi": "3.0.0", "servers": []any{map[string]any{"url": "https://a.example.com"}}, "paths": paths})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	many := func(n int) string {
		var ids []string
		for i := range n {
			ids = append(ids, fmt.Sprintf("op%d", i))
		}
		return document(ids...)
	}
	long := strings.Repeat("name", 20)
	for _, tt := range []struct{ name, doc, yaml, tools, problem string }{
		{"cut as ADK does", document(long), "spec: x", long[:60], ""},
		{"cut with the prefix", document(long), "spec: x\ntool_name_prefix: petstore", "petstore_" + long[:55], "the tool name is cut to petstore_" + long[:55] + ": it exceeds the limit of 64 characters"},
		{"equal after the cut", document(long+"A", long+"B"), "spec: x", long[:60] + " " + long[:55] + "_c29f4bec", "the second is named " + long[:55]},
		{"equal names", document("getPet", "get_pet"), "spec: x", "get_pet get_pet_c29f4bec", "the tools of getPet and get_pet have the same name: the second is named get_pet_"},
		{"own name", document("getPet", "get_pet"), "spec: x\nnames: {get_pet: other}", "none", "tools of getPet and get_pet have the same name other"},
		{"20 tools", many(20), "spec: x", "", ""},
		{"21 tools", many(21), "spec: x", "", "21 operations become tools: models choose worse among more than 20"},
		{"128 tools", many(128), "spec: x", "", "128 operations become tools: models choose worse among more than 20"},
		{"129 tools", many(129), "spec: x", "none", "129 operations exceed the limit of 128 tools"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tools, ds := readTools(t, tt.doc, tt.yaml)
			var names []string
			for _, found := range tools {
				names = append(names, found.Declaration().Name)
			}
			if got := strings.Join(names, " "); tt.tools != "" && tt.tools != "none" && got != tt.tools {
				t.Errorf("tools = %s, want %s", got, tt.tools)
			}
			if (tools == nil) != (tt.tools == "none") {
				t.Errorf("tools = %v", names)
			}
			if got := fmt.Sprint(ds); tt.problem == "" && len(ds) > 0 || !strings.Contains(got, tt.problem) {
				t.Errorf("problems = %s, want %q", got, tt.problem)
			}
		})
	}
}

func TestSnakeName(t *testing.T) {
	for in, want := range map[string]string{
		"listPets": "list_pets", "X-Request-ID": "x_request_id", "GetHTTPResponse": "get_http_response", "filter[name]": "filter_name",
		"repos/list-for-org": "repos_list_for_org", "user.ID2Name": "user_id2_name", "/pets/{petId}_get": "pets_pet_id_get",
		"OAuth2Token": "o_auth2_token", "getV2Users": "get_v2_users", "S3Bucket": "s3_bucket", "getPetByIDAndName": "get_pet_by_id_and_name", "日本": "",
	} {
		if got := snakeName(in); got != want {
			t.Errorf("snakeName(%q) = %q, want %q", in, got, want)
		}
	}
	taken := map[string]bool{}
	var got []string
	for _, name := range []string{"id", "id", "id_0", "id"} {
		got = append(got, uniqueName(name, taken))
	}
	if diff := cmp.Diff([]string{"id", "id_0", "id_0_0", "id_1"}, got); diff != "" {
		t.Error(diff)
	}
	if got := parameterName("from", "query", true); got != "param_from" {
		t.Errorf("a keyword = %q", got)
	}
	if got := parameterName("日本", "header", false); got != "header_param" {
		t.Errorf("an empty name = %q", got)
	}
}
