package loader_test

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// schemaText returns a schema file's text.
func schemaText(t *testing.T, name string) string {
	t.Helper()
	schema, err := loader.New(testenv.Kinds(), nil).Schema(name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

// TestSchemaFilesUpToDate expects the schema files to match the loader.
func TestSchemaFilesUpToDate(t *testing.T) {
	for _, name := range testenv.Kinds().SchemaNames() {
		file := filepath.Join("..", "..", "schemas", "agenthost."+name+".schema.json")
		want := schemaText(t, name)
		if isUpdating() {
			write(t, file, want)
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is out of date, run go test ./pkg/loader -update (-want +got):\n%s", file, diff)
		}
	}
}

func TestSchemaStable(t *testing.T) {
	for _, name := range testenv.Kinds().SchemaNames() {
		if one, two := schemaText(t, name), schemaText(t, name); one != two {
			t.Errorf("schema %s is not deterministic:\n%s", name, cmp.Diff(one, two))
		}
	}
}

func TestSchemaUnknown(t *testing.T) {
	_, err := loader.New(testenv.Kinds(), nil).Schema("tool")
	const want = `unknown schema "tool", must be one of app, agent, parts, script, test, eval, policy, auth`
	if err == nil || err.Error() != want {
		t.Errorf("Schema(tool) = %v, want %s", err, want)
	}
}

// TestSchemasAcceptGoodApps expects every file in every good app to match its schema.
func TestSchemasAcceptGoodApps(t *testing.T) {
	schemas := compileSchemas(t)
	for name, archive := range readArchives(t, "ok") {
		for _, f := range archive.Files {
			if path.Ext(f.Name) != ".yaml" || f.Name == loader.OverlayFile("prod") {
				continue // an overlay is a partial document
			}
			if err := schemas[documentKind(f.Name)].Validate(plainJSON(t, f.Data)); err != nil {
				t.Errorf("%s %s: %v", name, f.Name, err)
			}
		}
	}
}

// TestSchemasRejectMistakes covers mistakes that an editor can show.
func TestSchemasRejectMistakes(t *testing.T) {
	schemas := compileSchemas(t)
	for _, tt := range []struct{ kind, text string }{
		{"agent", "{name: a}"},
		{"agent", "{name: a, instruction: x, instructions: y}"},
		{"agent", "{agent_class: LoopAgnet, name: a}"},
		{"agent", "{name: a, instruction: x, include_contents: non}"},
		{"agent", "{name: a, instruction: x, generate_content_config: {temprature: 1}}"},
		{"agent", "{name: a, instruction: x, tools: [google_search]}"},
		{"agent", "{name: a, instruction: x, tools: [{htpp: {}}]}"},
		{"agent", "{agent_class: LoopAgent, name: a, sub_agents: [b.yaml]}"},
		{"app", "{plugin: []}"},
		{"app", "{plugins: [login]}"},
		{"app", "{plugins: [{context_filter: {keep: 1}}]}"},
		{"app", "{models: {m: {provider: gemni, model: x}}}"},
		{"app", "{run_config: {streaming_mode: duplex}}"},
		{"script", "{text: x}"},
		{"script", "[{txt: x}]"},
	} {
		if err := schemas[tt.kind].Validate(plainJSON(t, []byte(tt.text))); err == nil {
			t.Errorf("schema %s accepts %s", tt.kind, tt.text)
		}
	}
}

func compileSchemas(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	all := map[string]*jsonschema.Schema{}
	for _, name := range testenv.Kinds().SchemaNames() {
		var doc any
		if err := json.Unmarshal([]byte(schemaText(t, name)), &doc); err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource(name, doc); err != nil {
			t.Fatal(err)
		}
		s, err := c.Compile(name)
		if err != nil {
			t.Fatalf("invalid schema %s: %v", name, err)
		}
		all[name] = s
	}
	return all
}

func documentKind(file string) string {
	switch file {
	case "app.yaml", "apps/support/app.yaml":
		return "app"
	case "parts.yaml", "more/parts.yaml", "apps/shared.yaml", "apps/support/more/parts.yaml":
		return "parts"
	case "demo.script.yaml", "apps/support/s.yaml":
		return "script"
	}
	return "agent"
}

// plainJSON converts a YAML document to the values that a JSON parser returns.
func plainJSON(t *testing.T, text []byte) any {
	t.Helper()
	n, ds := spec.Parse("file", text)
	if len(ds) > 0 {
		t.Fatal(ds.Error())
	}
	b, err := json.Marshal(n.Any())
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
