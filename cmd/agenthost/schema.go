package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agenthost/pkg/auth"
	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// hostSchemaName is the schema of the file of serve --config.
const hostSchemaName = "host"

func schemaNames() []string { return append(loader.SchemaNames(), hostSchemaName) }

func newSchema(io stdio) *cobra.Command {
	return &cobra.Command{
		Use:   "schema [" + strings.Join(schemaNames(), "|") + "]",
		Short: "Print the JSON Schema of a document",
		Long: `Schema prints the JSON Schema of app.yaml (app), of an agent's file (agent), of
a file that others include (parts), of a script of the scripted model (script),
of a file of tests (test), of the host's policy (policy), of its callers (auth), or
of the file of serve --config (host). Editors complete and check by it.`,
		Args:      requireArgs(0, 1),
		ValidArgs: schemaNames(),
		RunE: func(_ *cobra.Command, args []string) error {
			name := strings.Join(append(args, "app")[:1], "")
			switch {
			case name == hostSchemaName:
				return printJSON(io, hostSchema())
			case !slices.Contains(schemaNames(), name):
				return fmt.Errorf("there is no schema %s: the schemas are %s", name, strings.Join(schemaNames(), ", "))
			}
			schema, err := loader.New(nil).Schema(name)
			if err != nil {
				return err
			}
			return printJSON(io, schema)
		},
	}
}

// hostSchema is the JSON Schema of the file of serve --config: its flags, with the
// folders and the callers.
func hostSchema() map[string]any {
	var set spec.SchemaSet
	callers := set.Define("auth", auth.SchemaIn(&set))
	properties := map[string]any{
		keyDirs: map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": "The folders that are served: an app, or a folder of apps."},
	}
	newServe(stdio{}).Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(commandLineOnly(), f.Name) {
			return
		}
		schema := flagSchema(f)
		if f.Name == keyAuth {
			schema = map[string]any{"oneOf": []any{map[string]any{"type": "string"}, callers}}
		}
		schema["description"] = f.Usage
		properties[strings.ReplaceAll(f.Name, "-", "_")] = schema
	})
	return set.Document(map[string]any{"type": []any{"object", "null"}, "additionalProperties": false, "properties": properties})
}

// flagSchema is what a flag takes in a file; it may be a variable. Null is as if
// the key were not there.
func flagSchema(f *pflag.Flag) map[string]any {
	const text, variable = "string", `^\$\{`
	switch f.Value.Type() {
	case "bool":
		return map[string]any{"type": []any{"boolean", text, "null"}, "pattern": "^(true|false)$|" + variable, "default": f.DefValue == "true"}
	case "duration":
		return map[string]any{"type": []any{text, "null"}, "pattern": `^(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+$|^0$|` + variable, "default": f.DefValue}
	case "size":
		return map[string]any{"type": []any{"integer", text, "null"}, "pattern": `^\d+(\.\d+)? ?(B|kB|KB|MB|GB|KiB|MiB|GiB)?$|` + variable, "default": f.DefValue}
	case "stringSlice":
		return map[string]any{"type": []any{"array", text, "null"}, "items": map[string]any{"type": text}}
	}
	return map[string]any{"type": []any{text, "null"}, "default": f.DefValue}
}
