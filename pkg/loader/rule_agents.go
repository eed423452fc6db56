package loader

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// treeCheck finds agents that cannot do their work. Like stateFlow, it skips apps with
// errors.
type treeCheck struct {
	ctx context.Context
	// agents and tools are all names, including built-in tools.
	agents, tools map[string]bool
	ds            spec.Diagnostics
}

func (j *job) checkTree(ctx context.Context, root *resolvedAgent) {
	if root == nil || j.ds.HasErrors() {
		return
	}
	c := &treeCheck{ctx: ctx, agents: map[string]bool{}, tools: map[string]bool{}}
	for _, name := range j.loader.builtins.Names() {
		c.tools[name] = true
	}
	c.collectNames(root)
	c.checkAgent(root, nil)
	j.report(mergeByPlace(c.ds)...)
}

func (c *treeCheck) addProblem(d spec.Diagnostic) { c.ds = append(c.ds, d) }

func (c *treeCheck) collectNames(p *resolvedAgent) {
	c.agents[p.name] = true
	for _, t := range p.tools {
		for _, name := range t.listToolNames(c.ctx) {
			c.tools[name] = true
		}
	}
	for _, sub := range slices.Concat(p.subs, toolAgents(p.tools)) {
		c.collectNames(sub)
	}
}

// checkAgent checks an agent and its descendants. above are its ancestors from the root
// down.
func (c *treeCheck) checkAgent(p *resolvedAgent, above []*resolvedAgent) {
	switch p.plan.Kind.Name {
	case "LlmAgent":
		c.checkLLMAgent(p, above)
	case "LoopAgent":
		c.checkLoopEnd(p)
	}
	c.checkEmpty(p)
	c.checkToolNames(p)
	inner := append(slices.Clip(above), p)
	for _, sub := range p.subs {
		c.checkAgent(sub, inner)
	}
	for _, sub := range toolAgents(p.tools) {
		c.checkAgent(sub, nil)
	}
}

// checkEmpty warns of a workflow agent without sub-agents.
func (c *treeCheck) checkEmpty(p *resolvedAgent) {
	runs := []string{"SequentialAgent", "ParallelAgent", "LoopAgent"}
	if len(p.subs) == 0 && slices.Contains(runs, p.plan.Kind.Name) {
		c.addProblem(p.plan.Node.Warnf("no-agents", "the %s %s has no sub_agents and does nothing", p.plan.Kind.Name, p.name).
			WithHint("list the agents that it runs under sub_agents"))
	}
}

// checkLLMAgent checks an agent with a model.
func (c *treeCheck) checkLLMAgent(p *resolvedAgent, above []*resolvedAgent) {
	c.checkTransferTargets(p)
	c.checkMentions(p)
	if at := p.plan.Node.Get("global_instruction"); !at.IsNull() && len(above) > 0 {
		c.addProblem(at.Warnf("global-instruction", "global_instruction has no effect on agent %s: only that of the root agent is used", p.name).
			WithHint("move it to the root agent, or to instruction"))
	}
	inLoop := slices.ContainsFunc(above, func(a *resolvedAgent) bool { return a.plan.Kind.Name == "LoopAgent" })
	for _, t := range p.tools {
		switch {
		case t.kind == "exit_loop" && !inLoop:
			c.addProblem(t.at.Warnf("exit-loop", "agent %s has exit_loop, but is not inside a LoopAgent", p.name).
				WithHint("put the agent into a LoopAgent, or remove the tool"))
		case t.kind == "transfer_to_agent" && len(c.agents) == 1:
			c.addProblem(t.at.Warnf("transfer", "agent %s has transfer_to_agent, but the app has no other agent", p.name).
				WithHint("remove the tool: agents with sub_agents can transfer without it"))
		}
	}
}

// checkTransferTargets checks the descriptions of the agents that the model may
// transfer to.
func (c *treeCheck) checkTransferTargets(p *resolvedAgent) {
	seen, named := map[string]*resolvedAgent{}, map[string]int{}
	for _, sub := range p.subs {
		named[sub.name]++
	}
	for _, sub := range p.subs {
		if named[sub.name] > 1 {
			continue // reported as duplicate-name
		}
		at := sub.plan.Node.Get("description")
		if at.IsNull() || strings.TrimSpace(at.Value) == "" {
			c.addProblem(sub.plan.Node.Warnf("no-description", "agent %s has no description: the model of agent %s cannot decide when to transfer to it", sub.name, p.name).
				WithHint("add a description of its purpose"))
			continue
		}
		words := strings.ToLower(strings.Join(strings.Fields(at.Value), " "))
		if other := seen[words]; other != nil && other.plan.Node.Pos != sub.plan.Node.Pos {
			c.addProblem(at.Warnf("same-description", "agents %s and %s have the same description: the model of agent %s cannot choose between them", other.name, sub.name, p.name).
				WithHint("describe how they differ"))
		}
		seen[words] = sub
	}
}

