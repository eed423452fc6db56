package loader

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"agenthost/internal/agentconfig"
	"agenthost/internal/runconfig"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// Reference returns the Markdown reference for all fields. It is generated from the types that the
// loader decodes.
func (l *Loader) Reference() string {
	var b strings.Builder
	_, described := documentTypes(l.kinds.Sections)
	b.WriteString(referenceTop)
	writeChapter(&b, "app.yaml", "The settings of an app. Every field is optional.",
		spec.Reference("The document", "The fields of app.yaml.", described),
		spec.Reference("run_config", "The settings of invocations.", reflect.TypeFor[runconfig.Config]()),
		spec.Reference("events_compaction_config", "When to replace older events of a session by a summary.", reflect.TypeFor[compactionConfig]()))
	writeChapter(&b, "Agents", "An agent is declared in a file, or under `sub_agents:`, `agents:` or `root_agent:`.", renderKinds(l.kinds.Agents)...)
	writeChapter(&b, "Callbacks", "An item of the `_callbacks` lists. [language.md](language.md#callbacks) describes the verbs and variables of each list.",
		spec.Reference("A callback", "The name of a function, or a rule with one verb.", reflect.TypeFor[agentconfig.CallbackConfig]()))
	var adk, short []string // an agent tool is declared by ADK's name or by the key agent
	for _, k := range l.kinds.AgentTools {
		if k.Name == "AgentTool" {
			adk = append(adk, k.Reference())
		} else {
			short = append(short, k.Reference())
		}
	}
	writeChapter(&b, "Tools", "Under `tools:`, a tool is a mapping with one of these keys, or `use: NAME`, or the `name:` of a built-in tool.",
		append(renderKinds(l.kinds.Tools), short...)...)
	writeChapter(&b, "Built-in tools", "Written as `name: exit_loop`, as in ADK. Settings, if any, are in `args:`.",
		append(renderKinds(l.kinds.Builtins), adk...)...)
	var providers, connections []string
	for _, group := range l.groupProviders() {
		providers = append(providers, spec.Reference(strings.Join(group.Names(), ", "), describeKinds(group), group[0].ConfigType()))
	}
	writeChapter(&b, "Models", "Under `models:`, a model is a mapping with its `provider:`.", providers...)
	if l.kinds.Connections != nil {
		connections = append(connections, spec.Reference("A connection", "Exactly one kind of credential, and the hosts that may receive it.", l.kinds.Connections.ConfigType()))
	}
	writeChapter(&b, "Connections", "Under `connections:` in app.yaml, or as the `auth:` of a tool; see [connections.md](connections.md).", connections...)
	writeChapter(&b, "Plugins", "Under `plugins:` in app.yaml, a plugin is its name, or a mapping of its name and its settings.", renderKinds(l.kinds.Plugins)...)
	writeChapter(&b, "Scripts", "The file of a scripted model is a list. The first matching entry answers.",
		spec.Reference("An entry", "One response of the model.", reflect.TypeFor[provider.ScriptEntry]()))
	for _, k := range l.kinds.Files {
		writeChapter(&b, k.Title, k.About, k.Reference()...)
	}
	return newLinkReplacer().Replace(agentconfig.DescribeExecutors(b.String(), l.kinds.Executors))
}

const referenceTop = `# Reference

All fields of all documents. ` + "`make generate`" + ` writes this page from the code.
[language.md](language.md) explains the fields.
`

func writeChapter(b *strings.Builder, title, about string, pages ...string) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n%s", title, about, strings.Join(pages, "\n"))
}

