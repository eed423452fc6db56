package policy

import (
	"slices"
	"strings"

	"agenthost/pkg/tool"
)

// A Program is a program that an app requests to run.
type Program struct {
	// Args are the program and its arguments.
	Args []string
	// Kinds are the argument kinds, before a call fixes them; nil means that all are fixed.
	Kinds []tool.ArgKind
	// Env are the sorted variable names that the app sets for it.
	Env []string
	// Unconfined reports that a sandbox cannot apply to the program.
	Unconfined bool
}

// Arguments of grants with a meaning: any one argument that is not an option, and any
// further arguments.
const (
	anyArg      = "*"
	furtherArgs = "..."
	// anyProgram is what a message names instead of a program, which cannot be a pattern.
	anyProgram = "PROGRAM"
	// endOfOptions ends a command line's options: no later argument is one.
	endOfOptions = "--"
)

// CheckProgram checks whether an app may run a program; see [Policy.GrantProgram].
func (p *Policy) CheckProgram(app string, program Program) error {
	_, err := p.GrantProgram(app, program)
	return err
}

// GrantProgram returns a program's sandbox, nil for the host's permissions. The first grant that
// allows the program with its arguments and all its variables decides. A grant's argument is that
// argument; * is any one that does not begin with -, or any one after --; ... at the end is any
// further arguments. The error is a [*Refused]. Without a policy file, no program is allowed.
func (p *Policy) GrantProgram(app string, program Program) (*Sandbox, error) {
	var sandboxed bool
	for i := 0; p != nil && i < len(p.grants); i++ {
		g := &p.grants[i]
		if !g.appliesToApp(app) || !g.allowsProgram(program) {
			continue
		}
		if g.sandbox != nil && program.Unconfined {
			sandboxed = true
			continue
		}
		return g.sandbox, nil
	}
	reason := ""
	if sandboxed {
		reason = "MCP server programs cannot run in the grant's sandbox"
	}
	line := "commands: [" + quoteYAMLList(program.grantArgs()...) + "]"
	if len(program.Env) > 0 {
		line += ", env: " + quoteYAMLList(program.Env...)
	}
	if slices.Contains(program.Kinds, tool.FurtherArgs) { // options make many programs run others
		line += ", sandbox: {}"
	}
	return nil, p.newRefused(app, "run "+strings.Join(program.grantArgs(), " "), reason, line)
}

// grantArgs returns the arguments in the narrowest grant that allows the program.
func (p *Program) grantArgs() []string {
	args := slices.Clone(p.Args)
	for i, kind := range p.Kinds {
		switch kind {
		case tool.VariableArg, tool.OptionalArg:
			args[i] = anyArg
			if i == 0 {
				args[i] = anyProgram
			}
		case tool.FurtherArgs:
			args[i] = furtherArgs
		case tool.FixedArg:
		}
	}
	return args
}

func (p *Program) kindOf(i int) tool.ArgKind {
	if i < len(p.Kinds) {
		return p.Kinds[i]
	}
	return tool.FixedArg
}

func (g *grant) allowsProgram(program Program) bool {
	notGranted := func(name string) bool { return !slices.Contains(g.env, name) }
	if slices.ContainsFunc(program.Env, notGranted) {
		return false
	}
	return slices.ContainsFunc(g.commands, func(granted []string) bool { return allowsArgs(granted, &program, 0, false) })
}

// allowsArgs reports whether a grant allows the arguments from index i. For an argument
// that a call has, it reports whether some value is allowed. literal reports that an
// earlier argument was --.
func allowsArgs(granted []string, p *Program, i int, literal bool) bool {
	switch {
	case len(granted) == 1 && granted[0] == furtherArgs:
		return true
	case i == len(p.Args):
		return len(granted) == 0
	case p.kindOf(i) == tool.OptionalArg && allowsArgs(granted, p, i+1, literal):
		return true
	case p.kindOf(i) == tool.FurtherArgs:
		return true // there may be as many as are granted, or none
	case len(granted) == 0:
		return false
	}
	if p.kindOf(i) == tool.FixedArg && !allowsArg(granted[0], p.Args[i], literal) {
		return false
	}
	return allowsArgs(granted[1:], p, i+1, literal || granted[0] == endOfOptions)
}

func allowsArg(granted, arg string, literal bool) bool {
	return granted == arg || granted == anyArg && (literal || !strings.HasPrefix(arg, "-"))
}
