package policy

import (
	"slices"
	"strings"
)

// A Program is a program that an app wants to run.
type Program struct {
	// Args are the program and its arguments.
	Args []string
	// Env are the sorted names of the variables that the app sets for it.
	Env []string
}

// CheckProgram checks whether an app may run a program: one grant must contain it
// with exactly these arguments and all of its variables. It returns nil or a
// [*Refused]. Without a policy file, no program is allowed.
func (p *Policy) CheckProgram(app string, asked Program) error {
	if p.grantsTo(app, func(g *grant) bool { return g.allowsProgram(asked) }) {
		return nil
	}
	line := "commands: [" + quoteList(asked.Args...) + "]"
	if len(asked.Env) > 0 {
		line += ", env: " + quoteList(asked.Env...)
	}
	return p.newRefused(app, "run "+strings.Join(asked.Args, " "), "", line)
}

func (g *grant) allowsProgram(asked Program) bool {
	isAsked := func(args []string) bool { return slices.Equal(args, asked.Args) }
	unnamed := func(name string) bool { return !slices.Contains(g.env, name) }
	return slices.ContainsFunc(g.commands, isAsked) && !slices.ContainsFunc(asked.Env, unnamed)
}

func (g *grantConfig) commandArgs() [][]string {
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
