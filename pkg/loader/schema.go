package loader

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"agenthost/internal/apptest"
	"agenthost/internal/auth"
	"agenthost/internal/policy"
	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// SchemaNames returns the names of the documents with a JSON Schema: app is app.yaml,
// agent is an agent's file, parts is an include, script is a script of the scripted
// model, test is a test file, policy is policy.yaml, and auth is the --auth file.
func SchemaNames() []string {
	return []string{"app", "agent", "parts", "script", "test", "policy", "auth"}
}

// Schema returns the JSON Schema of a document, for editors. It is generated from the
// types that the loader decodes.
func (l *Loader) Schema(name string) (map[string]any, error) {
	var set spec.SchemaSet
	switch name {
	case "app":
		l.addDefinitions(&set)
		return set.Document(set.Object(reflect.TypeFor[document]())), nil
	case "agent":
		l.addDefinitions(&set)
		return set.Document(set.Ref("agent")), nil
	case "parts":
		l.addDefinitions(&set)
		return set.Document(set.Object(reflect.TypeFor[parts]())), nil
	case "script":
		return set.Document(map[string]any{"type": "array", "items": set.Of(reflect.TypeFor[provider.ScriptEntry]())}), nil
	case "test":
		return apptest.Schema(), nil
	case "policy":
		return policy.Schema(), nil
	case "auth":
		return auth.Schema(), nil
	}
	return nil, fmt.Errorf("unknown schema %q, must be one of %s", name, strings.Join(SchemaNames(), ", "))
}

// addDefinitions adds the definitions that documents refer to: #/$defs/agent,
// named_agent, tool, model and run_config.
func (l *Loader) addDefinitions(set *spec.SchemaSet) {
	set.Define("agent", anyOfSchema(l.agentSchemas(set, false)))
	set.Define("named_agent", anyOfSchema(l.agentSchemas(set, true)))
	set.Define("tool", anyOfSchema(l.toolSchemas(set)))
	var models []any
	for _, k := range l.providers {
		m := set.Object(k.ConfigType())
		setEnum(m, "provider", k.Name)
		addRequired(m, "provider")
		models = append(models, setDescription(m, k.Doc))
	}
	set.Define("model", anyOfSchema(models))
	set.Define("callback", set.Object(reflect.TypeFor[runtime.CallbackConfig]()))
	set.Define("plugin", l.pluginSchema(set))
	set.Define("run_config", set.Object(reflect.TypeFor[runtime.RunConfig]()))
	set.Define("events_compaction_config", set.Object(reflect.TypeFor[runtime.CompactionConfig]()))
}

func anyOfSchema(schemas []any) map[string]any { return map[string]any{"anyOf": schemas} }

func setDescription(schema map[string]any, doc string) map[string]any {
	schema["description"] = doc
	return schema
}

func setEnum(schema map[string]any, key string, values ...any) {
	schema["properties"].(map[string]any)[key] = map[string]any{"enum": values}
}

func addRequired(schema map[string]any, key string) {
	required, _ := schema["required"].([]any)
	schema["required"] = append([]any{key}, removeValue(required, key)...)
}

func removeValue(list []any, value any) []any {
	return slices.DeleteFunc(slices.Clone(list), func(v any) bool { return v == value })
}

// agentSchemas returns a schema for each class. A file may contain named agents, whose
// names are their keys.
func (l *Loader) agentSchemas(set *spec.SchemaSet, named bool) []any {
	var all []any
	for _, k := range l.agentKinds {
		a := set.Object(k.ConfigType())
		setEnum(a, "agent_class", classNames(k.Name)...)
		if k.Name != "LlmAgent" {
			addRequired(a, "agent_class")
		} else {
			a["oneOf"] = []any{
				map[string]any{"required": []any{"instruction"}},
				map[string]any{"required": []any{"instruction_provider"}},
			}
		}
		if named {
			required, _ := a["required"].([]any)
			a["required"] = removeValue(required, "name")
		} else {
			parts := set.Object(reflect.TypeFor[rootParts]())["properties"].(map[string]any)
			maps.Copy(a["properties"].(map[string]any), parts)
		}
		all = append(all, setDescription(a, k.Doc))
	}
	return append(all, map[string]any{
		"type": "object", "required": []any{"agent_class"}, "description": "An agent of a class that is declared under functions.",
		"properties": map[string]any{"agent_class": map[string]any{
			"type": "string", "pattern": `\.`, "not": map[string]any{"pattern": `^(com\.)?google\.adk\.`},
		}},
	})
}

// classNames returns ADK's names of a class, with and without package and module.
func classNames(class string) []any {
	module := strings.ToLower(strings.TrimSuffix(class, "Agent")) + "_agent"
	names := []any{class, "google.adk.agents." + class, "com.google.adk.agents." + class, "google.adk.agents." + module + "." + class}
	if class == "LlmAgent" {
		names = append(names, "Agent", "google.adk.agents.Agent")
	}
	return names
}

// toolSchemas returns a schema for each form of a tool.
func (l *Loader) toolSchemas(set *spec.SchemaSet) []any {
	var names []any
	for _, n := range append(l.builtins.Names(), "AgentTool", "FunctionTool", "LongRunningFunctionTool") {
		names = append(names, n)
	}
	all := []any{
		newObjectSchema("name", map[string]any{"anyOf": []any{map[string]any{"enum": names}, map[string]any{"type": "string", "pattern": `\.`}}},
			"args", map[string]any{"type": []any{"object", "array"}}),
		newObjectSchema("use", map[string]any{"type": "string", "description": "A tool under tools in app.yaml."}),
	}
	for _, k := range l.toolKinds {
		all = append(all, newObjectSchema(k.Name, setDescription(set.Object(k.ConfigType()), k.Doc)))
	}
	if k, ok := l.agentTools.Lookup("agent"); ok {
		all = append(all, newObjectSchema(k.Name, setDescription(set.Object(k.ConfigType()), k.Doc)))
	}
	return all
}

// newObjectSchema returns the schema of a closed mapping whose first key is required.
// The arguments alternate between keys and schemas.
func newObjectSchema(first string, schema any, more ...any) map[string]any {
	properties := map[string]any{first: schema}
	for i := 0; i+1 < len(more); i += 2 {
		properties[more[i].(string)] = more[i+1]
	}
	return map[string]any{"type": "object", "properties": properties, "required": []any{first}, "additionalProperties": false}
}
