package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agenthost/pkg/spec"
)

// A foreignFlag is a flag of other programs that people try.
type foreignFlag struct {
	names []string
	// flag is this program's flag for it: the hint is for commands that have it. Empty means each
	// command.
	flag string
	// hint is the way out.
	hint string
}

// foreignFlags lists the flags of adk, uvicorn, docker and others by what replaces them here.
func foreignFlags() []foreignFlag {
	return []foreignFlag{
		{[]string{"port", "host", "p", "H", "bind", "listen", "address"}, "addr", "write --addr 127.0.0.1:8000"},
		{[]string{"reload", "no-reload", "reload-agents", "watch", "w", "hot", "dev-mode"}, "poll", "serve always reloads saved files"},
		{[]string{"reload", "watch", "w"}, "live", "a conversation always reloads saved files"},
		{[]string{"debug", "verbose", "v", "d", "log"}, "log-level", "write --log-level debug"},
		{[]string{"quiet", "q", "silent"}, "log-level", "write --log-level error"},
		{[]string{"log-json", "json"}, "log-format", "write --log-format json"},
		{[]string{"session-id", "resume-session", "continue", "c", "s"}, "session", "write --session ID"},
		{[]string{"user-id", "u"}, "user", "write --user ID"},
		{[]string{"db", "db-url", "database", "database-url", "session-service-uri", "session-db-url"}, "session-db", "write --session-db URL"},
		{[]string{"artifact-service-uri", "artifact-storage-uri"}, "artifacts", "write --artifacts URL"},
		{[]string{"memory-service-uri"}, "memory", "write --memory URL"},
		{[]string{"allow-origins", "cors", "cors-origins"}, "allowed-hosts", "browsers of other origins need a proxy that adds CORS headers"},
		{[]string{"trace-to-cloud", "otel-to-cloud", "tracing"}, "otlp", "write --otlp URL"},
		{[]string{"with-ui", "ui"}, "ui-dir", "serve always has a page for developers; --ui-dir adds ADK's"},
		{[]string{"token", "api-key"}, "auth", "write --auth FILE, with the tokens in it"},
		{[]string{"tls", "cert", "ssl-certfile", "https"}, "addr", "TLS needs a proxy in front of agenthost"},
		{[]string{"workers"}, "addr", "one process uses all processors; start replicas for more"},
		{[]string{"message", "m", "prompt", "input", "text", "query"}, "record", "write the message as an argument: agenthost run DIR \"TEXT\""},
		{[]string{"model", "m", "provider"}, "policy", "set model: in the app's root_agent.yaml"},
		{[]string{"temperature", "max-tokens", "system", "system-prompt"}, "policy", "set it in the agent's file, such as root_agent.yaml"},
		{[]string{"config-file-path"}, "runs", "name the eval set's file as an argument"},
		{[]string{"print-detailed-results"}, "verbose", "write --verbose"},
		{[]string{"version"}, "", "write agenthost version"},
	}
}

// FlagHint returns the way out for an unknown flag, or "": the command's flag with a similar name, or
// what replaces another program's flag.
func FlagHint(flags *pflag.FlagSet, name string) string {
	spelling := strings.ReplaceAll(name, "_", "-")
	if flags.Lookup(spelling) != nil {
		return "write --" + spelling
	}
	for _, foreign := range foreignFlags() {
		if slices.Contains(foreign.names, spelling) && (foreign.flag == "" || flags.Lookup(foreign.flag) != nil) {
			return foreign.hint
		}
	}
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := spec.Suggest(spelling, names); near != "" {
		return "did you mean --" + near + "?"
	}
	return ""
}

// ExplainFlags applies [ExplainFlag] to a command line's flags, and [FlagHint] to an unknown one.
func ExplainFlags(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		name := unknown.GetSpecifiedName()
		dashes := "--"
		if unknown.GetSpecifiedShortnames() != "" {
			dashes = "-"
		}
		return &FlagError{"unknown flag " + dashes + name, FlagHint(c.Flags(), name)}
	}
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	return ExplainFlag("--"+invalid.GetFlag().Name, err)
}

// foreignCommands has this program's command for those of other programs.
var foreignCommands = map[string]string{
	"web": "serve", "api_server": "serve", "api-server": "serve", "dev": "serve", "start": "serve", "up": "serve",
	"chat": "run", "exec": "run", "ask": "run", "init": "new", "create": "new", "lint": "check", "validate": "check", "verify": "check",
	"sessions": "session", "tests": "test", "evaluate": "eval", "evals": "eval", "models-list": "models", "ls": "list", "rm": "delete", "remove": "delete", "get": "show",
}

// newUnknownCommand returns the error for an unknown command, with the one that it may mean.
func newUnknownCommand(parent *cobra.Command, name string, names []string) error {
	unknown := fmt.Sprintf("unknown command %q for %q", name, parent.CommandPath())
	near := spec.Suggest(name, names)
	if other := foreignCommands[name]; slices.Contains(names, other) {
		near = other
	}
	if near != "" {
		return fmt.Errorf("%s: did you mean %q?", unknown, near)
	}
	return errors.New(unknown + ": available commands are " + JoinNames(names))
}