// newLinkReplacer returns a replacer that links types to their sections.
func newLinkReplacer() *strings.Replacer {
	const agent, tool = "[agent](#agents)", "[tool](#tools)"
	return strings.NewReplacer(
		"`root_agent` | see below", "`root_agent` | string or "+agent,
		"`schemas` | mapping of see below", "`schemas` | mapping of schema",
		"`models` | mapping of see below", "`models` | mapping of [model](#models)",
		"`agents` | mapping of see below", "`agents` | mapping of "+agent,
		"`tools` | mapping of see below", "`tools` | mapping of "+tool,
		"`connections` | mapping of see below", "`connections` | mapping of [connection](#connections)",
		"`plugins` | list of see below", "`plugins` | list of [plugin](#plugins)",
		"`run_config` | see below", "`run_config` | [run_config](#run_config)",
		"`events_compaction_config` | see below", "`events_compaction_config` | [events_compaction_config](#events_compaction_config)",
		"`sub_agents` | list of see below", "`sub_agents` | list of "+agent,
		"`tools` | list of see below", "`tools` | list of "+tool,
		"`agent` | see below", "`agent` | "+agent,
		"`routes[].agent` | see below", "`routes[].agent` | "+agent,
		"`static_instruction` | see below", "`static_instruction` | string, or a Content of the API",
	)
}

// renderKinds returns the reference for each kind, sorted by name.
func renderKinds[Env, T any](kinds spec.Kinds[Env, T]) []string {
	var all []string
	for _, k := range kinds {
		all = append(all, k.Reference())
	}
	return all
}

// SchemaNames returns the document names with a JSON Schema: app is app.yaml, agent is an agent's
// file, parts is an include, script is a script for the scripted model; the others belong to the
// file kinds.
func (k Kinds) SchemaNames() []string {
	names := []string{"app", "agent", "parts", "script"}
	for _, f := range k.Files {
		names = append(names, f.Name)
	}
	return names
}

// Schema returns a document's JSON Schema, for editors. It is generated from the types that the
// loader decodes.
func (l *Loader) Schema(name string) (map[string]any, error) {
	var set spec.SchemaSet
	switch name {
	case "app":
		_, described := documentTypes(l.kinds.Sections)
		l.addDefinitions(&set)
		return set.Document(set.Object(described)), nil
	case "agent":
		l.addDefinitions(&set)
		return set.Document(set.Ref("agent")), nil
	case "parts":
		l.addDefinitions(&set)
		return set.Document(set.Object(reflect.TypeFor[parts]())), nil
	case "script":
		return set.Document(map[string]any{"type": "array", "items": set.Of(reflect.TypeFor[provider.ScriptEntry]())}), nil
	}
	for _, k := range l.kinds.Files {
		if k.Name == name {
			return k.Schema(), nil
		}
	}
	return nil, fmt.Errorf("unknown schema %q, must be one of %s", name, strings.Join(l.kinds.SchemaNames(), ", "))
}

// addDefinitions adds the definitions that documents refer to: #/$defs/agent,
// named_agent, tool, model and run_config.
func (l *Loader) addDefinitions(set *spec.SchemaSet) {
	set.Define("agent", anyOfSchema(l.agentSchemas(set, false)))
	set.Define("named_agent", anyOfSchema(l.agentSchemas(set, true)))
	set.Define("tool", anyOfSchema(l.toolSchemas(set)))
	set.Define("model", anyOfSchema(l.modelSchemas(set)))
	set.Define("callback", set.Object(reflect.TypeFor[agentconfig.CallbackConfig]()))
	set.Define("plugin", l.pluginSchema(set))
	set.Define("connection", l.connectionSchema(set))
	set.Define("run_config", set.Object(reflect.TypeFor[runconfig.Config]()))
	set.Define("events_compaction_config", set.Object(reflect.TypeFor[compactionConfig]()))
}

// connectionSchema returns the schema for a connection.
func (l *Loader) connectionSchema(set *spec.SchemaSet) map[string]any {
	if l.kinds.Connections == nil {
		return map[string]any{"type": "object", "description": "Not supported by this program."}
	}
	return set.Object(l.kinds.Connections.ConfigType())
}

// modelSchemas returns a schema for each provider config; several providers may share one.
func (l *Loader) modelSchemas(set *spec.SchemaSet) []any {
	var all []any
	for _, group := range l.groupProviders() {
		m := set.Object(group[0].ConfigType())
		var names []any
		for _, k := range group {
			names = append(names, k.Name)
		}
		setEnum(m, "provider", names...)
		addRequired(m, "provider")
		all = append(all, setDescription(m, describeKinds(group)))
	}
	return all
}

