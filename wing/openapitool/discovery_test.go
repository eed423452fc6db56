package openapitool

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// planner returns the tests' discovery document.
func planner(tb testing.TB, host string) string {
	tb.Helper()
	raw, err := os.ReadFile("testdata/planner.discovery.json")
	if err != nil {
		tb.Fatal(err)
	}
	return strings.ReplaceAll(string(raw), "HOST", host)
}

// The methods in a discovery document are tools with ADK's names.
func TestDiscoveryDeclaration(t *testing.T) {
	tools := mustReadTools(t, planner(t, "https://planner.googleapis.com"), "spec: x\nauth: {bearer: t}\n")
	const fields = `"fields":{"description":"The fields of the response.","type":"string"}`
	want := map[string]string{
		"planner_ping": `Ø {"properties":{` + fields + `},"title":"planner.ping_Arguments","type":"object"}`,
		"planner_plans_list": `Lists the plans of an owner. {"properties":{"due_after":{"format":"date-time","type":"string"},` + fields + `,` +
			`"labels":{"description":"Labels of which a plan has one.","items":{"enum":["home","work"],"type":"string"},"type":"array"},` +
			`"owner_id":{"description":"The owner, or me.","type":"string"},"page_size":{"default":25,"format":"int32","maximum":100,"minimum":1,"type":"integer"},` +
			`"page_token":{"type":"string"},"show_done":{"default":false,"type":"boolean"},"weight":{"default":0.5,"type":"number"}},` +
			`"required":["owner_id","due_after"],"title":"planner.plans.list_Arguments","type":"object"}`,
		"planner_plans_insert": `Creates a plan. {"$defs":{"step_1":{"properties":{"steps":{"items":{"$ref":"#/$defs/step_1"},"type":"array"},"title":{"type":"string"}},"type":"object"}},` +
			`"properties":{"extra":{},` + fields + `,"notes":{"additionalProperties":{"type":"string"},"type":"object"},"owner_id":{"type":"string"},"priority":{"default":3,"format":"int32","type":"integer"},` +
			`"steps":{"description":"The steps in their order.","items":{"properties":{"steps":{"items":{"$ref":"#/$defs/step_1"},"type":"array"},"title":{"type":"string"}},"type":"object"},"type":"array"},` +
			`"title":{"type":"string"}},"required":["owner_id","title"],"title":"planner.plans.insert_Arguments","type":"object"}`,
		"planner_plans_export": `Exports a plan. {"properties":{"alt":{"default":"json","description":"The format of the response.","enum":["json","media"],"type":"string"},` + fields + `,` +
			`"name":{"pattern":"^owners/[^/]+/plans/[^/]+$","type":"string"}},"required":["name"],"title":"planner.plans.export_Arguments","type":"object"}`,
		"planner_plans_steps_get": `Ø {"properties":{` + fields + `,"owners_id":{"description":"Part of name: The name of a step.","type":"string"},` +
			`"plans_id":{"description":"Part of name: The name of a step.","type":"string"},"steps_id":{"description":"Part of name: The name of a step.","type":"string"}},` +
			`"required":["owners_id","plans_id","steps_id"],"title":"planner.plans.steps.get_Arguments","type":"object"}`,
		"planner_plans_steps_delete": `Ø {"properties":{` + fields + `,"plans_id":{"description":"The plan.","type":"string"},"steps_id":{"pattern":"^[^/]+$","type":"string"}},` +
			`"required":["plans_id","steps_id"],"title":"planner.plans.steps.delete_Arguments","type":"object"}`,
	}
	got := map[string]string{}
	for name, found := range tools {
		raw, err := json.Marshal(found.Declaration().ParametersJsonSchema)
		if err != nil {
			t.Fatal(err)
		}
		description := found.Declaration().Description
		if description == "" {
			description = "Ø"
		}
		got[name] = description + " " + string(raw)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("declarations (-want +got):\n%s", diff)
	}
}

