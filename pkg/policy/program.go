package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

// A Program is what an app asks the host to run.
type Program struct {
	// Args are the program and its arguments.
	Args []string
	// Env are the names of the variables that the app sets for it, sorted.
	Env []string
}

// A RefusedProgram is one that no grant lets an app run.
type RefusedProgram struct {
	App     string
	Program Program
}

// Error says what is refused, and the line that would grant it.
func (e *RefusedProgram) Error() string {
	return fmt.Sprintf("the host does not let app %s run %s; a grant in policy.yaml does: %s", e.App, strings.Join(e.Program.Args, " "), e.Line())
}

// Line is the line of policy.yaml that would grant it, under grants.
func (e *RefusedProgram) Line() string {
	env := ""
	if len(e.Program.Env) > 0 {
		env = ", env: " + list(e.Program.Env)
	}
	return fmt.Sprintf("- {apps: [%s], commands: [%s]%s}", e.App, list(e.Program.Args), env)
}

// list is a list of texts as YAML, in which nothing is taken for anything else.
func list(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(text) // a text can always be written
		quoted[i] = strings.TrimSuffix(b.String(), "\n")
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// CheckProgram looks at a program that an app asks for: whether one grant has it
// with exactly these arguments, and all of its variables. It is nil, or a
// [*RefusedProgram]. A nil Policy grants no program.
func (p *Policy) CheckProgram(app string, asked Program) error {
	if p != nil && slices.ContainsFunc(p.grants, func(g grant) bool { return g.isFor(app) && g.runs(asked) }) {
		return nil
	}
	return &RefusedProgram{app, asked}
}

func (g *grant) runs(asked Program) bool {
	isAsked := func(args []string) bool { return slices.Equal(args, asked.Args) }
	unnamed := func(name string) bool { return !slices.Contains(g.env, name) }
	return slices.ContainsFunc(g.commands, isAsked) && !slices.ContainsFunc(asked.Env, unnamed)
}

// check reports a grant that grants nothing.
func (g *grantConfig) check(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if n.Kind != spec.Mapping {
		return nil // told already
	}
	if n.Get("network") == nil && n.Get("commands") == nil {
		ds = append(ds, n.Errorf("required", "a grant has network or commands"))
	}
	if commands := n.Get("commands"); commands != nil {
		for _, c := range commands.Items {
			if c.Kind == spec.Sequence && len(c.Items) == 0 {
				ds = append(ds, c.Errorf("grant", "a command is the program and its arguments: [npx, -y, server]"))
			}
		}
	}
	if env := n.Get("env"); env != nil && n.Get("commands") == nil {
		ds = append(ds, env.Errorf("grant", "env is for commands, and this grant has none"))
	}
	return ds
}

func (g *grantConfig) commands() [][]string {
	var all [][]string
	for _, c := range g.Commands {
		args := make([]string, len(c))
		for i, arg := range c {
			args[i] = arg.Value
		}
		all = append(all, args)
	}
	return all
}
