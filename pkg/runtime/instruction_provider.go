package runtime

import (
	"context"
	"errors"
	"fmt"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// An InstructionProvider computes a whole instruction: ADK's function of that
// name as an expression. Placeholders are replaced only where the expression
// calls inject.
type InstructionProvider struct {
	fn    InstructionFunc
	expr  *template.Expr
	files map[string]string
	at    spec.Expr
}

// An InstructionFunc computes an instruction in Go. It reads the invocation and
// may call its Inject. It is called concurrently. A [*RunError] is reported
// unchanged.
type InstructionFunc func(ctx context.Context, inv *Invocation) (string, error)

// NewInstructionProvider returns a provider that calls a function.
func NewInstructionProvider(fn InstructionFunc) *InstructionProvider {
	return &InstructionProvider{fn: fn}
}

// Inject replaces the placeholders of text like those of an instruction.
func (inv *Invocation) Inject(ctx context.Context, text string) (string, error) {
	return NewInstruction(text, nil).renderText(ctx, inv)
}

// Lookup returns the value of a key of the session's state, or its default in
// the app's state schema.
func (inv *Invocation) Lookup(key string) (any, bool) { return inv.run.lookupState(key) }

// providerEnv declares the names available to a provider.
func providerEnv() template.Env {
	env := conditionEnv()
	env["inject"] = func(string) (string, error) { return "", nil }
	env["file"] = func(string) (string, error) { return "", nil }
	return env
}

// ReadFiles reads the files that the instruction provider names, so that the
// app keeps the versions that it was loaded with.
func (c *llmConfig) ReadFiles(read func(path string) (string, error)) spec.Diagnostics {
	var ds spec.Diagnostics
	c.files = map[string]string{}
	for _, call := range template.Calls(c.InstructionProvider.Value, "file") {
		if !call.Literal {
			ds = append(ds, c.InstructionProvider.Errorf(call.Offset, "file", `file requires a literal string, such as file("prompts/pt.md"): files are read when the app is loaded`))
			continue
		}
		text, err := read(call.Text)
		if err != nil {
			ds = append(ds, c.InstructionProvider.Errorf(call.Offset, "file", "%s", err))
		}
		c.files[call.Text] = text
	}
	return ds
}

// checkInstruction requires either instruction or instruction_provider.
func (c *llmConfig) checkInstruction(n *spec.Node) spec.Diagnostics {
	at := n.Get("instruction_provider")
	switch {
	case at.IsNull() && n.Get("instruction").IsNull():
		return spec.Diagnostics{n.Errorf("required", "missing field %q", "instruction")}
	case at.IsNull():
		return nil
	case !n.Get("instruction").IsNull():
		return spec.Diagnostics{at.Errorf("instruction", "instruction and instruction_provider are mutually exclusive")}
	}
	_, ds := compileIn(c.InstructionProvider, providerEnv(), template.Compile)
	return ds
}

// describeProviderUse returns the state keys that the expression reads,
// including placeholders in the text that it injects.
func (c *llmConfig) describeProviderUse() tool.StateUse {
	var u tool.StateUse
	p := c.InstructionProvider
	if p.Value == "" {
		return u
	}
	u.Exprs = []tool.StateExpr{{Expr: p, Env: providerEnv()}}
	for _, call := range template.Calls(p.Value, "inject") {
		u.ReadsAny = u.ReadsAny || !call.Literal
		refs := stateKeyRefs(template.Parse(call.Text))
		for i := range refs {
			refs[i].Offset = call.Offset
		}
		u.Texts = append(u.Texts, tool.StateText{Text: p.Text, Refs: refs})
	}
	return u
}

// buildProvider returns nil when the agent has no instruction_provider.
func (c *llmConfig) buildProvider() (*InstructionProvider, error) {
	if c.InstructionProvider.Value == "" {
		return nil, nil
	}
	compiled, ds := compileIn(c.InstructionProvider, providerEnv(), template.Compile)
	if err := ds.Err(); err != nil {
		return nil, err
	}
	return &InstructionProvider{expr: compiled, files: c.files, at: c.InstructionProvider}, nil
}

// computeText computes the instruction; it is empty for nil.
func (p *InstructionProvider) computeText(ctx context.Context, inv *Invocation) (string, error) {
	if p.fn != nil {
		own := []ownedCallback[InstructionFunc]{{"agent " + inv.node.agent.Name(), p.fn}}
		text, err := firstAnswer(ctx, inv, "instruction_provider", own, func(f InstructionFunc) (*string, error) {
			text, err := f(ctx, inv)
			return &text, err
		})
		if err != nil {
			runErr, _ := asHookError(err)
			return "", runErr
		}
		return *text, nil
	}
	vars := inv.conditionVars()
	vars["inject"] = func(text string) (string, error) {
		return NewInstruction(text, func(int) spec.Pos { return p.at.At(0) }).renderText(ctx, inv)
	}
	vars["file"] = func(path string) (string, error) {
		text, ok := p.files[path]
		if !ok {
			return "", fmt.Errorf("file %s was not read when the app was loaded", path)
		}
		return text, nil
	}
	v, err := p.expr.Eval(ctx, vars)
	var runErr *RunError
	if errors.As(err, &runErr) {
		return "", runErr
	}
	if err != nil {
		return "", failf(CodeInvalidRequest, err, "instruction_provider of agent %s: %s", inv.node.agent.Name(), err)
	}
	text, ok := v.(string)
	if !ok && v != nil {
		return "", failf(CodeInvalidRequest, nil, "instruction_provider of agent %s must return a string, got %s", inv.node.agent.Name(), template.String(v))
	}
	return text, nil
}
