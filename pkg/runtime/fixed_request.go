package runtime

import (
	"slices"

	"google.golang.org/genai"
)

// fixedRequest is the part of an agent's requests that is the same in every
// run.
type fixedRequest struct {
	// system is the system instruction; nil if it has placeholders.
	system *genai.Content
	// config is the config that requests share; nil if runs, callbacks or
	// tools may change it.
	config *genai.GenerateContentConfig
}

func (a *App) buildFixedRequest(n *node, l *LLMAgent) *fixedRequest {
	s := &fixedRequest{system: a.fixedSystemInstruction(n, l)}
	editable := n.hooks != nil && len(n.hooks.beforeModel)+len(n.hooks.onModelError) > 0 || len(n.tools.editors) > 0
	if s.system == nil || editable || len(n.toolsets) > 0 || l.opts.Planner != nil {
		return s
	}
	c := &genai.GenerateContentConfig{}
	n.applySettings(c, l)
	if c.SystemInstruction == nil {
		c.SystemInstruction, c.Tools = s.system, slices.Clip(n.tools.declared)
		s.config = c
	}
	return s
}

// fixedSystemInstruction returns the system instruction of an agent without
// placeholders, or nil.
func (a *App) fixedSystemInstruction(n *node, l *LLMAgent) *genai.Content {
	var global *Instruction
	if root, ok := a.Root.(*LLMAgent); ok {
		global = root.opts.GlobalInstruction
	}
	first, fixed := global.fixedText()
	own, alsoFixed := l.opts.Instruction.fixedText()
	if !fixed || !alsoFixed || l.opts.InstructionProvider != nil || l.opts.StaticInstruction != nil {
		return nil
	}
	text := prompt(nil).appendParagraph(first).appendParagraph(own).appendIdentity(n, l)
	return &genai.Content{Parts: []*genai.Part{{Text: text.joinText()}}}
}

// applySettings sets the agent's settings in a request.
func (n *node) applySettings(c *genai.GenerateContentConfig, l *LLMAgent) {
	if l.opts.GenerateContentConfig != nil {
		*c = *l.opts.GenerateContentConfig
	}
	n.addResponseSchema(c)
}
