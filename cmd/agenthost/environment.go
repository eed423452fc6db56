package main

import (
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agenthost/internal/command"
	"agenthost/pkg/spec"
)

// flagVariables returns the environment variables for all verbs' flags.
func flagVariables(root *cobra.Command) []string {
	var names []string
	add := func(f *pflag.Flag) { names = append(names, command.FlagVariable(f.Name)) }
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(add)
		for _, verb := range cmd.Commands() {
			visit(verb)
		}
	}
	visit(root)
	slices.Sort(names)
	return slices.Compact(names)
}

// warnUnknownVariables warns about AGENTHOST_ variables that set nothing, because a
// misspelt variable would be ignored silently. It accepts the variables in used, which
// the host's own documents read.
func warnUnknownVariables(logger *slog.Logger, known, used []string) {
	short := make([]string, len(known)) // the shared prefix would make all names similar
	for i, name := range known {
		short[i] = strings.TrimPrefix(name, command.VariablePrefix)
	}
	variables := os.Environ()
	slices.Sort(variables)
	for _, variable := range variables {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, command.VariablePrefix) || slices.Contains(known, name) || slices.Contains(used, name) || isForeignVariable(name, value) {
			continue
		}
		if near := spec.Suggest(strings.TrimPrefix(name, command.VariablePrefix), short); near != "" {
			logger.Warn("ignoring unknown environment variable", "variable", name, "did_you_mean", command.VariablePrefix+near)
			continue
		}
		logger.Warn("ignoring unknown environment variable", "variable", name)
	}
}

// isForeignVariable reports whether a variable belongs to agenthost's own tests, or is
// one that Kubernetes and Docker set for a service named agenthost.
func isForeignVariable(name, value string) bool {
	rest := strings.TrimPrefix(name, command.VariablePrefix)
	return rest == "CORPUS" || strings.HasPrefix(rest, "TEST_") || strings.HasPrefix(rest, "SERVICE_") ||
		strings.HasPrefix(rest, "PORT_") || rest == "PORT" && strings.Contains(value, "://")
}
