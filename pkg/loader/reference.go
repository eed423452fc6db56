package loader

import (
	"fmt"
	"reflect"
	"strings"

	"agenthost/internal/apptest"
	"agenthost/internal/auth"
	"agenthost/internal/policy"
	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// Reference returns the Markdown reference of all fields. It is generated from the
// types that the loader decodes.
func (l *Loader) Reference() string {
	var b strings.Builder
	b.WriteString(referenceTop)
	writeChapter(&b, "app.yaml", "The settings of an app. Every field is optional.",
		spec.Reference("The document", "The fields of app.yaml.", reflect.TypeFor[document]()),
		spec.Reference("run_config", "The settings of invocations.", reflect.TypeFor[runtime.RunConfig]()),
		spec.Reference("events_compaction_config", "When to replace older events of a session by a summary.", reflect.TypeFor[runtime.CompactionConfig]()))
	writeChapter(&b, "Agents", "An agent is declared in a file, or under `sub_agents:`, `agents:` or `root_agent:`.", renderKinds(l.agentKinds)...)
	writeChapter(&b, "Callbacks", "An item of the `_callbacks` lists. [language.md](language.md#callbacks) describes the verbs and variables of each list.",
		spec.Reference("A callback", "The name of a function, or a rule with one verb.", reflect.TypeFor[runtime.CallbackConfig]()))
	adk, short := l.renderAgentTools()
	writeChapter(&b, "Tools", "Under `tools:`, a tool is a mapping with one of these keys, or `use: NAME`, or the `name:` of a built-in tool.",
		append(renderKinds(l.toolKinds), short...)...)
	writeChapter(&b, "Built-in tools", "Written as `name: exit_loop`, as in ADK. Settings, if any, are in `args:`.",
		append(renderKinds(l.builtins), adk...)...)
	writeChapter(&b, "Models", "Under `models:`, a model is a mapping with its `provider:`.", renderKinds(l.providers)...)
	writeChapter(&b, "Plugins", "Under `plugins:` in app.yaml, a plugin is its name, or a mapping of its name and its settings.", renderKinds(l.plugins)...)
	writeChapter(&b, "Scripts", "The file of a scripted model is a list. The first matching entry answers.",
		spec.Reference("An entry", "One response of the model.", reflect.TypeFor[provider.ScriptEntry]()))
	writeChapter(&b, "Tests", "A file `*.test.yaml` in an app is a list of tests; see [testing.md](testing.md).", apptest.Reference()...)
	writeChapter(&b, "Policy", "The file of `--policy`; see [policy.md](policy.md).", policy.Reference())
	writeChapter(&b, "Callers", "The file of `--auth`, or `auth:` in the file of `--config`; see [security.md](security.md).", auth.Reference())
	return newLinkReplacer().Replace(b.String())
}

const referenceTop = `# Reference

All fields of all documents. ` + "`make generate`" + ` writes this page from the code.
[language.md](language.md) explains the fields.
`

func writeChapter(b *strings.Builder, title, about string, pages ...string) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n%s", title, about, strings.Join(pages, "\n"))
}

// renderAgentTools returns the reference of both forms of an agent as a tool: ADK's
// name and the key agent.
func (l *Loader) renderAgentTools() (adk, short []string) {
	for _, k := range l.agentTools {
		if k.Name == "AgentTool" {
			adk = append(adk, k.Reference())
		} else {
			short = append(short, k.Reference())
		}
	}
	return adk, short
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

// renderKinds returns the reference of each kind, sorted by name.
func renderKinds[Env, T any](kinds spec.Kinds[Env, T]) []string {
	var all []string
	for _, k := range kinds {
		all = append(all, k.Reference())
	}
	return all
}
