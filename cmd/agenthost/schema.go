package main

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agenthost/internal/auth"
	"agenthost/internal/command"
	"agenthost/pkg/spec"
)

// hostSchemaName names the schema for serve --config files.
const hostSchemaName = "host"

func schemaNames() []string { return append(listKinds().SchemaNames(), hostSchemaName) }

func newSchemaCommand(env command.Env) *cobra.Command {
	var write string
	cmd := &cobra.Command{
		Use:   "schema [" + strings.Join(schemaNames(), "|") + "]",
		Short: "Print the JSON Schema of a document",
		Long: `Schema prints the JSON Schema of a document: app.yaml (app), an agent file (agent), an
included file (parts), a script of the scripted model (script), a test file (test),
an eval file (eval), the host's policy (policy), its authentication (auth), or the file
of serve --config (host). Editors use it for completion and validation.

With --write it writes all schemas into a folder, and prints the settings with which
VS Code's YAML extension finds them by the names of your files. The language server,
"agenthost lsp", needs no schemas.`,
		Args:      command.RequireArgs(0, 1),
		ValidArgs: schemaNames(),
		RunE: func(_ *cobra.Command, args []string) error {
			if write == "" {
				return printSchema(env, strings.Join(append(args, "app")[:1], ""))
			}
			if len(args) > 0 {
				return fmt.Errorf("--write writes all schemas and cannot be combined with the name %s", args[0])
			}
			return writeSchemas(env, write)
		},
	}
	cmd.Flags().StringVar(&write, "write", "", "write all schemas into this folder, and print the VS Code settings")
	return cmd
}

func printSchema(env command.Env, name string) error {
	if !slices.Contains(schemaNames(), name) {
		return fmt.Errorf("unknown schema %s: the schemas are %s", name, strings.Join(schemaNames(), ", "))
	}
	schema, err := newSchema(name)
	if err != nil {
		return err
	}
	return env.PrintJSON(schema)
}

func newSchema(name string) (map[string]any, error) {
	if name == hostSchemaName {
		return hostSchema(), nil
	}
	return newLoader(nil).Schema(name)
}

// schemaFile returns a schema's file name.
func schemaFile(name string) string { return "agenthost." + name + ".schema.json" }

// writeSchemas writes all schemas into a folder, and prints the settings for VS Code.
func writeSchemas(env command.Env, dir string) error {
	full, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(full, 0o755)
	}
	if err != nil {
		return command.FailWith(err)
	}
	for _, name := range schemaNames() {
		schema, err := newSchema(name)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := (command.Env{Out: &b}).PrintJSON(schema); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(full, schemaFile(name)), b.Bytes(), 0o644); err != nil {
			return command.FailWith(err)
		}
	}
	fmt.Fprintf(env.Err, "Wrote %d schemas to %s. Add this to VS Code's settings.json:\n", len(schemaNames()), dir)
	return env.PrintJSON(editorSettings(func(name string) string {
		return (&url.URL{Scheme: "file", Path: path.Join("/", filepath.ToSlash(full), schemaFile(name))}).String()
	}))
}

// editorSettings returns the settings with which VS Code's YAML extension chooses a schema by file
// name, given each schema's location.
func editorSettings(locate func(schema string) string) map[string]any {
	schemas := map[string][]string{}
	for name, patterns := range schemaPatterns() {
		schemas[locate(name)] = patterns
	}
	return map[string]any{"yaml.schemas": schemas}
}

// schemaPatterns returns the file patterns for each schema. A file matches at most one, because an
// editor applies all schemas that match. Included files, and agents outside a folder agents, have
// no pattern, because they can have any name.
func schemaPatterns() map[string][]string {
	return map[string][]string{
		"app":          {"**/app.yaml"},
		"agent":        {"**/root_agent.yaml", "**/agents/*.yaml"},
		"script":       {"**/*.script.yaml"},
		"test":         {"**/*.test.yaml"},
		"eval":         {"**/*.eval.yaml"},
		"policy":       {"**/policy.yaml"},
		"auth":         {"**/auth.yaml"},
		hostSchemaName: {"**/host.yaml"},
	}
}

// hostSchema returns the JSON Schema for serve --config files: serve's flags, the folders and the
// authentication.
func hostSchema() map[string]any {
	var set spec.SchemaSet
	authSchema := set.Define("auth", auth.SchemaIn(&set))
	properties := map[string]any{
		keyDirs: map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": "The folders to serve, each an app or a folder with apps."},
	}
	newServeCommand(command.Env{}).Flags().VisitAll(func(f *pflag.Flag) {
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

// flagSchema returns a flag's schema in a file. A value may be a variable; null is the same as no
// key.
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
