// Package export converts apps to plain ADK Agent Config files, and reports what ADK does not
// support.
package export

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"agenthost/internal/agentconfig"
	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// CheckPortability reports all problems in an app's folder, and a warning for everything that
// plain ADK does not support.
func CheckPortability(ctx context.Context, l *loader.Loader, dir string) spec.Diagnostics {
	return l.InspectAgents(ctx, dir, func(in *loader.Inspection) {
		for _, f := range newExportedApp(in).findForeign() {
			d := f.at.Warnf("portable", "%s", f.message).WithHint("%s", f.hint)
			if f.lowered {
				d.Hint = "agenthost export --adk converts it"
			}
			in.Report(d)
		}
	})
}

// ConvertApp converts the app in a folder to plain ADK Agent Config files, by file name:
// root_agent.yaml, and one file for each other agent. Anything that cannot be converted is an
// error, and then no files are returned.
func ConvertApp(ctx context.Context, l *loader.Loader, dir string) (map[string][]byte, spec.Diagnostics) {
	var files map[string][]byte
	ds := l.InspectAgents(ctx, dir, func(in *loader.Inspection) {
		app := newExportedApp(in)
		for _, f := range app.findForeign() {
			if !f.lowered {
				in.Report(f.at.Errorf("portable", "%s", f.message).WithHint("%s", cmp.Or(f.hint, "remove it, or use an equivalent that ADK supports")))
			}
		}
		if !in.HasErrors() {
			x := &exporter{app: app, files: map[string][]byte{}}
			x.writeAgent(app.root, "root_agent.yaml")
			files = x.files
		}
	})
	if ds.HasErrors() {
		return nil, ds
	}
	return files, ds
}

// An exportedApp is an app to check or convert.
type exportedApp struct {
	in   *loader.Inspection
	root *loader.InspectedAgent
}

func newExportedApp(in *loader.Inspection) *exportedApp { return &exportedApp{in, in.RootAgent()} }

// A finding is something that plain ADK does not support. lowered reports that an
// export converts it; hint is the way out if it does not.
type finding struct {
	at      *spec.Node
	message string
	lowered bool
	hint    string
}

func newFinding(at *spec.Node, message string, lowered bool) finding {
	return finding{at, message, lowered, ""}
}

func (f finding) withHint(hint string) finding {
	f.hint = hint
	return f
}

// adkFields returns the fields in ADK's agent classes (adk-python agents/*_config.py), and
// the node fields that YAML can set (workflow/_base_node.py, _function_node.py). ADK's graph
// sample has output_schema_code.
func adkFields() map[string][]string {
	node := []string{"agent_class", "name", "description"}
	common := append(slices.Clone(node), "sub_agents", "before_agent_callbacks", "after_agent_callbacks")
	llm := []string{
		"model", "model_code", "instruction", "static_instruction", "disallow_transfer_to_parent", "disallow_transfer_to_peers", "input_schema", "output_schema",
		"input_schema_code", "output_schema_code", "output_key", "include_contents", "tools", "generate_content_config",
		"before_model_callbacks", "after_model_callbacks", "before_tool_callbacks", "after_tool_callbacks",
	}
	return map[string][]string{
		"LlmAgent": slices.Concat(common, llm), "SequentialAgent": common, "ParallelAgent": common,
		"LoopAgent":    append(slices.Clone(common), "max_iterations"),
		"Workflow":     append(slices.Clone(node), "edges", "max_concurrency", "input_schema", "input_schema_code", "state_schema", "state_schema_code"),
		"FunctionNode": append(slices.Clone(node), "func_code", "rerun_on_resume", "timeout", "retry_config"),
		"JoinNode":     node,
	}
}

// foreignFieldHint returns the way out for a field that ADK's class does not have.
func foreignFieldHint(class, field string) string {
	switch {
	case field == "parallel_worker" || field == "max_parallel_workers":
		return "ADK has it only in Python: create the node there, and refer to it by its dotted name"
	case class == "FunctionNode" && field == "expr":
		return "write the function in Python, and name it in func_code"
	}
	return ""
}

