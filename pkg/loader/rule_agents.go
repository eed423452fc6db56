package loader

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"agenthost/internal/adktools"
	"agenthost/internal/agentconfig"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// treeNames are all agent and tool names in an app, including built-in tools.
type treeNames struct{ agents, tools map[string]bool }

// newTreeNames collects an app's names.
func newTreeNames(app *appModel) *treeNames {
	names := &treeNames{agents: map[string]bool{}, tools: map[string]bool{}}
	for _, name := range app.builtinTools {
		names.tools[name] = true
	}
	app.root.visitTree(func(p *resolvedAgent) {
		names.agents[p.name] = true
		for _, t := range p.tools {
			for _, name := range t.names {
				names.tools[name] = true
			}
		}
	})
	return names
}

// An agentCheck is a rule's pass over an app's agents, to find those that cannot do their work.
type agentCheck struct {
	names *treeNames
	ds    spec.Diagnostics
}

// agentRules are the rules about single agents in one app, whose names are collected once.
type agentRules struct{ names *treeNames }

// check returns one rule's check. above are an agent's ancestors from the root down; an agent that
// is called as a tool has none.
func (r *agentRules) check(check func(c *agentCheck, p *resolvedAgent, above []*resolvedAgent)) func(app *appModel) spec.Diagnostics {
	return func(app *appModel) spec.Diagnostics {
		if r.names == nil {
			r.names = newTreeNames(app)
		}
		c := &agentCheck{names: r.names}
		var below func(p *resolvedAgent, above []*resolvedAgent)
		below = func(p *resolvedAgent, above []*resolvedAgent) {
			check(c, p, above)
			inner := append(slices.Clip(above), p)
			for _, sub := range p.subs {
				below(sub, inner)
			}
			for _, sub := range toolAgents(p.tools) {
				below(sub, nil)
			}
		}
		below(app.root, nil)
		return mergeByPlace(c.ds)
	}
}

func (c *agentCheck) addProblem(d spec.Diagnostic) { c.ds = append(c.ds, d) }

// checkEmpty warns about a workflow agent without sub-agents.
func checkEmpty(c *agentCheck, p *resolvedAgent, _ []*resolvedAgent) {
	runs := []string{"SequentialAgent", "ParallelAgent", "LoopAgent"}
	if len(p.subs) == 0 && slices.Contains(runs, p.plan.Kind.Name) {
		c.addProblem(p.plan.Node.Warnf("no-agents", "the %s %s has no sub_agents and does nothing", p.plan.Kind.Name, p.name).
			WithHint("list the agents that it runs under sub_agents"))
	}
}

// checkGlobalInstruction warns about a global_instruction below the root.
func checkGlobalInstruction(c *agentCheck, p *resolvedAgent, above []*resolvedAgent) {
	if at := p.plan.Node.Get("global_instruction"); isLLMAgent(p) && !at.IsNull() && len(above) > 0 {
		c.addProblem(at.Warnf("global-instruction", "global_instruction has no effect on agent %s: only the root agent's is used", p.name).
			WithHint("move it to the root agent, or to instruction"))
	}
}

// checkNodeContents warns once about a workflow that its LLM agents see their input instead of the
// conversation, until one of them sets include_contents.
func checkNodeContents(c *agentCheck, p *resolvedAgent, _ []*resolvedAgent) {
	if p.plan.Kind.Name != "Workflow" {
		return
	}
	var first *resolvedAgent
	for _, sub := range p.subs {
		switch {
		case !isLLMAgent(sub):
		case !sub.plan.Node.Get("include_contents").IsNull(), agentMode(sub) != "":
			return
		case first == nil:
			first = sub
		}
	}
	if first != nil {
		c.addProblem(first.plan.Node.Warnf("node-contents", "node %s sees its input and no history, as in ADK 2.9; builds before 0.1.0 sent it the conversation", first.name).
			WithHint("write include_contents: none to accept this for the workflow %s, or default on each node that needs the conversation", p.name))
	}
}

