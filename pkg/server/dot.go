package server

import (
	"fmt"
	"slices"
	"strings"

	"agenthost/pkg/runtime"
)

// inks are the colours of a drawing, and the sign of an agent: those of
// adk-python's cli/agent_graph.py. The legend of ADK's web client has the signs.
type inks struct{ back, line, text, mark, markLine, agentSign string }

func inksFor(dark bool) inks {
	if dark {
		return inks{"#0F172A", "#94A3B8", "#F8FAFC", "#0F5223", "#69CB87", "✦ "}
	}
	return inks{"#F8FAFC", "#64748B", "#0F172A", "#C4EBD0", "#0F5223", "✦ "}
}

// eventInks are those of the drawings of events, which have one background.
func eventInks() inks { return inks{"#333537", "#cccccc", "#cccccc", "#0F5223", "#69CB87", "🤖 "} }

// A way is a pair of names that an event went: from an agent to a tool, or back.
// With one name only, it stayed there.
type way struct{ from, to string }

// A drawing writes a tree of agents in Graphviz's language. The ids of nodes are
// the names of agents and tools: ADK's web client looks nodes up by them.
type drawing struct {
	strings.Builder
	inks
	ways []way
}

// draw draws a tree, with the ways of an event marked.
func draw(p *runtime.AgentInfo, colours inks, ways ...way) string {
	d := &drawing{inks: colours, ways: ways}
	fmt.Fprintf(d, "strict digraph %s {\n", quoted(p.Name))
	fmt.Fprintf(d, "rankdir=\"LR\" bgcolor=%s\n", quoted(d.back))
	fmt.Fprintf(d, "node [style=\"rounded\" fontname=\"Helvetica\" color=%s fontcolor=%[2]s]\n", quoted(d.line), quoted(d.text))
	fmt.Fprintf(d, "edge [fontname=\"Helvetica\" color=%s fontcolor=%[1]s]\n", quoted(d.line))
	d.agent(p)
	d.WriteString("}\n")
	return d.String()
}

// quoted is a text as Graphviz reads it.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}

func (d *drawing) agent(p *runtime.AgentInfo) {
	switch {
	case isGroup(p):
		d.group(p)
	case p.Kind == "ToolNode":
		d.node(p.Name, "🔧 "+p.Name, "box")
	case p.Kind == "FunctionNode":
		d.node(p.Name, "ƒ "+p.Name, "box")
	case p.Kind == "JoinNode":
		d.node(p.Name, "⌵ "+p.Name, "box")
	default:
		d.node(p.Name, d.agentSign+p.Name, "ellipse")
		d.below(p)
	}
}

// below draws what an agent may use or hand over to.
func (d *drawing) below(p *runtime.AgentInfo) {
	for _, t := range p.Tools {
		name := t.Declaration.Name
		if t.Agent != nil {
			d.agent(t.Agent)
			name = entryOf(t.Agent)
		} else {
			d.node(name, "🔧 "+name, "box")
		}
		d.edge(p.Name, name, "arrowhead=\"none\"")
	}
	for _, child := range p.Agents {
		d.agent(child)
		d.edge(p.Name, entryOf(child), "arrowhead=\"none\"")
	}
}

// isGroup says whether an agent only runs others: they are drawn in a frame.
func isGroup(p *runtime.AgentInfo) bool {
	switch p.Kind {
	case "SequentialAgent", "ParallelAgent", "LoopAgent", "RouterAgent", "Workflow":
		return len(p.Agents) > 0
	}
	return false
}

func (d *drawing) group(p *runtime.AgentInfo) {
	label := fmt.Sprintf("%s (%s)", p.Name, strings.Replace(p.Kind, "Agent", " Agent", 1))
	fmt.Fprintf(d, "subgraph %s {\n", quoted("cluster_"+label))
	fmt.Fprintf(d, "label=%s style=\"rounded\" color=%s fontcolor=%s\n", quoted(label), quoted(d.line), quoted(d.text))
	for _, child := range p.Agents {
		d.agent(child)
	}
	switch p.Kind {
	case "SequentialAgent", "LoopAgent":
		d.chain(p)
	case "RouterAgent":
		d.node(p.Name, "⑂ "+p.Name, "diamond")
		for _, child := range p.Agents {
			d.edge(p.Name, entryOf(child))
		}
	case "Workflow":
		d.workflow(p)
	}
	d.WriteString("}\n")
}

func (d *drawing) chain(p *runtime.AgentInfo) {
	for i, child := range p.Agents[1:] {
		d.edge(exitOf(p.Agents[i]), entryOf(child))
	}
	if p.Kind == "LoopAgent" {
		d.edge(exitOf(p.Agents[len(p.Agents)-1]), entryOf(p.Agents[0]))
	}
}

func (d *drawing) workflow(p *runtime.AgentInfo) {
	start := p.Name + "." + startNode
	d.node(start, "START", "circle")
	for _, e := range p.Edges {
		from := start
		if e.From != runtime.Start {
			from = exitOf(p.Agents[e.From])
		}
		if route := routeOf(e); route != "" {
			d.edge(from, entryOf(p.Agents[e.To]), "label="+quoted(route))
		} else {
			d.edge(from, entryOf(p.Agents[e.To]))
		}
	}
}

// entryOf is the node that edges to an agent lead to, and exitOf the one that
// edges from it begin at: a frame has no node of its own.
func entryOf(p *runtime.AgentInfo) string {
	switch {
	case !isGroup(p) || p.Kind == "RouterAgent":
		return p.Name
	case p.Kind == "Workflow":
		return p.Name + "." + startNode
	}
	return entryOf(p.Agents[0])
}

func exitOf(p *runtime.AgentInfo) string {
	if !isGroup(p) {
		return p.Name
	}
	return exitOf(p.Agents[len(p.Agents)-1])
}

func (d *drawing) node(id, label, shape string) {
	fmt.Fprintf(d, "%s [label=%s shape=%s", quoted(id), quoted(label), quoted(shape))
	if slices.ContainsFunc(d.ways, func(w way) bool { return w.from == id || w.to == id }) {
		fmt.Fprintf(d, " style=\"filled,rounded\" fillcolor=%s color=%[1]s", quoted(d.mark))
	}
	d.WriteString("]\n")
}

// edge draws an edge. One that the event went back is drawn with its arrow back.
func (d *drawing) edge(from, to string, attributes ...string) {
	switch {
	case slices.Contains(d.ways, way{from, to}):
		attributes = []string{"color=" + quoted(d.markLine)}
	case slices.Contains(d.ways, way{to, from}):
		attributes = []string{"dir=\"back\"", "color=" + quoted(d.markLine)}
	}
	fmt.Fprintf(d, "%s -> %s [%s]\n", quoted(from), quoted(to), strings.Join(attributes, " "))
}