// findForeign returns an app's findings.
func (a *exportedApp) findForeign() []finding {
	var all []finding
	if doc := a.in.Setting(); doc != nil {
		lowered := []string{"name", "root_agent", "include", "models", "agents", "tools", "functions", "schemas", "defaults"}
		for _, e := range doc.Entries {
			all = append(all, newFinding(e.Key, e.Key.Value+": ADK does not support app.yaml", slices.Contains(lowered, e.Key.Value)))
		}
	}
	for _, key := range a.in.PartKeys() {
		all = append(all, newFinding(key, "ADK's agents have no field "+key.Value, true))
	}
	for name, f := range a.in.UsedFunctions() {
		all = append(all, newFinding(f, "ADK resolves the name "+name+" to code and ignores its replacement here", false))
	}
	return append(all, a.findForeignInAgent(a.root)...)
}

func (a *exportedApp) findForeignInAgent(p *loader.InspectedAgent) []finding {
	class := p.Class
	fields, known := adkFields()[class]
	var all []finding
	if !known {
		all = append(all, findForeignClass(p))
	}
	for _, e := range p.Base.Entries {
		if known && !slices.Contains(fields, e.Key.Value) {
			all = append(all, newFinding(e.Key, "ADK's "+class+" has no field "+e.Key.Value, false).withHint(foreignFieldHint(class, e.Key.Value)))
			continue
		}
		all = append(all, a.findForeignInField(p, e)...)
	}
	all = append(all, a.findForeignInGraph(p)...)
	for _, sub := range p.Agents {
		if class != "Workflow" && sub.At.Get("config_path") == nil {
			all = append(all, newFinding(sub.At, "ADK requires sub-agents in separate files, with config_path", true))
		}
		all = append(all, a.findForeignInAgent(sub)...)
	}
	for _, t := range p.Tools {
		all = append(all, a.findForeignInTool(t)...)
	}
	return all
}

// findForeignClass returns the finding for an agent whose class ADK does not have.
func findForeignClass(p *loader.InspectedAgent) finding {
	if p.Class == "ToolNode" {
		return newFinding(p.Base, "ADK for Python has no class ToolNode in YAML; adk-go has", false).
			withHint("call the tool from an agent, or from a Python function")
	}
	return newFinding(p.Base, "ADK's config files do not support the class "+p.Class, false)
}

// findForeignInField returns the findings in a value whose field ADK has.
func (a *exportedApp) findForeignInField(p *loader.InspectedAgent, e spec.Entry) []finding {
	var all []finding
	switch key := e.Key.Value; {
	case key == "edges":
		return nil // findForeignInGraph
	case key == "input_schema" && p.Class == "Workflow":
		if at := p.Node.Get(key); agentconfig.CodeRef(e.Value) == nil && exportSchema(at) != at {
			all = append(all, newFinding(e.Value, "ADK requires a JSON Schema here", true))
		}
	case key == "output_schema" || key == "input_schema" || key == "state_schema":
		if agentconfig.CodeRef(e.Value) == nil {
			all = append(all, newFinding(e.Value, "ADK requires a Python class name here, not a schema", false))
		}
	case key == "model" && a.isScripted(e.Value.Value):
		return []finding{newFinding(e.Value, scriptedModelMessage(e.Value.Value), true)}
	case key == "model":
		if _, lowered, plain := a.exportedModelName(e.Value.Value); !plain {
			all = append(all, newFinding(e.Value, "ADK supports only Gemini model names and its LiteLlm prefixes", lowered))
		}
	case key == "instruction" && e.Value.Kind == spec.Mapping:
		return []finding{newFinding(e.Value, "ADK requires text here: its McpInstructionProvider is code", false)}
	case key == "instruction":
		all = append(all, findForeignInText(e.Value)...)
	case strings.HasSuffix(key, "_callbacks"):
		for _, item := range e.Value.Items {
			if item.Get("name") == nil {
				all = append(all, newFinding(item, "ADK requires a Python function name here, not a rule", false))
			}
		}
	case key == "sub_agents" || key == "tools":
		return nil
	default:
		all = append(all, findForeignInNode(e)...)
	}
	return append(all, findReferences(e.Value)...)
}

