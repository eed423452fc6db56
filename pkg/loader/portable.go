package loader

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// CheckPortable reports all problems of a folder's app, and as warnings what plain
// ADK would not understand.
func (l *Loader) CheckPortable(ctx context.Context, dir string) spec.Diagnostics {
	return l.inspectApp(ctx, dir, func(j *job, root *resolvedAgent) {
		for _, f := range j.findForeign(root) {
			d := f.at.Warnf("portable", "%s", f.message)
			if f.lowered {
				d.Hint = "agenthost export --adk writes it in ADK's way"
			}
			j.report(d)
		}
	})
}

// A finding is something that plain ADK does not understand. Lowered says that
// an export writes it in another way.
type finding struct {
	at      *spec.Node
	message string
	lowered bool
}

// adkFields are the fields of ADK's classes of agents
// (adk-python agents/*_config.py).
func adkFields() map[string][]string {
	common := []string{"agent_class", "name", "description", "sub_agents", "before_agent_callbacks", "after_agent_callbacks"}
	llm := []string{
		"model", "model_code", "instruction", "static_instruction", "disallow_transfer_to_parent", "disallow_transfer_to_peers", "input_schema", "output_schema",
		"output_key", "include_contents", "tools", "generate_content_config",
		"before_model_callbacks", "after_model_callbacks", "before_tool_callbacks", "after_tool_callbacks",
	}
	return map[string][]string{
		"LlmAgent": slices.Concat(common, llm), "SequentialAgent": common, "ParallelAgent": common,
		"LoopAgent": append(slices.Clone(common), "max_iterations"),
	}
}

// findForeign are the findings of an app.
func (j *job) findForeign(root *resolvedAgent) []finding {
	var all []finding
	if j.appNode != nil {
		lowered := []string{"name", "root_agent", "include", "models", "agents", "tools", "functions", "schemas", "defaults"}
		for _, e := range j.appNode.Entries {
			all = append(all, finding{e.Key, e.Key.Value + ": ADK has no app.yaml", slices.Contains(lowered, e.Key.Value)})
		}
	}
	for _, key := range j.partKeys {
		all = append(all, finding{key, key.Value + " is no field of ADK's agents", true})
	}
	for name, f := range sortedParts(j.names.functions) {
		if j.used[f.node] {
			all = append(all, finding{f.node, "the name " + name + " is code for ADK: what stands in its place here is not known there", false})
		}
	}
	return append(all, j.findForeignInAgent(root)...)
}

func (j *job) findForeignInAgent(p *resolvedAgent) []finding {
	class := p.plan.Kind.Name
	fields, known := adkFields()[class]
	var all []finding
	if !known {
		all = append(all, finding{p.base, class + " is no class of ADK's config files", false})
	}
	for _, e := range p.base.Entries {
		if known && !slices.Contains(fields, e.Key.Value) {
			all = append(all, finding{e.Key, e.Key.Value + " is no field of ADK's " + class, false})
			continue
		}
		all = append(all, j.findForeignInField(p, e)...)
	}
	for _, sub := range p.subs {
		if sub.at.Get("config_path") == nil {
			all = append(all, finding{sub.at, "ADK has agents in files of their own: config_path", true})
		}
		all = append(all, j.findForeignInAgent(sub)...)
	}
	for _, t := range p.tools {
		all = append(all, j.findForeignInTool(t)...)
	}
	return all
}

// findForeignInField looks at the value of a field that ADK has.
func (j *job) findForeignInField(p *resolvedAgent, e spec.Entry) []finding {
	var all []finding
	switch key := e.Key.Value; {
	case key == "output_schema" || key == "input_schema":
		if runtime.CodeRef(e.Value) == nil {
			all = append(all, finding{e.Value, "ADK takes the name of a Python class here, and no schema", false})
		}
	case key == "model" && j.isScripted(e.Value.Value):
		return []finding{{e.Value, scriptedModelMessage(e.Value.Value), true}}
	case key == "model":
		if _, lowered, plain := j.exportedModelName(e.Value.Value); !plain {
			all = append(all, finding{e.Value, "ADK knows models of Gemini by their names only", lowered})
		}
	case key == "instruction":
		all = append(all, findForeignInText(e.Value)...)
	case strings.HasSuffix(key, "_callbacks"):
		for _, item := range e.Value.Items {
			if item.Get("name") == nil {
				all = append(all, finding{item, "ADK takes the name of a Python function here, and no rule", false})
			}
		}
	case key == "sub_agents" || key == "tools":
		return nil
	}
	return append(all, findReferences(e.Value)...)
}

