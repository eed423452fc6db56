package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// NewInstruction compiles text. at is nil for text that is not in a file.
func NewInstruction(text string, at func(offset int) spec.Pos) *Instruction {
	if text == "" {
		return nil
	}
	return &Instruction{written: text, text: template.Parse(text), at: at}
}

// Refs returns the placeholders in the text.
func (i *Instruction) Refs() []template.Ref {
	if i == nil {
		return nil
	}
	return i.text.Refs()
}

// fixedText returns the text, and whether it has no placeholders.
func (i *Instruction) fixedText() (string, bool) {
	if i == nil {
		return "", true
	}
	return i.text.Static()
}

// Render returns the text with its placeholders replaced. The error for a missing value is a
// [*RunError] with the placeholder's position.
func (i *Instruction) Render(ctx context.Context, inv *Invocation) (string, error) {
	chunks, err := i.appendChunks(ctx, nil, inv)
	return strings.Join(chunks, ""), err
}

// appendChunks appends the chunks of the rendered text, for joining.
func (i *Instruction) appendChunks(ctx context.Context, chunks []string, inv *Invocation) ([]string, error) {
	if i == nil {
		return chunks, nil
	}
	chunks, err := i.text.AppendSegments(ctx, chunks, scope{inv})
	if err != nil {
		return nil, i.explainError(err, inv)
	}
	return chunks, nil
}

// explainError returns the rendering error, with the position of a missing value.
func (i *Instruction) explainError(err error, inv *Invocation) error {
	var missing *template.MissingError
	if errors.As(err, &missing) {
		location := ""
		if i.at != nil {
			at := i.at(missing.Ref.Offset)
			location = ", " + at.Short().String()
			err = fmt.Errorf("%s: %w", at, err) // the log has the whole path
		}
		name := missing.Ref.Name
		if missing.Ref.Artifact {
			name = "artifact." + name
		}
		return failf(CodeMissingValue, err, "%s (agent %s%s; write {%s?} if it may be missing)",
			missing.Error(), inv.node.agent.Name(), location, name)
	}
	return err
}

// scope resolves the placeholders in an agent's texts.
type scope struct{ inv *Invocation }

func (s scope) Lookup(key string) (any, bool) { return s.inv.run.ReadState(key) }

func (s scope) Artifact(ctx context.Context, name string) (string, bool, error) {
	part, err := s.inv.run.host.store.Artifacts.Load(ctx, s.inv.run.sess.Key, name, -1)
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrInvalid) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("loading artifact %s: %w", name, err)
	}
	if part.InlineData != nil && part.Text == "" {
		return string(part.InlineData.Data), true, nil
	}
	return part.Text, true, nil
}

// buildInstructions sets a request's system instruction, in ADK's order (runtime-semantics 4.3):
// the root's global instruction, the static one or else the agent's own, then identity and transfer
// targets. It returns contents that belong to a static instruction.
func (inv *Invocation) buildInstructions(ctx context.Context, a *LLMAgent, req *model.Request) (userContents []*genai.Content, err error) {
	if fixed := inv.node.fixedRequest().system; fixed != nil && req.Config.SystemInstruction == nil {
		req.Config.SystemInstruction = fixed
		return nil, nil
	}
	var buf [16]string
	system := prompt(buf[:0])
	if root, ok := inv.run.app.root.(*LLMAgent); ok {
		if system, err = system.appendInstruction(ctx, inv, root.opts.GlobalInstruction); err != nil {
			return nil, err
		}
	}
	if a.opts.StaticInstruction == nil {
		system, err = system.appendOwnInstruction(ctx, inv, a)
	} else {
		var text string
		text, userContents = splitStaticInstruction(a.opts.StaticInstruction)
		system = system.appendParagraph(text)
		var own prompt // the model gets the agent's own instruction as user content
		if own, err = own.appendOwnInstruction(ctx, inv, a); len(own) > 0 {
			userContents = append(userContents, model.UserText(own.joinText()))
		}
	}
	if err != nil {
		return nil, err
	}
	req.AppendInstruction(system.appendIdentity(inv.node, a).joinText())
	return userContents, nil
}

// splitStaticInstruction splits a static instruction into its text, with
// references to its files, and user contents with the files.
func splitStaticInstruction(c *genai.Content) (string, []*genai.Content) {
	var texts []string
	var files []*genai.Content
	for _, p := range c.Parts {
		switch {
		case p.Text != "":
			texts = append(texts, p.Text)
		case p.InlineData != nil:
			id := fmt.Sprintf("inline_data_%d", len(files))
			texts = append(texts, fmt.Sprintf("[Reference to inline binary data: %s (%s)]", id, describeFile(p.InlineData.DisplayName, p.InlineData.MIMEType)))
			files = append(files, fileReference("inline data", id, p))
		case p.FileData != nil:
			id := fmt.Sprintf("file_data_%d", len(files))
			texts = append(texts, fmt.Sprintf("[Reference to file data: %s (%s)]", id, describeFile(p.FileData.DisplayName, p.FileData.MIMEType)))
			files = append(files, fileReference("file data", id, p))
		}
	}
	return strings.Join(texts, "\n\n"), files
}

func describeFile(name, mime string) string {
	if name == "" {
		return "type: " + mime
	}
	return fmt.Sprintf("'%s', type: %s", name, mime)
}

func fileReference(kind, id string, p *genai.Part) *genai.Content {
	return &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{{Text: fmt.Sprintf("Referenced %s: %s", kind, id)}, p}}
}

// Inject replaces the placeholders in text like those in an instruction.
func (inv *Invocation) Inject(ctx context.Context, text string) (string, error) {
	return NewInstruction(text, nil).Render(ctx, inv)
}

// Lookup returns the value for a key in the session state, or its default in the app's state
// schema.
func (inv *Invocation) Lookup(key string) (any, bool) { return inv.run.ReadState(key) }

// A prompt is a system instruction under construction: strings that form
// paragraphs.
type prompt []string

// appendIdentity appends the agent's identity and transfer targets.
func (p prompt) appendIdentity(n *node, l *LLMAgent) prompt {
	return p.appendParagraph(n.identityNote(l)).appendParagraph(l.opts.Planner.planningInstruction()).appendParagraph(n.transferText())
}

// identityNote returns the paragraph about the agent itself.
func (n *node) identityNote(l *LLMAgent) string {
	if n.isSingleTurn() {
		return singleTurnText
	}
	return l.identity
}

// hostNotes returns what appendIdentity appends.
func (inv *Invocation) hostNotes(a *LLMAgent) []string {
	all := []string{inv.node.identityNote(a), a.opts.Planner.planningInstruction(), inv.node.transferText()}
	return slices.DeleteFunc(all, func(note string) bool { return note == "" })
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
	own := []ownedCallback[InstructionFunc]{{"agent " + inv.node.agent.Name(), a.opts.InstructionProvider}}
	text, err := firstAnswer(ctx, inv, "instruction_provider", own, func(f InstructionFunc) (*string, error) {
		text, err := f(ctx, inv)
		return &text, err
	})
	if err != nil {
		runErr, _ := asHookError(err)
		return p, runErr
	}
	return p.appendParagraph(*text), nil
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
