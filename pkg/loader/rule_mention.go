package loader

import (
	"regexp"
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

// backtickName finds `names` in a text for a model.
var backtickName = regexp.MustCompile("`([A-Za-z_][A-Za-z0-9_]*)(?:\\(\\))?`")

// callPhrase finds the words before a name that tell a model to call it; forbidden
// those that tell it not to.
var (
	callPhrase     = regexp.MustCompile(`(?i)\b(?:call|calling|invoke|use|using)\s+(?:the\s+)?(?:tool\s+|function\s+)?$`)
	negationPhrase = regexp.MustCompile(`(?i)\b(?:not|never|don't|cannot|can't|without)\b[^.]*$`)
)

// checkMentions warns of an instruction that tells a model to call a tool which
// its agent does not have: one that another agent has, one that is built in, or a
// slip of its own.
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

// listTools are the names of an agent's tools, and whether they are all.
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
