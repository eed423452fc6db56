package loader

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"agenthost/pkg/spec"
)

// Export converts an app to plain files of ADK's Agent Config, by file name:
// root_agent.yaml, and one file for each other agent. Anything that cannot be
// converted is an error, and then no files are returned.
func (l *Loader) Export(ctx context.Context, dir string) (map[string][]byte, spec.Diagnostics) {
	var files map[string][]byte
	ds := l.inspectApp(ctx, dir, func(j *job, root *resolvedAgent) {
		for _, f := range j.findForeign(root) {
			if !f.lowered {
				j.report(f.at.Errorf("portable", "%s", f.message).WithHint("remove it, or use an equivalent that ADK supports"))
			}
		}
		if !j.ds.HasErrors() {
			x := &exporter{job: j, files: map[string][]byte{}}
			x.writeAgent(root, agentFile)
			files = x.files
		}
	})
	if ds.HasErrors() {
		return nil, ds
	}
	return files, ds
}

// An exporter writes agents as files.
type exporter struct {
	job   *job
	files map[string][]byte
}

// writeAgent writes an agent and its descendants, each to a file of its own.
func (x *exporter) writeAgent(p *resolvedAgent, file string) {
	x.files[file] = nil // reserves the name
	out := *p.base
	out.Entries = nil
	for _, e := range p.base.Entries {
		switch e.Key.Value {
		case "sub_agents":
			e.Value = x.replaceItems(e.Value, x.writeSubAgents(p))
		case "tools":
			e.Value = x.replaceItems(e.Value, x.exportTools(p))
		case "model":
			if x.job.isScripted(e.Value.Value) {
				x.job.report(e.Value.Warnf("portable", "%s", scriptedModelMessage(e.Value.Value)).WithHint("%s", exportModelHint(e.Value)))
				continue
			}
			if gemini, lowered, _ := x.job.exportedModelName(e.Value.Value); lowered {
				e.Value = newScalar(gemini)
			}
		case "instruction":
			e.Value = replaceText(e.Value, optionalTag.ReplaceAllString(e.Value.Value, "{$1}"))
		}
		out.Entries = append(out.Entries, e)
	}
	var text bytes.Buffer
	_ = spec.Print(&text, &out, false) // a buffer does not fail
	x.files[file] = text.Bytes()
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
func (x *exporter) writeSubAgents(p *resolvedAgent) []*spec.Node {
	var refs []*spec.Node
	for _, sub := range p.subs {
		refs = append(refs, x.writeReferencedAgent(sub))
	}
	return refs
}

func (x *exporter) writeReferencedAgent(p *resolvedAgent) *spec.Node {
	file := p.name + ".yaml"
	for n := 2; x.isNameTaken(file); n++ {
		file = fmt.Sprintf("%s_%d.yaml", p.name, n)
	}
	x.writeAgent(p, file)
	return newMapping("config_path", newScalar(file))
}

func (x *exporter) isNameTaken(file string) bool {
	_, taken := x.files[file]
	return taken || file == appFile
}

// newMapping returns a mapping with one key.
func newMapping(key string, value *spec.Node) *spec.Node {
	return &spec.Node{Kind: spec.Mapping, Tag: "!!map", Entries: []spec.Entry{{Key: newScalar(key), Value: value}}}
}

// exportTools returns built-in tools as they are, and agents as AgentTool.
func (x *exporter) exportTools(p *resolvedAgent) []*spec.Node {
	var tools []*spec.Node
	for _, t := range p.tools {
		if t.agent == nil {
			tools = append(tools, x.job.findToolNode(t))
			continue
		}
		args := newMapping("agent", x.writeReferencedAgent(t.agent))
		for _, key := range []string{"skip_summarization", "include_plugins"} {
			if v := t.plan.Node.Get(key); v != nil {
				args.Entries = append(args.Entries, spec.Entry{Key: newScalar(key), Value: v})
			}
		}
		tool := newMapping("name", newScalar("AgentTool"))
		tool.Entries = append(tool.Entries, spec.Entry{Key: newScalar("args"), Value: args})
		tools = append(tools, tool)
	}
	return slices.Compact(tools)
}
