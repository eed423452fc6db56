package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/pflag"

	"agenthost/internal/command"
	"agenthost/pkg/spec"
)

// TestHostSchemaFresh compares the schema file for editors with serve's flags.
func TestHostSchemaFresh(t *testing.T) {
	var out bytes.Buffer
	if err := (command.Env{Out: &out}).PrintJSON(hostSchema()); err != nil {
		t.Fatal(err)
	}
	testFresh(t, "../../schemas/agenthost.host.schema.json", out.Bytes())
}

// TestEditorSettingsFresh compares this repository's VS Code settings with those that schema
// --write prints.
func TestEditorSettingsFresh(t *testing.T) {
	var out bytes.Buffer
	settings := editorSettings(func(name string) string { return "schemas/" + schemaFile(name) })
	if err := (command.Env{Out: &out}).PrintJSON(settings); err != nil {
		t.Fatal(err)
	}
	testFresh(t, "../../.vscode/settings.json", out.Bytes())
}

// The host schema accepts and rejects the same files as serve.
func TestHostSchemaMatchesServe(t *testing.T) {
	compiler := jsonschema.NewCompiler()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(readText(t, "../../schemas/agenthost.host.schema.json")))
	if err == nil {
		err = compiler.AddResource("host", doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	schema := compiler.MustCompile("host")
	for _, tt := range []struct {
		name, text string
		want       bool
	}{
		{"the unit's", readText(t, deployDir+"/host.yaml"), true},
		{"the Deployment's", readText(t, kubeDir+"/host.yaml"), true},
		{"nothing", "", true},
		{"authentication in another file", "auth: auth.yaml", true},
		{"a variable", "drain: ${env:DRAIN}\ndev: ${env:DEV}", true},
		{"one host", "allowed_hosts: a.example", true},
		{"several", "allowed_hosts: [a.example, b.example]", true},
		{"a flag without a value", "drain:", true},
		{"an unknown flag", "drian: 5s", false},
		{"a flag name with a dash", "log-level: info", false},
		{"a time without a unit", "drain: 30", false},
		{"an invalid boolean", "dev: often", false},
		{"a mapping", "addr: {port: 80}", false},
		{"invalid authentication", "auth: {tokens: [{tokn: x}]}", false},
		{"the file itself", "config: host.yaml", false},
	} {
		n, ds := spec.Parse("host.yaml", []byte(tt.text))
		if err := ds.Err(); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(n.Any()); (err == nil) != tt.want {
			t.Errorf("%s: validation error %v, want valid: %v", tt.name, err, tt.want)
		}
	}
}

// docs/serving.md documents every serve flag.
func TestServingDocumentsFlags(t *testing.T) {
	page := readText(t, repo+"/docs/serving.md")
	newServeCommand(command.Env{}).Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && !strings.Contains(page, "`--"+f.Name+"`") {
			t.Errorf("docs/serving.md does not mention --%s", f.Name)
		}
	})
}
