package policy

import (
	"slices"
	"strings"
)

// A Program is a program that an app requests to run.
type Program struct {
	// Args are the program and its arguments.
	Args []string
	// Env are the sorted names of the variables that the app sets for it.
	Env []string
}

// CheckProgram checks whether an app may run a program: one grant must contain it
// with exactly these arguments and all of its variables. It returns nil or a
// [*Refused]. Without a policy file, no program is allowed.
func (p *Policy) CheckProgram(app string, program Program) error {
	if p.hasMatchingGrant(app, func(g *grant) bool { return g.allowsProgram(program) }) {
		return nil
	}
	line := "commands: [" + quoteYAMLList(program.Args...) + "]"
	if len(program.Env) > 0 {
		line += ", env: " + quoteYAMLList(program.Env...)
	}
	return p.newRefused(app, "run "+strings.Join(program.Args, " "), "", line)
}

func (g *grant) allowsProgram(program Program) bool {
	hasArgs := func(args []string) bool { return slices.Equal(args, program.Args) }
	notGranted := func(name string) bool { return !slices.Contains(g.env, name) }
	return slices.ContainsFunc(g.commands, hasArgs) && !slices.ContainsFunc(program.Env, notGranted)
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