// findReferences returns the ${…} references below a node.
func findReferences(n *spec.Node) []finding {
	var all []finding
	if n.HasReference() {
		all = append(all, newFinding(n, "ADK does not support ${…}: an export writes the current value", true))
	}
	for _, e := range n.Entries {
		all = append(all, findReferences(e.Value)...)
	}
	for _, item := range n.Items {
		all = append(all, findReferences(item)...)
	}
	return all
}

// optionalTag matches an optional placeholder's second form.
var optionalTag = regexp.MustCompile(`<([A-Za-z_][A-Za-z0-9_]*(?::[A-Za-z_][A-Za-z0-9_]*)?\?)>`)

func findForeignInText(n *spec.Node) []finding {
	var all []finding
	if optionalTag.MatchString(n.Value) {
		all = append(all, newFinding(n, "ADK does not support <key?>; its form is {key?}", true))
	}
	if strings.Contains(n.Value, "{!") {
		all = append(all, newFinding(n, "ADK does not support the literal form {!key}", false))
	}
	return all
}

// isScripted reports whether one of the app's models is scripted. ADK has no such model: an
// agent without a model uses its parent's model or ADK's default.
func (a *exportedApp) isScripted(name string) bool {
	provider := a.in.DeclaredModel(name).Get("provider")
	return !provider.IsNull() && provider.Value == "scripted"
}

func scriptedModelMessage(name string) string {
	return "ADK does not support the scripted model " + name + ": an export omits it, and ADK uses the model of the parent agent or its default"
}

// exportedModelName returns a model's name for ADK. plain reports that the name is written as
// is, lowered that an export may convert it.
func (a *exportedApp) exportedModelName(name string) (exported string, lowered, plain bool) {
	prefix, bare := "", name
	if m := a.in.DeclaredModel(name); m != nil {
		only := !slices.ContainsFunc(m.Entries, func(e spec.Entry) bool { return e.Key.Value != "provider" && e.Key.Value != "model" })
		if !only || m.Get("model") == nil {
			return "", false, false
		}
		prefix, bare = m.Get("provider").Value, m.Get("model").Value
	} else if provider, rest, ok := a.in.SplitModelName(name); ok {
		prefix, bare = provider, rest
	}
	switch {
	case prefix == "":
		return name, false, true
	case prefix == "gemini":
		exported = bare
	case slices.Contains(adkModelPrefixes(), prefix):
		exported = prefix + "/" + bare
	default:
		return "", false, false
	}
	return exported, exported != name, exported == name
}

// adkModelPrefixes returns the prefixes that ADK sends to LiteLLM or Apigee (adk-python
// models/registry.py).
func adkModelPrefixes() []string {
	return []string{
		"openai", "azure", "azure_ai", "groq", "anthropic", "bedrock", "ollama", "ollama_chat", "together_ai", "vertex_ai", "mistral",
		"deepseek", "fireworks_ai", "cohere", "databricks", "ai21", "apigee",
	}
}

func (a *exportedApp) findForeignInTool(t *loader.InspectedTool) []finding {
	n := t.Declaration
	switch {
	case t.Agent != nil:
		var all []finding
		if t.At.Get("name") == nil || t.Agent.At.Get("config_path") == nil {
			all = append(all, newFinding(t.At, "ADK requires AgentTool with config_path for an agent as a tool", true))
		}
		if confirm := t.Node.Get("confirm"); confirm != nil {
			all = append(all, newFinding(confirm, "ADK's AgentTool has no field confirm", false))
		}
		return append(all, a.findForeignInAgent(t.Agent)...)
	case n.Get("name") == nil || strings.Contains(n.Get("name").Value, ".") && t.At != n:
		return []finding{newFinding(n, "ADK supports only its own tools in YAML", false)}
	case t.At != n:
		return []finding{newFinding(t.At, "ADK does not support tools by name", true)}
	}
	return findReferences(n)
}

// An exporter writes agents as files.
type exporter struct {
	app   *exportedApp
	files map[string][]byte
}

// writeAgent writes an agent and its descendants, each to its own file.
func (x *exporter) writeAgent(p *loader.InspectedAgent, file string) {
	x.files[file] = nil // reserves the name
	var text bytes.Buffer
	_ = spec.Print(&text, x.exportAgent(p), false) // a buffer does not fail
	x.files[file] = text.Bytes()
}