// checkNodeMessage warns once about a workflow that ends with a function that its output is not a
// message, until one of these functions sets message.
func checkNodeMessage(c *agentCheck, p *resolvedAgent, _ []*resolvedAgent) {
	edges := workflowEdges(p)
	var first *resolvedAgent
	for i, sub := range p.subs {
		isLast := !slices.ContainsFunc(edges, func(e runtime.Edge) bool { return e.From == i })
		switch {
		case len(edges) == 0 || !isLast || sub.plan.Kind.Name != "FunctionNode":
		case !sub.plan.Node.Get("message").IsNull():
			return
		case first == nil:
			first = sub
		}
	}
	if first != nil {
		c.addProblem(first.plan.Node.Warnf("node-message", "workflow %s ends with the output of %s, which is not a message, as in ADK; builds before 0.1.0 sent it as one", p.name, first.name).
			WithHint("write message: true to send it as a message, or message: false to accept this for the workflow"))
	}
}

// checkNodeCall warns once about a workflow in which an agent sees the conversation, which omits
// tool node calls, until the results are in the state.
func checkNodeCall(c *agentCheck, p *resolvedAgent, _ []*resolvedAgent) {
	if p.plan.Kind.Name != "Workflow" {
		return
	}
	reader := slices.IndexFunc(p.subs, func(sub *resolvedAgent) bool {
		include := sub.plan.Node.Get("include_contents")
		return isLLMAgent(sub) && !include.IsNull() && include.Value == "default"
	})
	for _, sub := range p.subs {
		if reader >= 0 && sub.plan.Kind.Name == "ToolNode" && sub.plan.Node.Get("output_key").IsNull() && !asksUser(sub) {
			c.addProblem(sub.plan.Node.Warnf("node-call", "node %s does not see the call of %s and its result, which are not part of the conversation, as in ADK 2.11; builds before 0.1.0 stored both", p.subs[reader].name, sub.name).
				WithHint("set output_key on the ToolNode, and write the key into the instruction"))
			return
		}
	}
}

// asksUser reports whether a ToolNode's tool gets its answer from the user, which is stored.
func asksUser(p *resolvedAgent) bool {
	return slices.ContainsFunc(p.tools, func(t *resolvedTool) bool {
		return slices.ContainsFunc(t.tools, func(one tool.Tool) bool { return tool.CapabilitiesOf(one).LongRunning })
	})
}

// checkExitLoop warns about exit_loop outside a loop.
func checkExitLoop(c *agentCheck, p *resolvedAgent, above []*resolvedAgent) {
	inLoop := slices.ContainsFunc(above, func(a *resolvedAgent) bool { return a.plan.Kind.Name == "LoopAgent" })
	for _, t := range p.tools {
		if t.kind == "exit_loop" && !inLoop && isLLMAgent(p) {
			c.addProblem(t.at.Warnf("exit-loop", "agent %s has exit_loop, but is not inside a LoopAgent", p.name).
				WithHint("put the agent into a LoopAgent, or remove the tool"))
		}
	}
}

// checkTransferTool warns about transfer_to_agent in an app with one agent.
func checkTransferTool(c *agentCheck, p *resolvedAgent, _ []*resolvedAgent) {
	for _, t := range p.tools {
		if t.kind == "transfer_to_agent" && len(c.names.agents) == 1 && isLLMAgent(p) {
			c.addProblem(t.at.Warnf("transfer", "agent %s has transfer_to_agent, but the app has no other agent", p.name).
				WithHint("remove the tool: agents with sub_agents can transfer without it"))
		}
	}
}

