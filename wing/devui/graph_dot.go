package devui

import (
	"fmt"
	"slices"
	"strings"

	"agenthost/pkg/runtime"
)

// startNode is ADK's name for a workflow's start.
const startNode = "__START__"

func edgeRoute(e runtime.Edge) string {
	if e.Kind == runtime.EdgeDefault {
		return "default"
	}
	return runtime.RouteText(e.Route)
}

// A palette is a drawing's colors and agent icon, as in adk-python's cli/agent_graph.py. The
// legend in ADK's web client uses the same icons.
type palette struct{ background, line, text, highlight, highlightLine, agentIcon string }

func graphPalette(dark bool) palette {
	if dark {
		return palette{"#0F172A", "#94A3B8", "#F8FAFC", "#0F5223", "#69CB87", "✦ "}
	}
	return palette{"#F8FAFC", "#64748B", "#0F172A", "#C4EBD0", "#0F5223", "✦ "}
}

// eventPalette returns the palette for event drawings, which have only one background.
func eventPalette() palette {
	return palette{"#333537", "#cccccc", "#cccccc", "#0F5223", "#69CB87", "🤖 "}
}

// A highlight marks an edge that an event took, from an agent to a tool or back. With
// one name it marks a node.
type highlight struct{ from, to string }

// A dotWriter writes an agent tree in Graphviz's DOT language. Node IDs are agent and tool
// names, because ADK's web client looks up nodes by name.
type dotWriter struct {
	strings.Builder
	palette
	highlights []highlight
}

// renderDOT draws a tree with an event's highlights.
func renderDOT(p *runtime.AgentInfo, colors palette, highlights ...highlight) string {
	d := &dotWriter{palette: colors, highlights: highlights}
	fmt.Fprintf(d, "strict digraph %s {\n", quoteDOT(p.Name))
	fmt.Fprintf(d, "rankdir=\"LR\" bgcolor=%s\n", quoteDOT(d.background))
	fmt.Fprintf(d, "node [style=\"rounded\" fontname=\"Helvetica\" color=%s fontcolor=%[2]s]\n", quoteDOT(d.line), quoteDOT(d.text))
	fmt.Fprintf(d, "edge [fontname=\"Helvetica\" color=%s fontcolor=%[1]s]\n", quoteDOT(d.line))
	d.writeAgent(p)
	d.WriteString("}\n")
	return d.String()
}

// quoteDOT quotes a string for Graphviz.
func quoteDOT(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}

func (d *dotWriter) writeAgent(p *runtime.AgentInfo) {
	switch {
	case isCluster(p):
		d.writeCluster(p)
	case p.Kind == "ToolNode":
		d.writeNode(p.Name, "🔧 "+p.Name, "box")
	case p.Kind == "FunctionNode":
		d.writeNode(p.Name, "ƒ "+p.Name, "box")
	case p.Kind == "JoinNode":
		d.writeNode(p.Name, "⌵ "+p.Name, "box")
	default:
		d.writeNode(p.Name, d.agentIcon+p.Name, "ellipse")
		d.writeChildren(p)
	}
}

// writeChildren writes an agent's tools and sub-agents.
func (d *dotWriter) writeChildren(p *runtime.AgentInfo) {
	for _, t := range p.Tools {
		name := t.Declaration.Name
		if t.Agent != nil {
			d.writeAgent(t.Agent)
			name = entryNode(t.Agent)
		} else {
			d.writeNode(name, "🔧 "+name, "box")
		}
		d.writeEdge(p.Name, name, "arrowhead=\"none\"")
	}
	for _, child := range p.Agents {
		d.writeAgent(child)
		d.writeEdge(p.Name, entryNode(child), "arrowhead=\"none\"")
	}
}

// isCluster reports whether an agent only runs other agents. It is drawn as a frame.
func isCluster(p *runtime.AgentInfo) bool {
	switch p.Kind {
	case "SequentialAgent", "ParallelAgent", "LoopAgent", "RouterAgent", "Workflow":
		return len(p.Agents) > 0
	}
	return false
}

func (d *dotWriter) writeCluster(p *runtime.AgentInfo) {
	label := fmt.Sprintf("%s (%s)", p.Name, strings.Replace(p.Kind, "Agent", " Agent", 1))
	fmt.Fprintf(d, "subgraph %s {\n", quoteDOT("cluster_"+label))
	fmt.Fprintf(d, "label=%s style=\"rounded\" color=%s fontcolor=%s\n", quoteDOT(label), quoteDOT(d.line), quoteDOT(d.text))
	for _, child := range p.Agents {
		d.writeAgent(child)
	}
	switch p.Kind {
	case "SequentialAgent", "LoopAgent":
		for i, child := range p.Agents[1:] {
			d.writeEdge(exitNode(p.Agents[i]), entryNode(child))
		}
		if p.Kind == "LoopAgent" {
			d.writeEdge(exitNode(p.Agents[len(p.Agents)-1]), entryNode(p.Agents[0]))
		}
	case "RouterAgent":
		d.writeNode(p.Name, "⑂ "+p.Name, "diamond")
		for _, child := range p.Agents {
			d.writeEdge(p.Name, entryNode(child))
		}
	case "Workflow":
		d.writeWorkflow(p)
	}
	d.WriteString("}\n")
}

func (d *dotWriter) writeWorkflow(p *runtime.AgentInfo) {
	start := p.Name + "." + startNode
	d.writeNode(start, "START", "circle")
	for _, e := range p.Edges {
		from := start
		if e.From != runtime.Start {
			from = exitNode(p.Agents[e.From])
		}
		if condition := edgeRoute(e); condition != "" {
			d.writeEdge(from, entryNode(p.Agents[e.To]), "label="+quoteDOT(condition))
		} else {
			d.writeEdge(from, entryNode(p.Agents[e.To]))
		}
	}
}

// entryNode returns the node at which edges to an agent end, exitNode the one at which edges
// from it start. A frame is not a node.
func entryNode(p *runtime.AgentInfo) string {
	switch {
	case !isCluster(p) || p.Kind == "RouterAgent":
		return p.Name
	case p.Kind == "Workflow":
		return p.Name + "." + startNode
	}
	return entryNode(p.Agents[0])
}

func exitNode(p *runtime.AgentInfo) string {
	if !isCluster(p) {
		return p.Name
	}
	return exitNode(p.Agents[len(p.Agents)-1])
}

func (d *dotWriter) writeNode(id, label, shape string) {
	fmt.Fprintf(d, "%s [label=%s shape=%s", quoteDOT(id), quoteDOT(label), quoteDOT(shape))
	if slices.ContainsFunc(d.highlights, func(w highlight) bool { return w.from == id || w.to == id }) {
		fmt.Fprintf(d, " style=\"filled,rounded\" fillcolor=%s color=%[1]s", quoteDOT(d.highlight))
	}
	d.WriteString("]\n")
}

// writeEdge writes an edge. If the event took it backward, its arrow is reversed.
func (d *dotWriter) writeEdge(from, to string, attributes ...string) {
	switch {
	case slices.Contains(d.highlights, highlight{from, to}):
		attributes = []string{"color=" + quoteDOT(d.highlightLine)}
	case slices.Contains(d.highlights, highlight{to, from}):
		attributes = []string{"dir=\"back\"", "color=" + quoteDOT(d.highlightLine)}
	}
	fmt.Fprintf(d, "%s -> %s [%s]\n", quoteDOT(from), quoteDOT(to), strings.Join(attributes, " "))
}
