package loader

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"agenthost/pkg/spec"
)

// Export lowers an app to plain files of ADK's Agent Config, by their names:
// root_agent.yaml, and one for each agent below it. What cannot be lowered is an
// error at its place, and then there are no files.
func (l *Loader) Export(ctx context.Context, dir string) (map[string][]byte, spec.Diagnostics) {
	var files map[string][]byte
	ds := l.examine(ctx, dir, func(j *job, root *placed) {
		for _, f := range j.foreign(root) {
			if !f.lowered {
				j.report(f.at.Errorf("portable", "%s", f.what).WithHint("leave it out, or say it in a way that ADK has: it cannot be written for ADK"))
			}
		}
		if !j.ds.HasErrors() {
			x := &exporter{job: j, files: map[string][]byte{}}
			x.agent(root, agentFile)
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

// agent writes an agent, and those below it beside it.
func (x *exporter) agent(p *placed, file string) {
	x.files[file] = nil // the name is taken
	out := *p.base
	out.Entries = nil
	for _, e := range p.base.Entries {
		switch e.Key.Value {
		case "sub_agents":
			e.Value = x.list(e.Value, x.refs(p))
		case "tools":
			e.Value = x.list(e.Value, x.tools(p))
		case "model":
			if x.job.isScripted(e.Value.Value) {
				x.job.report(e.Value.Warnf("portable", "%s", scriptedForADK(e.Value.Value)).WithHint("%s", modelHint(e.Value)))
				continue
			}
			if gemini, lowered, _ := x.job.plainModel(e.Value.Value); lowered {
				e.Value = word(gemini)
			}
		case "instruction":
			e.Value = retold(e.Value, optionalTag.ReplaceAllString(e.Value.Value, "{$1}"))
		}
		out.Entries = append(out.Entries, e)
	}
	var text bytes.Buffer
	_ = spec.Print(&text, &out, false) // a buffer takes all
	x.files[file] = text.Bytes()
}

// modelHint says how the file would name a model.
func modelHint(n *spec.Node) string {
	if n.HasReference() {
		return "to have a model written, set its variable to the name of one of Gemini's"
	}
	return "to have a model written, name one of Gemini's, also in an overlay (--env)"
}

// retold is a scalar with another text.
func retold(n *spec.Node, text string) *spec.Node {
	if n.Value == text {
		return n
	}
	return word(text)
}

func (x *exporter) list(n *spec.Node, items []*spec.Node) *spec.Node {
	list := *n
	list.Items = items
	return &list
}

// refs are the agents below one, each in a file of its own.
func (x *exporter) refs(p *placed) []*spec.Node {
	var refs []*spec.Node
	for _, sub := range p.subs {
		refs = append(refs, x.ref(sub))
	}
	return refs
}

func (x *exporter) ref(p *placed) *spec.Node {
	file := p.name + ".yaml"
	for n := 2; x.taken(file); n++ {
		file = fmt.Sprintf("%s_%d.yaml", p.name, n)
	}
	x.agent(p, file)
	return mapping("config_path", word(file))
}

func (x *exporter) taken(file string) bool {
	_, taken := x.files[file]
	return taken || file == appFile
}

// mapping is one of a key.
func mapping(key string, value *spec.Node) *spec.Node {
	return &spec.Node{Kind: spec.Mapping, Tag: "!!map", Entries: []spec.Entry{{Key: word(key), Value: value}}}
}

// tools are ADK's own, and agents as AgentTool.
func (x *exporter) tools(p *placed) []*spec.Node {
	var tools []*spec.Node
	for _, t := range p.tools {
		if t.agent == nil {
			tools = append(tools, x.job.toolNode(t))
			continue
		}
		args := mapping("agent", x.ref(t.agent))
		for _, key := range []string{"skip_summarization", "include_plugins"} {
			if v := t.plan.Node.Get(key); v != nil {
				args.Entries = append(args.Entries, spec.Entry{Key: word(key), Value: v})
			}
		}
		tool := mapping("name", word("AgentTool"))
		tool.Entries = append(tool.Entries, spec.Entry{Key: word("args"), Value: args})
		tools = append(tools, tool)
	}
	return slices.Compact(tools)
}
