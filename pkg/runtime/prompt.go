package runtime

import (
	"context"
	"strings"
)

// A prompt is a system instruction in the making: pieces, in paragraphs. They
// are joined once, at the end, since texts may be long.
type prompt []string

// about tells the agent who it is and what it may do.
func (p prompt) about(n *node, l *LLMAgent) prompt {
	return p.say(l.identity).say(l.opts.Planner.instruction()).say(n.transferText())
}

// say adds a paragraph; an empty text is none.
func (p prompt) say(text string) prompt {
	if text == "" {
		return p
	}
	return append(p.gap(), text)
}

// fill adds an instruction with its placeholders filled.
func (p prompt) fill(ctx context.Context, inv *Invocation, i *Instruction) (prompt, error) {
	begun := p.gap()
	all, err := i.appendPieces(ctx, begun, inv)
	if err != nil {
		return nil, err
	}
	for _, piece := range all[len(begun):] {
		if piece != "" {
			return all, nil
		}
	}
	return p, nil
}

// own adds the agent's own instruction.
func (p prompt) own(ctx context.Context, inv *Invocation, a *LLMAgent) (prompt, error) {
	if a.opts.InstructionProvider == nil {
		return p.fill(ctx, inv, a.opts.Instruction)
	}
	text, err := a.opts.InstructionProvider.text(ctx, inv)
	return p.say(text), err
}

// gap parts what comes from what is there.
func (p prompt) gap() prompt {
	if len(p) == 0 {
		return p
	}
	return append(p, "\n\n")
}

// String joins the pieces.
func (p prompt) String() string { return strings.Join(p, "") }