// Requests have the arguments where the discovery document places them.
func TestDiscoveryRequest(t *testing.T) {
	s := serve(t, echo)
	tools := mustReadTools(t, planner(t, s.URL), "spec: x\nauth: {bearer: \"${secret:TOKEN}\"}\nparams: {planner.plans.steps.get: {fields: \"title,steps(title)\"}}\n")
	const token = "Authorization: Bearer ***\n"
	for _, tt := range []struct {
		name, tool string
		args       map[string]any
		want       string
	}{
		{"lists are repeated", "planner_plans_list", map[string]any{"owner_id": "me", "due_after": "2026-01-02T03:04:05Z", "labels": []any{"home", "work"}, "show_done": false, "fields": "items(title)"}, "GET /planner/v1/owners/me/plans?showDone=false&labels=home&labels=work&dueAfter=2026-01-02T03%3A04%3A05Z&fields=items%28title%29\n" + token},
		{"one segment", "planner_plans_list", map[string]any{"owner_id": "a/b:c#d", "due_after": "x"}, "GET /planner/v1/owners/a%2Fb%3Ac%23d/plans?dueAfter=x\n" + token},
		{"several segments", "planner_plans_export", map[string]any{"name": "owners/a b/plans/7?"}, "GET /planner/v1/owners/a%20b/plans/7%3F:export\n" + token},
		{"a custom method in a value", "planner_plans_export", map[string]any{"name": "owners/a/plans/7:delete"}, "GET /planner/v1/owners/a/plans/7%3Adelete:export\n" + token},
		{"dots", "planner_plans_export", map[string]any{"name": "owners/../plans/7"}, "error: openapi tool planner_plans_export: parameter name must not contain . or .. segments"},
		{"encoded dots", "planner_plans_export", map[string]any{"name": "owners/%2e%2e/plans/7"}, "GET /planner/v1/owners/%252e%252e/plans/7:export\n" + token},
		{"another pattern", "planner_plans_export", map[string]any{"name": "plans/7"}, "error: Invoking `planner_plans_export()` failed as the following input parameters are wrong:\nname: 'plans/7' does not match pattern '^owners/[^/]+/plans/[^/]+$'\nYou could retry calling this tool with parameters that fit its declaration."},
		{"a flat path", "planner_plans_steps_get", map[string]any{"owners_id": "a", "plans_id": "1", "steps_id": "2"}, "GET /planner/v1/owners/a/plans/1/steps/2?fields=title%2Csteps%28title%29\n" + token},
		{"a body", "planner_plans_insert", map[string]any{"owner_id": "me", "title": "Move", "id": "9", "steps": []any{map[string]any{"title": "Pack"}}}, "POST /planner/v1/owners/me/plans\n" + "Authorization: Bearer ***\nContent-Type: application/json\nIdempotency-Key: inv-1/call-1\n\n" + `{"steps":[{"title":"Pack"}],"title":"Move"}`},
		{"without scopes", "planner_ping", nil, "GET /planner/v1/ping\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, callTool(t.Context(), tools[tt.tool], tt.args)); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
	keyed := mustReadTools(t, planner(t, s.URL), "spec: x\nauth: {api_key: \"${secret:KEY}\"}\noperations: [planner.ping, {tag: plans.steps}]\n")
	if len(keyed) != 3 {
		t.Errorf("%d tools, want 3", len(keyed))
	}
	if got, want := callTool(t.Context(), keyed["planner_ping"], nil), "GET /planner/v1/ping?key=***\n"; got != want {
		t.Errorf("request with an API key = %q, want %q", got, want)
	}
}

// A discovery document in YAML has the same tools; settings for OpenAPI documents apply.
func TestDiscoverySelection(t *testing.T) {
	const base = "spec: x\nauth: {bearer: t}\n"
	for _, tt := range []struct{ yaml, want, problem string }{
		{"operations: [planner.plans.list]", "planner_plans_list", ""},
		{"operations: [planner_plans_list]", "planner_plans_list", ""},
		{"operations: [{tag: plans}, {method: POST}]", "planner_plans_export planner_plans_insert planner_plans_list", ""},
		{"operations: [\"GET /ping\"]\nnames: {planner.ping: ping}", "ping", ""},
		{"except: [{tag: plans}, {tag: plans.steps}]", "planner_ping", ""},
		{"operations: [planner.plan.list]", "", `unknown operation "planner.plan.list"`},
		{"operations: [planner.plans.steps.setPhoto]", "", `operation "planner.plans.steps.setPhoto" only uploads media, which is not supported`},
	} {
		tools, ds := readTools(t, planner(t, "https://planner.googleapis.com"), base+tt.yaml)
		var names []string
		for _, found := range tools {
			names = append(names, found.Declaration().Name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != tt.want || !strings.Contains(fmt.Sprint(ds), tt.problem) {
			t.Errorf("%s: tools = %s, want %s: %s", tt.yaml, got, tt.want, ds)
		}
	}
	mustReadTools(t, "# YAML\n"+planner(t, "https://planner.googleapis.com"), base)
}

// Problems in a discovery document have their places in it; problems in other methods are not
// reported.
func TestBrokenDiscovery(t *testing.T) {
	doc := func(method string) string {
		return "{\"kind\": \"discovery#restDescription\", \"rootUrl\": \"https://a.googleapis.com/\",\n\"schemas\": {\"A\": {\"$ref\": \"A\"}},\n\"methods\": {\n\"m\": " + method + ",\n\"other\": {\"id\": \"other\", \"path\": \"{/x}\"}}}"
	}
	for _, tt := range []struct{ name, doc, want string }{
		{"no path", doc(`{"id": "m"}`), "x:4:6: the method has no path"},
		{"an expression", doc(`{"id": "m", "path": "a{/b}{c*}"}`), "x:4:26: the path has the unsupported expression {/b}"},
		{"a location", doc(`{"id": "m", "path": "a", "parameters": {"p": {"location": "header"}}}`), `x:4:64: the location of the parameter p must be path or query, got "header"`},
		{"a parameter", doc(`{"id": "m", "path": "a", "parameters": {"p": 3}}`), "x:4:51: the parameter p must be an object"},
		{"a method", doc(`{"id": "m", "path": "a", "httpMethod": "LOOK"}`), `x:4:45: unknown method "LOOK"`},
		{"a schema", doc(`{"id": "m", "path": "a", "httpMethod": "POST", "request": {"$ref": "B/~%C"}}`), `x:4:73: reference "#/components/schemas/B~1~0%25C" not found`},
		{"a cycle", doc(`{"id": "m", "path": "a", "httpMethod": "POST", "request": {"$ref": "A"}}`), "the reference leads to itself"},
		{"no server", `{"kind": "discovery#restDescription", "methods": {"m": {"id": "m", "path": "a"}}}`, "x:1:1: the document has no server URL"},
		{"a server", `{"kind": "discovery#restDescription", "rootUrl": "ftp://a/", "methods": {"m": {"id": "m", "path": "a"}}}`, `x:1:50: the server "ftp://a" is not a URL with a host`},
		{"nothing", `{"kind": "discovery#restDescription"}`, "x:1:1: the document has no operations"},
		{"another kind", `{"kind": "discovery#restDescription "}`, "it is not an OpenAPI document"},
		{"another field", `{"title": "discovery#restDescription", "resources": {}}`, "it is not an OpenAPI document"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kind, _ := Kinds().Lookup("openapi")
			settings := "spec: x"
			if strings.Contains(tt.doc, `"m"`) {
				settings += "\noperations: [m]"
			}
			plan, _ := kind.Decode(mustParse(t, settings))
			_, ds := plan.Config.(*config).ReadDocument("x", []byte(tt.doc))
			if got := fmt.Sprint(ds); !strings.Contains(got, tt.want) || strings.Contains(got, "{/x}") {
				t.Errorf("problems = %s, want %s", got, tt.want)
			}
		})
	}
}

// Reading a hostile discovery document is bounded, and its lies are left out.
func TestHostileDiscovery(t *testing.T) {
	var many, fan strings.Builder
	for i := range maxMethods + 1 {
		fmt.Fprintf(&many, `"m%d": {},`, i)
	}
	for i := range 40 { // 2^40 schemas if they were copied
		fmt.Fprintf(&fan, `"S%d": {"type": "object", "properties": {"a": {"$ref": "S%d"}, "b": {"$ref": "S%[2]d"}}},`, i, i+1)
	}
	doc := func(members string) string {
		return `{"kind": "discovery#restDescription", "rootUrl": "https://a.googleapis.com/", ` + members + `}`
	}
	method := func(members string) string { return doc(`"methods": {"m": {"id": "m", "path": "a"` + members + `}}`) }
	for _, tt := range []struct{ name, doc, want string }{
		{"many methods", doc(`"methods": {` + many.String() + `"last": {}}`), "the document exceeds the limit of 20000 methods"},
		{"very many methods", doc(`"methods": {` + strings.Repeat(`"":{},`, 600_000) + `"last": {}}`), "the document exceeds the limit of 500000 values"},
		{"many resources", doc(`"resources": {` + strings.Repeat(`"":{},`, 600_000) + `"last": {}}`), "the document exceeds the limit of 500000 values"},
		{"deep resources", doc(`"resources": ` + strings.Repeat(`{"r": {"resources": `, 1000) + "{}" + strings.Repeat("}}", 1000)), "nesting exceeds the limit of 100 levels"},
		{"fan", doc(`"methods": {"m": {"id": "m", "path": "a", "httpMethod": "POST", "request": {"$ref": "S0"}}}, "schemas": {` + fan.String() + `"S40": {}}`), "operation m has more than 300 schemas"},
		{"deep schema", doc(`"methods": {"m": {"id": "m", "path": "a", "httpMethod": "POST", "request": {"$ref": "S"}}}, "schemas": {"S": ` + strings.Repeat(`{"items": `, 500) + "{}" + strings.Repeat("}", 500) + "}"), "nesting exceeds the limit of 100 levels"},
		{"lying types", method(`, "description": 3, "tags": 3, "scopes": {"a": 1}, "request": [], "parameters": {"fields": {"type": [], "enum": 3, "default": {}, "pattern": 1, "properties": [], "items": true, "repeated": "true", "required": 1, "minimum": "NaN", "description": {}}}`), ""},
		{"lists", doc(`"methods": {"m": {"id": "m", "path": "a"}, "l": []}, "resources": {"a": [], "b": {"methods": 3, "resources": "x"}}, "schemas": [1], "parameters": [], "auth": 3, "servicePath": {}`), ""},
		{"a host in a path", method(`, "flatPath": "//evil.example.com/"`), ""},
		{"a large default", method(`, "parameters": {"a": {"type": "integer", "default": "` + strings.Repeat("9", 70) + `"}}`), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// One that took exponential time would run into the timeout of all tests.
			tools, ds := readTools(t, tt.doc, "spec: x")
			if got := ds.Error(); tt.want == "" && tools == nil || !strings.Contains(got, tt.want) {
				t.Errorf("diagnostics = %.500s, want %q", got, tt.want)
			}
		})
	}
}

// FuzzReadDiscovery reads any discovery document without panic, and its reduced document to an
// equal one.
func FuzzReadDiscovery(f *testing.F) {
	f.Add([]byte(planner(f, "https://planner.googleapis.com")))
	f.Add([]byte(`{"kind":"discovery#restDescription","rootUrl":"https://a.googleapis.com","methods":{"m":{"path":"{+a}/{a}","parameters":{"a":{"location":"path"}}},"n":{"path":"{+a}/{a}"},"o":{"path":"{+a}/{++b}{"}}}`))
	kind, _ := Kinds().Lookup("openapi")
	plan, _ := kind.Decode(mustParse(f, "spec: x\nbase_url: https://a.example.com"))
	config := plan.Config.(*config)
	f.Fuzz(func(t *testing.T, content []byte) {
		found, _ := config.ReadDocument("x", content)
		if found == nil {
			return
		}
		again, ds := config.ReadDocument("x", found.Reduced())
		if ds.HasErrors() || again == nil {
			t.Fatalf("the reduced document has errors: %s\n%s", ds, found.Reduced())
		}
		if diff := cmp.Diff(string(found.Reduced()), string(again.Reduced())); diff != "" {
			t.Errorf("reduced twice (-once +twice):\n%s", diff)
		}
	})
}