// exportAgent returns an agent's mapping, and writes the files that it refers to.
func (x *exporter) exportAgent(p *loader.InspectedAgent) *spec.Node {
	out := *p.Base
	out.Entries = nil
	for _, e := range p.Base.Entries {
		switch e.Key.Value {
		case "sub_agents":
			e.Value = x.replaceItems(e.Value, x.writeSubAgents(p))
		case "tools":
			e.Value = x.replaceItems(e.Value, x.exportTools(p))
		case "model":
			if x.app.isScripted(e.Value.Value) {
				x.app.in.Report(e.Value.Warnf("portable", "%s", scriptedModelMessage(e.Value.Value)).WithHint("%s", exportModelHint(e.Value)))
				continue
			}
			if gemini, lowered, _ := x.app.exportedModelName(e.Value.Value); lowered {
				e.Value = newScalar(gemini)
			}
		case "instruction":
			e.Value = replaceText(e.Value, optionalTag.ReplaceAllString(e.Value.Value, "{$1}"))
		case "edges":
			e.Value = x.exportEdges(p)
		case "input_schema":
			e.Value = exportSchema(p.Node.Get("input_schema"))
		case "timeout", "retry_config":
			e.Value = exportSeconds(e.Key.Value, e.Value)
		}
		out.Entries = append(out.Entries, e)
	}
	return &out
}

// exportModelHint returns the hint for an agent whose model is left out.
func exportModelHint(n *spec.Node) string {
	if n.HasReference() {
		return "set the variable to the name of a Gemini model to export one"
	}
	return "name a Gemini model, in the file or in an overlay (--env), to export one"
}

// replaceText returns a scalar with another value.
func replaceText(n *spec.Node, text string) *spec.Node {
	if n.Value == text {
		return n
	}
	return newScalar(text)
}

func (x *exporter) replaceItems(n *spec.Node, items []*spec.Node) *spec.Node {
	list := *n
	list.Items = items
	return &list
}

// writeSubAgents writes the sub-agents to files and returns the references.
func (x *exporter) writeSubAgents(p *loader.InspectedAgent) []*spec.Node {
	var refs []*spec.Node
	for _, sub := range p.Agents {
		refs = append(refs, x.writeReferencedAgent(sub))
	}
	return refs
}

func (x *exporter) writeReferencedAgent(p *loader.InspectedAgent) *spec.Node {
	file := p.Name + ".yaml"
	for n := 2; x.isNameTaken(file); n++ {
		file = fmt.Sprintf("%s_%d.yaml", p.Name, n)
	}
	x.writeAgent(p, file)
	return newMapping("config_path", newScalar(file))
}

func (x *exporter) isNameTaken(file string) bool {
	_, taken := x.files[file]
	return taken || file == "app.yaml"
}

// newScalar returns a scalar without a position.
func newScalar(text string) *spec.Node {
	return &spec.Node{Kind: spec.Scalar, Tag: "!!str", Value: text}
}

// newMapping returns a mapping with one key.
func newMapping(key string, value *spec.Node) *spec.Node {
	return &spec.Node{Kind: spec.Mapping, Tag: "!!map", Entries: []spec.Entry{{Key: newScalar(key), Value: value}}}
}

// exportTools returns built-in tools as they are, and agents as AgentTool.
func (x *exporter) exportTools(p *loader.InspectedAgent) []*spec.Node {
	var tools []*spec.Node
	for _, t := range p.Tools {
		if t.Agent == nil {
			tools = append(tools, t.Declaration)
			continue
		}
		args := newMapping("agent", x.writeReferencedAgent(t.Agent))
		for _, key := range []string{"skip_summarization", "include_plugins"} {
			if v := t.Node.Get(key); v != nil {
				args.Entries = append(args.Entries, spec.Entry{Key: newScalar(key), Value: v})
			}
		}
		tool := newMapping("name", newScalar("AgentTool"))
		tool.Entries = append(tool.Entries, spec.Entry{Key: newScalar("args"), Value: args})
		tools = append(tools, tool)
	}
	return slices.Compact(tools)
}
