package tool

import (
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/spec"
)

// A CallConfig is the YAML of the call settings of built-in tools and agent
// tools.
type CallConfig struct {
	OnError string        `yaml:"on_error" enum:"return|fail" default:"return" doc:"Whether an error is returned to the model or ends the invocation."`
	Timeout spec.Duration `yaml:"timeout" doc:"Maximum duration of a call."`
	Confirm spec.Expr     `yaml:"confirm" doc:"Whether a call requires confirmation by a person (human-in-the-loop): true, or an expression over args, state, user, session, invocation and agent."`
}

// Capabilities returns the settings for a tool with this declaration. The error
// is a [spec.Diagnostics].
func (c *CallConfig) Capabilities(decl *genai.FunctionDeclaration) (Capabilities, error) {
	confirm, err := CompileConfirm(c.Confirm, decl)
	return Capabilities{Timeout: time.Duration(c.Timeout), FailOnError: c.OnError == "fail", Confirm: confirm}, err
}
