package loader

import "agenthost/pkg/spec"

// An appRule checks an app's model. Problems with single fields, names and references are reported
// where they are decoded and resolved.
type appRule struct {
	// name is the rule in its diagnostics, or the common subject if there are several rules.
	name  string
	needs ruleNeeds
	check func(app *appModel) spec.Diagnostics
}

// ruleNeeds is what an app must have for a rule to run.
type ruleNeeds int

const (
	// anyApp means that the rule always runs.
	anyApp ruleNeeds = iota
	// resolvedTree means that the agent tree is known, and no load limit exceeded.
	resolvedTree
	// validApp means that there are no errors so far: missing declarations would cause
	// other problems.
	validApp
)

// rules returns the rules about whole apps in the order in which they run, to check one
// app.
func rules() []appRule {
	state, agents := &stateRules{}, &agentRules{}
	return []appRule{
		{"duplicate-name", anyApp, checkDuplicateNames},
		{"unused", anyApp, checkUnused},
		{"variable", anyApp, checkForeignVariables},
		{"context-cache", validApp, checkCaching},
		{"compaction", resolvedTree, checkCompaction},
		{"code-executor", validApp, checkCodeExecution},
		{"gemini-tool", validApp, checkGeminiTools},
		{"context-limit", validApp, checkContextLimits},
		{"state-schema", resolvedTree, checkStateSchema},
		{"state-unwritten", validApp, state.check((*stateFlow).checkReads)},
		{"state-unread", validApp, state.check((*stateFlow).checkWrites)},
		{"output-key", validApp, state.check((*stateFlow).checkOverwritten)},
		{"placeholder", validApp, state.check((*stateFlow).checkPlaceholders)},
		{"state-prefix", validApp, state.check((*stateFlow).checkPrefixes)},
		{"state-order", validApp, state.check((*stateFlow).checkOrder)},
		{"state-guard", validApp, state.check((*stateFlow).checkGuards)},
		{"state-race", validApp, state.check((*stateFlow).checkRaces)},
		{"mode", resolvedTree, agents.check(checkMode)},
		{"no-agents", validApp, agents.check(checkEmpty)},
		{"endless-loop", validApp, agents.check(checkLoopEnd)},
		{"tool-name", validApp, agents.check(checkReservedNames)},
		{"transfer-targets", validApp, agents.check(checkTransferTargets)},
		{"tool-mention", validApp, agents.check(checkMentions)},
		{"global-instruction", validApp, agents.check(checkGlobalInstruction)},
		{"exit-loop", validApp, agents.check(checkExitLoop)},
		{"node-contents", validApp, agents.check(checkNodeContents)},
		{"node-call", validApp, agents.check(checkNodeCall)},
		{"node-message", validApp, agents.check(checkNodeMessage)},
		{"transfer", validApp, agents.check(checkTransferTool)},
		{"live", validApp, checkLive},
		{"resumability", resolvedTree, checkResumability},
		{"secrets", validApp, checkSecrets},
	}
}

// checkDuplicateNames warns about sub-agents and tools with the same name: only the first one can
// be a transfer target or be called. ADK also warns.
func checkDuplicateNames(app *appModel) spec.Diagnostics {
	var ds spec.Diagnostics
	for _, p := range app.agents {
		seen := map[string]bool{}
		for _, sub := range p.subs {
			if sub.name != "" && seen[sub.name] {
				ds = append(ds, sub.plan.Node.Get("name").Warnf("duplicate-name", "agent %s has more than one sub-agent named %s", p.name, sub.name))
			}
			seen[sub.name] = true
		}
		clear(seen)
		for _, t := range p.tools {
			for _, name := range t.names {
				if seen[name] {
					ds = append(ds, t.at.Warnf("duplicate-name", "agent %s has more than one tool named %s: only the first one is called", p.name, name))
				}
				seen[name] = true
			}
		}
	}
	return ds
}

// checkUnused warns about declarations that nothing uses.
func checkUnused(app *appModel) spec.Diagnostics {
	var ds spec.Diagnostics
	for _, p := range app.unused {
		ds = append(ds, p.node.Warnf("unused", "unused %s %s", p.kind, p.name))
	}
	return ds
}

// checkCompaction rejects compaction without a model: the summarizer's, or the root agent's, which
// must then be an LLM agent.
func checkCompaction(app *appModel) spec.Diagnostics {
	c := app.doc.Compaction
	if c == nil || c.config.Summarizer.Model.Value != "" {
		return nil
	}
	if _, ok := app.root.modelName(); ok {
		return nil
	}
	return spec.Diagnostics{c.node.Errorf("compaction", "the root agent %s has no model for summaries", app.root.name).
		WithHint("set summarizer: {model: NAME}")}
}

// checkResumability validates that resumability is set only on the root agent, and that a resumable
// app's sub-agents have unique names.
func checkResumability(app *appModel) spec.Diagnostics {
	var ds spec.Diagnostics
	resumable := app.isResumable()
	app.root.visitTree(func(p *resolvedAgent) {
		seen := map[string]bool{}
		for _, sub := range p.subs {
			if resumable && sub.name != "" && seen[sub.name] {
				ds = append(ds, sub.plan.Node.Get("name").Errorf("resumability",
					"agent %s has more than one sub-agent named %s: resumable apps require unique names", p.name, sub.name))
			}
			seen[sub.name] = true
		}
		if at := p.plan.Node.Get(resumabilityKey); p != app.root && !at.IsNull() {
			ds = append(ds, at.Errorf("resumability", "resumability is allowed only on the root agent, not on agent %s", p.name).
				WithHint("set it in app.yaml or on the root agent"))
		}
		ds = append(ds, checkQuestion(p, resumable)...)
		ds = append(ds, checkTaskNodes(p, resumable)...)
	})
	return ds
}

// checkQuestion warns about a node that asks the user in an app that is not resumable: its workflow
// does not continue after the answer.
func checkQuestion(p *resolvedAgent, resumable bool) spec.Diagnostics {
	if resumable || p.plan.Kind.Name != "ToolNode" {
		return nil
	}
	var ds spec.Diagnostics
	for _, t := range p.tools {
		if t.kind == "request_input" || t.kind == "get_user_choice" {
			ds = append(ds, t.at.Warnf("resumability", "node %s asks the user, but the workflow does not continue after the answer: the app is not resumable", p.name).
				WithHint("write resumability_config: {is_resumable: true} in app.yaml"))
		}
	}
	return ds
}

// checkSecrets reports secrets in fields that are displayed. All documents must have
// been decoded before.
func checkSecrets(app *appModel) spec.Diagnostics {
	var ds spec.Diagnostics
	for _, root := range app.documents {
		ds = append(ds, spec.CheckSecrets(root)...)
	}
	return ds
}
