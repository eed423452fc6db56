package loader

import (
	"regexp"
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

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
