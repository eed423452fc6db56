package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agenthost/internal/auth"
	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// hostSchemaName names the schema of the file of serve --config.
const hostSchemaName = "host"

func schemaNames() []string { return append(loader.SchemaNames(), hostSchemaName) }

func newSchemaCommand(io stdio) *cobra.Command {
	return &cobra.Command{
		Use:   "schema [" + strings.Join(schemaNames(), "|") + "]",
		Short: "Print the JSON Schema of a document",
		Long: `Schema prints the JSON Schema of a document: app.yaml (app), an agent file (agent), an
included file (parts), a script of the scripted model (script), a test file (test),
the host's policy (policy), its authentication (auth), or the file of serve --config
(host). Editors use it for completion and validation.`,
		Args:      requireArgs(0, 1),
		ValidArgs: schemaNames(),
		RunE: func(_ *cobra.Command, args []string) error {
			name := strings.Join(append(args, "app")[:1], "")
			switch {
			case name == hostSchemaName:
				return printJSON(io, hostSchema())
			case !slices.Contains(schemaNames(), name):
				return fmt.Errorf("unknown schema %s: the schemas are %s", name, strings.Join(schemaNames(), ", "))
			}
			schema, err := newLoader(nil).Schema(name)
			if err != nil {
				return err
			}
			return printJSON(io, schema)
		},
	}
}

// hostSchema returns the JSON Schema of the file of serve --config: the flags of serve,
// the folders and the authentication.
func hostSchema() map[string]any {
	var set spec.SchemaSet
	authSchema := set.Define("auth", auth.SchemaIn(&set))
	properties := map[string]any{
		keyDirs: map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": "The folders to serve, each an app or a folder of apps."},
	}
	newServeCommand(stdio{}).Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(commandLineOnly(), f.Name) {
			return
		}
		schema := flagSchema(f)
		if f.Name == keyAuth {
			schema = map[string]any{"oneOf": []any{map[string]any{"type": "string"}, authSchema}}
		}
		schema["description"] = f.Usage
		properties[strings.ReplaceAll(f.Name, "-", "_")] = schema
	})
	return set.Document(map[string]any{"type": []any{"object", "null"}, "additionalProperties": false, "properties": properties})
}

// flagSchema returns the schema of a flag in a file. A value may be a variable; null is
// the same as no key.
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
