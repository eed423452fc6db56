package runtime

import (
	"context"
	"strings"
)

// A prompt is a system instruction under construction: strings that form
// paragraphs.
type prompt []string

// appendIdentity appends the agent's identity and transfer targets.
func (p prompt) appendIdentity(n *node, l *LLMAgent) prompt {
	return p.appendParagraph(l.identity).appendParagraph(l.opts.Planner.planningInstruction()).appendParagraph(n.transferText())
}

// appendParagraph appends a paragraph; empty text is ignored.
func (p prompt) appendParagraph(text string) prompt {
	if text == "" {
		return p
	}
	return append(p.appendSeparator(), text)
}

// appendInstruction appends an instruction with its placeholders replaced.
func (p prompt) appendInstruction(ctx context.Context, inv *Invocation, i *Instruction) (prompt, error) {
	start := p.appendSeparator()
	all, err := i.appendChunks(ctx, start, inv)
	if err != nil {
		return nil, err
	}
	for _, chunk := range all[len(start):] {
		if chunk != "" {
			return all, nil
		}
	}
	return p, nil
}

// appendOwnInstruction appends the agent's own instruction.
func (p prompt) appendOwnInstruction(ctx context.Context, inv *Invocation, a *LLMAgent) (prompt, error) {
	if a.opts.InstructionProvider == nil {
		return p.appendInstruction(ctx, inv, a.opts.Instruction)
	}
	text, err := a.opts.InstructionProvider.computeText(ctx, inv)
	return p.appendParagraph(text), err
}

// appendSeparator appends a separator if the prompt is not empty.
func (p prompt) appendSeparator() prompt {
	if len(p) == 0 {
		return p
	}
	return append(p, "\n\n")
}

// joinText joins the strings.
func (p prompt) joinText() string { return strings.Join(p, "") }