// groupProviders returns the providers by config type, in the order of each type's first provider.
func (l *Loader) groupProviders() []spec.Kinds[provider.Env, model.LLM] {
	var groups []spec.Kinds[provider.Env, model.LLM]
	for _, k := range l.kinds.Models {
		i := slices.IndexFunc(groups, func(g spec.Kinds[provider.Env, model.LLM]) bool { return g[0].ConfigType() == k.ConfigType() })
		if i < 0 {
			groups = append(groups, spec.Kinds[provider.Env, model.LLM]{k})
			continue
		}
		groups[i] = append(groups[i], k)
	}
	return groups
}

// describeKinds returns a kind's description, or those of several kinds with their names.
func describeKinds(kinds spec.Kinds[provider.Env, model.LLM]) string {
	if len(kinds) == 1 {
		return kinds[0].Doc
	}
	var all []string
	for _, k := range kinds {
		all = append(all, k.Name+": "+k.Doc)
	}
	return strings.Join(all, " ")
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
	for _, k := range l.kinds.Agents {
		a := set.Object(k.ConfigType())
		setEnum(a, "agent_class", classNames(k.Name)...)
		properties := a["properties"].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(properties)) {
			if strings.HasSuffix(key, "_schema") {
				properties[key+"_code"] = map[string]any{
					"description": "ADK's name of a " + key + " that is code; functions in app.yaml declares its replacement.",
					"anyOf":       []any{map[string]any{"type": "string"}, newObjectSchema("name", map[string]any{"type": "string"})},
				}
			}
		}
		agentconfig.AddExecutors(properties, l.kinds.Executors)
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
			maps.Copy(properties, parts)
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

// classNames returns ADK's names for a class, with and without package and module. No name is
// LlmAgent's.
func classNames(class string) []any {
	module := strings.ToLower(strings.TrimSuffix(class, "Agent")) + "_agent"
	names := []any{class, "google.adk.agents." + class, "com.google.adk.agents." + class, "google.adk.agents." + module + "." + class}
	if class == "LlmAgent" {
		names = append(names, "Agent", "google.adk.agents.Agent", "")
	}
	return names
}

// toolSchemas returns a schema for each tool form.
func (l *Loader) toolSchemas(set *spec.SchemaSet) []any {
	var names []any
	for _, n := range append(l.kinds.Builtins.Names(), "AgentTool", "FunctionTool", "LongRunningFunctionTool") {
		names = append(names, n)
	}
	all := []any{
		newObjectSchema("name", map[string]any{"anyOf": []any{map[string]any{"enum": names}, map[string]any{"type": "string", "pattern": `\.`}}},
			"args", map[string]any{"type": []any{"object", "array"}}),
		newObjectSchema("use", map[string]any{"type": "string", "description": "A tool under tools in app.yaml."}),
	}
	for _, k := range l.kinds.Tools {
		all = append(all, newObjectSchema(k.Name, setDescription(set.Object(k.ConfigType()), k.Doc)))
	}
	if k, ok := l.kinds.AgentTools.Lookup("agent"); ok {
		all = append(all, newObjectSchema(k.Name, setDescription(set.Object(k.ConfigType()), k.Doc)))
	}
	return all
}

// newObjectSchema returns the schema for a closed mapping whose first key is required. The
// arguments alternate between keys and schemas.
func newObjectSchema(first string, schema any, more ...any) map[string]any {
	properties := map[string]any{first: schema}
	for i := 0; i+1 < len(more); i += 2 {
		properties[more[i].(string)] = more[i+1]
	}
	return map[string]any{"type": "object", "properties": properties, "required": []any{first}, "additionalProperties": false}
}

// pluginSchema returns a plugin's schema: a name, or a mapping from one name to its settings.
func (l *Loader) pluginSchema(set *spec.SchemaSet) map[string]any {
	var names []any
	for _, name := range l.kinds.Plugins.Names() {
		names = append(names, name)
	}
	all := []any{map[string]any{"enum": names}}
	for _, k := range l.kinds.Plugins {
		all = append(all, newObjectSchema(k.Name, setDescription(set.Object(k.ConfigType()), k.Doc)))
	}
	return anyOfSchema(all)
}
