package evalrun

import (
	"fmt"
	"regexp"
	"strings"

	"agenthost/pkg/runtime"
)

// DescribeApp describes an app's agents for the model that writes scenarios: their
// instructions, tools and sub-agents.
func DescribeApp(app *runtime.App) string {
	var b strings.Builder
	describeAgent(&b, app.AgentInfo(), 0)
	return strings.TrimSpace(b.String())
}

func describeAgent(b *strings.Builder, p *runtime.AgentInfo, depth int) {
	indent := strings.Repeat("  ", depth)
	fmt.Fprintf(b, "%sAgent %s: %s\n", indent, p.Name, p.Description)
	if p.Instruction != "" {
		fmt.Fprintf(b, "%s  Instruction: %s\n", indent, strings.ReplaceAll(strings.TrimSpace(p.Instruction), "\n", "\n  "+indent))
	}
	for _, t := range p.Tools {
		if t.Agent != nil {
			describeAgent(b, t.Agent, depth+1)
			continue
		}
		fmt.Fprintf(b, "%s  Tool %s: %s\n", indent, t.Declaration.Name, t.Declaration.Description)
	}
	for _, sub := range p.Agents {
		describeAgent(b, sub, depth+1)
	}
}

// stateKey matches the placeholders for required session state, without prefix.
var stateKey = regexp.MustCompile(`\{([A-Za-z0-9_]+)\}`)

// ListStateKeys returns an empty value for each session state key that the app's instructions
// require, as adk eval_set generate_eval_cases does.
func ListStateKeys(app *runtime.App) map[string]any {
	keys := map[string]any{}
	addStateKeys(keys, app.AgentInfo())
	return keys
}

func addStateKeys(keys map[string]any, p *runtime.AgentInfo) {
	for _, m := range stateKey.FindAllStringSubmatch(p.Instruction, -1) {
		keys[m[1]] = ""
	}
	for _, t := range p.Tools {
		if t.Agent != nil {
			addStateKeys(keys, t.Agent)
		}
	}
	for _, sub := range p.Agents {
		addStateKeys(keys, sub)
	}
}