// findReferences are the ${…} of a tree.
func findReferences(n *spec.Node) []finding {
	var all []finding
	if n.HasReference() {
		all = append(all, finding{n, "ADK does not know ${…}: an export writes the value that it has now", true})
	}
	for _, e := range n.Entries {
		all = append(all, findReferences(e.Value)...)
	}
	for _, item := range n.Items {
		all = append(all, findReferences(item)...)
	}
	return all
}

// optionalTag is our second form of an optional placeholder.
var optionalTag = regexp.MustCompile(`<([A-Za-z_][A-Za-z0-9_]*(?::[A-Za-z_][A-Za-z0-9_]*)?\?)>`)

func findForeignInText(n *spec.Node) []finding {
	var all []finding
	if optionalTag.MatchString(n.Value) {
		all = append(all, finding{n, "ADK does not know <key?>: there it is {key?}", true})
	}
	if strings.Contains(n.Value, "{!") {
		all = append(all, finding{n, "ADK has no literal form {!key}", false})
	}
	return all
}

// isScripted says whether a model of the app answers from a script. ADK has no
// such model: an agent without one asks that of the agent above, or ADK's own.
func (j *job) isScripted(name string) bool {
	p, declared := j.names.models[name]
	if !declared {
		return false
	}
	provider := p.node.Get("provider")
	return !provider.IsNull() && provider.Value == "scripted"
}

func scriptedModelMessage(name string) string {
	return "the model " + name + " answers from a script, which ADK cannot: an export leaves it out, and ADK asks the model of the agent above, or its default"
}

// exportedModelName is the name of Gemini's that a model goes by in ADK. Plain says
// that it is the name as it stands, lowered that it may be written so.
func (j *job) exportedModelName(name string) (gemini string, lowered, plain bool) {
	p, declared := j.names.models[name]
	if !declared {
		bare, ok := strings.CutPrefix(name, "gemini/")
		return bare, ok, !ok && !strings.Contains(name, "openai_compatible/")
	}
	only := !slices.ContainsFunc(p.node.Entries, func(e spec.Entry) bool { return e.Key.Value != "provider" && e.Key.Value != "model" })
	if only && p.node.Get("provider").Value == "gemini" {
		return p.node.Get("model").Value, true, false
	}
	return "", false, false
}

func (j *job) findForeignInTool(t *resolvedTool) []finding {
	n := j.findToolNode(t)
	switch {
	case t.agent != nil:
		var all []finding
		if t.at.Get("name") == nil || t.agent.at.Get("config_path") == nil {
			all = append(all, finding{t.at, "ADK has an agent as a tool as AgentTool, with config_path", true})
		}
		if confirm := t.plan.Node.Get("confirm"); confirm != nil {
			all = append(all, finding{confirm, "confirm is no field of ADK's AgentTool", false})
		}
		return append(all, j.findForeignInAgent(t.agent)...)
	case n.Get("name") == nil || isCodeName(n.Get("name").Value) && t.at != n:
		return []finding{{n, "ADK has no tools in YAML but its own", false}}
	case t.at != n:
		return []finding{{t.at, "ADK has no tools by name", true}}
	}
	return findReferences(n)
}

// findToolNode is where a tool of an agent is written: in the agent, or under tools.
func (j *job) findToolNode(t *resolvedTool) *spec.Node {
	if use := t.at.Get("use"); use != nil {
		return j.names.tools[use.Value].node
	}
	return t.at
}
