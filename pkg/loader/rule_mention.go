package loader

import (
	"regexp"
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

// quoted finds `names` in a text for a model.
var quoted = regexp.MustCompile("`([A-Za-z_][A-Za-z0-9_]*)(?:\\(\\))?`")

// ordered finds the words before a name that tell a model to call it; forbidden
// those that tell it not to.
var (
	ordered   = regexp.MustCompile(`(?i)\b(?:call|calling|invoke|use|using)\s+(?:the\s+)?(?:tool\s+|function\s+)?$`)
	forbidden = regexp.MustCompile(`(?i)\b(?:not|never|don't|cannot|can't|without)\b[^.]*$`)
)

// checkMentions warns of an instruction that tells a model to call a tool which
// its agent does not have: one that another agent has, one that is built in, or a
// slip of its own.
func (c *treeCheck) checkMentions(p *placed) {
	own, complete := c.toolsOf(p)
	config, ok := p.plan.Config.(interface{ Instructions() []spec.Text })
	if !ok || !complete {
		return
	}
	for _, text := range config.Instructions() {
		for _, m := range quoted.FindAllStringSubmatchIndex(text.Value, -1) {
			name := text.Value[m[2]:m[3]]
			if !slices.Contains(own, name) && !c.agents[name] && takenBy(name) == "" {
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

func (c *treeCheck) checkMention(p *placed, m mention, own []string) {
	before := m.text.Value[:m.offset]
	before = before[strings.LastIndexAny(before, "\n.")+1:]
	near := spec.Suggest(m.name, own)
	slip := near != "" && strings.Contains(m.name, "_") && !c.tools[m.name]
	told := c.tools[m.name] && ordered.MatchString(before) && !forbidden.MatchString(before)
	if !slip && !told {
		return
	}
	d := m.text.Warnf(m.offset+1, "tool-mention", "agent %s has no tool %s", p.name, m.name)
	if slip {
		c.report(d.WithHint("did you mean %q?", near))
		return
	}
	c.report(d.WithHint("add it to the tools of the agent"))
}

// toolsOf are the names of an agent's tools, and whether they are all.
func (c *treeCheck) toolsOf(p *placed) (names []string, complete bool) {
	for _, t := range p.tools {
		own := t.names(c.ctx)
		if len(own) == 0 {
			return nil, false
		}
		names = append(names, own...)
	}
	return names, true
}
