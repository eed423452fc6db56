package runtime

import (
	"slices"

	"google.golang.org/genai"
)

// standing is what an agent's requests have in common in every run, as far as it
// is always the same.
type standing struct {
	// system is the system instruction; nil where something has to be filled in.
	system *genai.Content
	// config is all of a request's settings, which requests then share: nil where
	// runs, callbacks or tools may want others.
	config *genai.GenerateContentConfig
}

func (a *App) standing(n *node, l *LLMAgent) *standing {
	s := &standing{system: a.standingSystem(n, l)}
	shown := n.hooks != nil && len(n.hooks.beforeModel)+len(n.hooks.onModelError) > 0 || len(n.tools.editors) > 0
	if s.system == nil || shown || len(n.sets) > 0 || l.opts.Planner != nil {
		return s
	}
	c := &genai.GenerateContentConfig{}
	n.settle(c, l)
	if c.SystemInstruction == nil {
		c.SystemInstruction, c.Tools = s.system, slices.Clip(n.tools.offered)
		s.config = c
	}
	return s
}

// standingSystem is the system instruction of an agent for which there is nothing
// to fill in; nil for any other.
func (a *App) standingSystem(n *node, l *LLMAgent) *genai.Content {
	var global *Instruction
	if root, ok := a.Root.(*LLMAgent); ok {
		global = root.opts.GlobalInstruction
	}
	first, fixed := global.fixed()
	own, alsoFixed := l.opts.Instruction.fixed()
	if !fixed || !alsoFixed || l.opts.InstructionProvider != nil || l.opts.StaticInstruction != nil {
		return nil
	}
	told := prompt(nil).say(first).say(own).about(n, l)
	return &genai.Content{Parts: []*genai.Part{{Text: told.String()}}}
}

// settle gives a request the settings of its agent.
func (n *node) settle(c *genai.GenerateContentConfig, l *LLMAgent) {
	if l.opts.GenerateContentConfig != nil {
		*c = *l.opts.GenerateContentConfig
	}
	n.askInShape(c)
}