// checkLoopEnd warns of a loop that only the limit of model calls can end.
func (c *treeCheck) checkLoopEnd(p *resolvedAgent) {
	n := p.plan.Node
	if number := n.Get("max_iterations"); !number.IsNull() && number.Value != "0" || !n.Get("until").IsNull() || len(p.subs) == 0 {
		return
	}
	if slices.ContainsFunc(p.subs, mayBeSkipped) || c.mayEndLoop(p) {
		return
	}
	c.addProblem(n.Warnf("endless-loop", "nothing ends the loop %s before the limit of model calls", p.name).
		WithHint("set max_iterations or until, or add the tool exit_loop to an agent in the loop"))
}

// mayEndLoop reports whether an agent or its descendants may end the run or the loop: a
// tool that escalates or waits for a person, or any callback.
func (c *treeCheck) mayEndLoop(p *resolvedAgent) bool {
	for _, e := range p.plan.Node.Entries {
		if strings.HasSuffix(e.Key.Value, "_callbacks") && len(e.Value.Items) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(p.tools, c.toolMayEndLoop) || slices.ContainsFunc(p.subs, c.mayEndLoop)
}

func (c *treeCheck) toolMayEndLoop(t *resolvedTool) bool {
	if t.kind == "exit_loop" || t.kind == "transfer_to_agent" {
		return true
	}
	if t.set == nil {
		return false
	}
	if t.isDynamic() {
		return true
	}
	tools, err := t.set.Tools(c.ctx)
	if err != nil {
		return true // its effects are unknown
	}
	return slices.ContainsFunc(tools, func(one tool.Tool) bool {
		traits := tool.CapabilitiesOf(one)
		return traits.LongRunning || traits.Confirm != nil || traits.FailOnError
	})
}

// reservedToolNames returns the names of tools and calls of the runtime, which would
// replace a tool with such a name.
func reservedToolNames() []string {
	return []string{runtime.RequestConfirmation, runtime.RequestCredential, "set_model_response", "transfer_to_agent"}
}

// checkToolNames warns of tools with the names of runtime tools, or whose calls clients
// or models would misinterpret.
func (c *treeCheck) checkToolNames(p *resolvedAgent) {
	for _, t := range p.tools {
		if _, builtin := tool.Builtins().Lookup(t.kind); builtin {
			continue
		}
		for _, name := range t.listToolNames(c.ctx) {
			if why := describeReserved(name); why != "" {
				c.addProblem(t.at.Warnf("tool-name", "the tool name %s is reserved for %s", name, why).WithHint("rename the tool"))
			}
		}
	}
}

// describeReserved returns the use of a reserved name; empty if it is not reserved.
func describeReserved(name string) string {
	switch {
	case slices.Contains(reservedToolNames(), name):
		return "a tool or call of the runtime"
	case name == tool.RequestInput:
		return "calls of request_input, which clients show as questions"
	case name == "adk_framework":
		return "calls that ADK hides from models: the model would not get its responses"
	}
	return ""
}

// backtickName matches `names` in an instruction.
var backtickName = regexp.MustCompile("`([A-Za-z_][A-Za-z0-9_]*)(?:\\(\\))?`")

// callPhrase matches a request to call the tool before its name; forbidden matches a
// request not to.
var (
	callPhrase     = regexp.MustCompile(`(?i)\b(?:call|calling|invoke|use|using)\s+(?:the\s+)?(?:tool\s+|function\s+)?$`)
	negationPhrase = regexp.MustCompile(`(?i)\b(?:not|never|don't|cannot|can't|without)\b[^.]*$`)
)

// checkMentions warns of an instruction to call a tool that the agent does not have: a
// tool of another agent, a built-in tool, or a misspelled name.
func (c *treeCheck) checkMentions(p *resolvedAgent) {
	own, complete := c.listTools(p)
	config, ok := p.plan.Config.(interface{ Instructions() []spec.Text })
	if !ok || !complete {
		return
	}
	for _, text := range config.Instructions() {
		for _, m := range backtickName.FindAllStringSubmatchIndex(text.Value, -1) {
			name := text.Value[m[2]:m[3]]
			if !slices.Contains(own, name) && !c.agents[name] && describeReserved(name) == "" {
				c.checkMention(p, mention{text, m[0], name}, own)
			}
		}
	}
}

// mention is a name in backticks.
type mention struct {
	text   spec.Text
	offset int
	name   string
}

func (c *treeCheck) checkMention(p *resolvedAgent, m mention, own []string) {
	before := m.text.Value[:m.offset]
	before = before[strings.LastIndexAny(before, "\n.")+1:]
	near := spec.Suggest(m.name, own)
	slip := near != "" && strings.Contains(m.name, "_") && !c.tools[m.name]
	instructed := c.tools[m.name] && callPhrase.MatchString(before) && !negationPhrase.MatchString(before)
	if !slip && !instructed {
		return
	}
	d := m.text.Warnf(m.offset+1, "tool-mention", "agent %s has no tool %s", p.name, m.name)
	if slip {
		c.addProblem(d.WithHint("did you mean %q?", near))
		return
	}
	c.addProblem(d.WithHint("add it to the tools of the agent"))
}

// listTools returns the names of an agent's tools, and whether the list is complete.
func (c *treeCheck) listTools(p *resolvedAgent) (names []string, complete bool) {
	for _, t := range p.tools {
		own := t.listToolNames(c.ctx)
		if len(own) == 0 {
			return nil, false
		}
		names = append(names, own...)
	}
	return names, true
}