// checkTransferTargets checks the descriptions of agents that the model may transfer to.
func checkTransferTargets(c *agentCheck, p *resolvedAgent, _ []*resolvedAgent) {
	if !isLLMAgent(p) {
		return
	}
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
			use := "transfer to"
			if isDelegate(sub) {
				use = "call"
			}
			c.addProblem(sub.plan.Node.Warnf("no-description", "agent %s has no description: the model of agent %s cannot decide when to %s it", sub.name, p.name, use).
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

// checkLoopEnd warns about a loop that only the limit on model calls can end.
func checkLoopEnd(c *agentCheck, p *resolvedAgent, _ []*resolvedAgent) {
	n := p.plan.Node
	if p.plan.Kind.Name != "LoopAgent" {
		return
	}
	if number := n.Get("max_iterations"); !number.IsNull() || !n.Get("until").IsNull() || len(p.subs) == 0 {
		return
	}
	if slices.ContainsFunc(p.subs, mayBeSkipped) || mayEndLoop(p) {
		return
	}
	c.addProblem(n.Warnf("endless-loop", "nothing ends the loop %s before the limit of model calls", p.name).
		WithHint("set max_iterations or until, or add the tool exit_loop to an agent in the loop"))
}

// mayEndLoop reports whether an agent or its descendants may end the run or the loop: a
// tool that escalates or waits for a person, or any callback.
func mayEndLoop(p *resolvedAgent) bool {
	for _, e := range p.plan.Node.Entries {
		if strings.HasSuffix(e.Key.Value, "_callbacks") && len(e.Value.Items) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(p.tools, toolMayEndLoop) || slices.ContainsFunc(p.subs, mayEndLoop)
}

func toolMayEndLoop(t *resolvedTool) bool {
	if t.kind == "exit_loop" || t.kind == "transfer_to_agent" {
		return true
	}
	if t.set == nil {
		return false
	}
	if t.isDynamic() {
		return true
	}
	if !t.listed {
		return true // its effects are unknown
	}
	return slices.ContainsFunc(t.tools, func(one tool.Tool) bool {
		traits := tool.CapabilitiesOf(one)
		return traits.LongRunning || traits.Confirm != nil || traits.FailOnError
	})
}

// reservedToolNames returns the runtime's tool and call names, which would replace a tool with such
// a name.
func reservedToolNames() []string {
	return []string{runtime.RequestConfirmation, runtime.RequestCredential, "set_model_response", "transfer_to_agent"}
}

// checkReservedNames warns about tools that share a name with a runtime tool, or whose calls
// clients or models would misinterpret.
func checkReservedNames(c *agentCheck, p *resolvedAgent, _ []*resolvedAgent) {
	for _, t := range p.tools {
		if adktools.IsBuiltin(t.kind) {
			continue
		}
		for _, name := range t.names {
			if why := describeReserved(name); why != "" {
				c.addProblem(t.at.Warnf("tool-name", "the tool name %s is reserved for %s", name, why).WithHint("rename the tool"))
			}
		}
	}
}

// describeReserved describes a reserved name; empty if it is not reserved.
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

// checkMentions warns about an instruction to call a tool that the agent does not have: another
// agent's tool, a built-in tool, or a misspelled name.
func checkMentions(c *agentCheck, p *resolvedAgent, _ []*resolvedAgent) {
	own, complete := listToolNames(p)
	config, ok := p.plan.Config.(agentconfig.InstructionConfig)
	if !ok || !complete || !isLLMAgent(p) {
		return
	}
	for _, text := range config.Instructions() {
		for _, m := range backtickName.FindAllStringSubmatchIndex(text.Value, -1) {
			name := text.Value[m[2]:m[3]]
			if !slices.Contains(own, name) && !c.names.agents[name] && describeReserved(name) == "" {
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

func (c *agentCheck) checkMention(p *resolvedAgent, m mention, own []string) {
	before := m.text.Value[:m.offset]
	before = before[strings.LastIndexAny(before, "\n.")+1:]
	near := spec.Suggest(m.name, own)
	slip := near != "" && strings.Contains(m.name, "_") && !c.names.tools[m.name]
	instructed := c.names.tools[m.name] && callPhrase.MatchString(before) && !negationPhrase.MatchString(before)
	if !slip && !instructed {
		return
	}
	d := m.text.Warnf(m.offset+1, "tool-mention", "agent %s has no tool %s", p.name, m.name)
	if slip {
		c.addProblem(d.WithNearName(m.name, near))
		return
	}
	c.addProblem(d.WithHint("add it to the tools of the agent"))
}

// listToolNames returns an agent's tool names, and whether the list is complete.
func listToolNames(p *resolvedAgent) (names []string, complete bool) {
	for _, t := range p.tools {
		if len(t.names) == 0 {
			return nil, false
		}
		names = append(names, t.names...)
	}
	return names, true
}

// checkCaching warns when an app enables context caching and none of its agents' models supports
// it. Agents called as tools do not count: their sessions end with the call, so a cache would never
// be used.
func checkCaching(app *appModel) spec.Diagnostics {
	if app.doc.ContextCache == nil || hasCachingModel(app.root, app.defaultModel()) {
		return nil
	}
	return spec.Diagnostics{app.contextCacheNode().Warnf("context-cache", "no model of the app supports context caching: the setting has no effect").
		WithHint("use a model of the provider gemini or anthropic")}
}

// hasCachingModel reports whether any agent in a subtree has a model that supports context caching.
func hasCachingModel(p *resolvedAgent, inherited model.LLM) bool {
	if _, ok := p.modelName(); ok {
		if p.model != nil {
			inherited = p.model
		}
		if model.CanCache(inherited) {
			return true
		}
	}
	return slices.ContainsFunc(p.subs, func(sub *resolvedAgent) bool { return hasCachingModel(sub, inherited) })
}

// checkCodeExecution warns about agents, including those called as tools, that enable code
// execution with a model that does not support it. An agent without a model inherits its parent's
// or caller's; nil is the default model.
func checkCodeExecution(app *appModel) spec.Diagnostics {
	var ds spec.Diagnostics
	var below func(p *resolvedAgent, inherited model.LLM)
	below = func(p *resolvedAgent, inherited model.LLM) {
		if p.model != nil {
			inherited = p.model
		}
		if c, ok := p.plan.Config.(agentconfig.CodeConfig); ok {
			at, m := c.BuiltInCode(p.plan.Node), inherited
			if at != nil && m == nil {
				m = app.defaultModel()
			}
			if at != nil && !model.RunsCode(m) {
				ds = append(ds, at.Warnf("code-executor", "the model of agent %s does not support code execution: the setting has no effect", p.name).
					WithHint("use a model of the provider gemini"))
			}
		}
		for _, sub := range slices.Concat(p.subs, toolAgents(p.tools)) {
			below(sub, inherited)
		}
	}
	below(app.root, nil)
	return ds
}

// checkGeminiTools reports tools that run inside Gemini's service in agents with another provider's
// model, which would reject each request.
func checkGeminiTools(app *appModel) spec.Diagnostics {
	var ds spec.Diagnostics
	var below func(p *resolvedAgent, inherited string)
	below = func(p *resolvedAgent, inherited string) {
		if p.modelRef != "" {
			inherited = p.modelRef
		}
		for _, t := range p.tools {
			if !slices.ContainsFunc(t.tools, tool.IsModelTool) {
				continue
			}
			switch refuser, isFallback := app.findGeminiToolRefuser(inherited); {
			case isFallback:
				ds = append(ds, t.at.Warnf("gemini-tool", "the fallback %s of agent %s has no %s: that is a Gemini tool", refuser, p.name, strings.Join(t.names, " and ")).
					WithHint("use a Gemini model as the fallback, or move the tool to a separate agent that this one calls as a tool"))
			case refuser != "":
				ds = append(ds, t.at.Errorf("gemini-tool", "the model %s of agent %s has no %s: that is a Gemini tool", refuser, p.name, strings.Join(t.names, " and ")).
					WithHint("use a Gemini model, for example in a separate agent that this one calls as a tool"))
			}
		}
		for _, sub := range slices.Concat(p.subs, toolAgents(p.tools)) {
			below(sub, inherited)
		}
	}
	below(app.root, "")
	return mergeByPlace(ds)
}

// bytesPerToken is check's estimate: English texts have about 4 bytes per token, and most other
// languages fewer.
const bytesPerToken = 4

// checkContextLimits warns about agents whose max_output_tokens exceeds their model's, and about
// those whose instructions and tools alone exceed its context.
func checkContextLimits(app *appModel) spec.Diagnostics {
	var ds spec.Diagnostics
	var below func(p *resolvedAgent, inherited string)
	below = func(p *resolvedAgent, inherited string) {
		if p.modelRef != "" {
			inherited = p.modelRef
		}
		if _, ok := p.modelName(); ok {
			ds = append(ds, checkAgentLimits(app, p, app.listModelLimits(inherited))...)
		}
		for _, sub := range slices.Concat(p.subs, toolAgents(p.tools)) {
			below(sub, inherited)
		}
	}
	below(app.root, "")
	return mergeByPlace(ds)
}

// listContextSizes returns how many prompt tokens the models of the agents in the tree accept, by the agent's name. Of
// several models on a route it is the smallest, if all are known.
func listContextSizes(app *appModel) map[string]int {
	sizes := map[string]int{}
	var below func(p *resolvedAgent, inherited string)
	below = func(p *resolvedAgent, inherited string) {
		if p.modelRef != "" {
			inherited = p.modelRef
		}
		if _, ok := p.modelName(); ok {
			limits := app.listModelLimits(inherited)
			least := func(a, b namedLimits) int { return cmp.Compare(a.Input, b.Input) }
			if len(limits) > 0 && slices.MinFunc(limits, least).Input > 0 {
				sizes[p.name] = slices.MinFunc(limits, least).Input
			}
		}
		for _, sub := range p.subs {
			below(sub, inherited)
		}
	}
	below(app.root, "")
	return sizes
}

// checkAgentLimits checks an agent against the models that it may call, until one has a smaller
// limit.
func checkAgentLimits(app *appModel, p *resolvedAgent, models []namedLimits) spec.Diagnostics {
	for _, limits := range models {
		ds := append(checkOutputLimit(outputTokensNode(p), limits), checkInputLimit(app, p, limits)...)
		if len(ds) > 0 {
			return ds
		}
	}
	return nil
}

// outputTokensNode returns the agent's max_output_tokens, or nil.
func outputTokensNode(p *resolvedAgent) *spec.Node {
	settings := p.plan.Node.Get("generate_content_config")
	if at := settings.Get("maxOutputTokens"); at != nil {
		return at
	}
	return settings.Get("max_output_tokens")
}

// checkInputLimit estimates an agent's prompt without its conversation. The warning is at the
// longest part.
func checkInputLimit(app *appModel, p *resolvedAgent, limits namedLimits) spec.Diagnostics {
	if limits.Input == 0 {
		return nil
	}
	total, most, at := 0, 0, p.plan.Node
	add := func(n *spec.Node, size int) {
		if total += size; size > most {
			most, at = size, n
		}
	}
	for _, key := range []string{"instruction", "static_instruction"} {
		n := p.plan.Node.Get(key)
		add(n, textSize(n))
	}
	global := app.root.plan.Node.Get("global_instruction")
	add(global, textSize(global))
	add(p.plan.Node.Get("tools"), toolsSize(p.tools))
	tokens := total / bytesPerToken
	if tokens <= limits.Input {
		return nil
	}
	return spec.Diagnostics{at.Warnf("context-limit", "the instructions and tools of agent %s have an estimated %d tokens, more than the %d that model %s accepts", p.name, tokens, limits.Input, limits.model).
		WithHint("shorten them, let a tool return long texts, or use a model with a larger context; %d bytes count as one token", bytesPerToken)}
}

// textSize returns an instruction's text size in bytes. The text may be nil, a string, or parts.
func textSize(n *spec.Node) int {
	switch {
	case n.IsNull():
		return 0
	case n.Kind == spec.Scalar:
		return len(n.Value)
	}
	size := textSize(n.Get("text")) + textSize(n.Get("parts"))
	for _, item := range n.Items {
		size += textSize(item)
	}
	return size
}

// toolsSize returns the bytes in tool declarations that are known before a run.
func toolsSize(tools []*resolvedTool) int {
	size := 0
	for _, t := range tools {
		for _, one := range t.tools {
			if decl, err := json.Marshal(one.Declaration()); err == nil {
				size += len(decl)
			}
		}
	}
	return size
}
