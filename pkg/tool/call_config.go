package tool

import (
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/spec"
)

// A CallConfig is the YAML of how calls of a tool are made that has no settings
// of its own for that: of built-in tools and of agents.
type CallConfig struct {
	OnError string        `yaml:"on_error" enum:"return|fail" default:"return" doc:"Whether a failure is told to the model or ends the invocation."`
	Timeout spec.Duration `yaml:"timeout" doc:"How long a call may take."`
	Confirm spec.Expr     `yaml:"confirm" doc:"Whether a person has to approve a call before it is carried out: true, or an expression that sees args, state, user, session, invocation and agent."`
}

// Capabilities are those that the config asks for, of a tool with this declaration.
// The error is a [spec.Diagnostics].
func (c *CallConfig) Capabilities(decl *genai.FunctionDeclaration) (Capabilities, error) {
	confirm, err := CompileConfirm(c.Confirm, decl)
	return Capabilities{Timeout: time.Duration(c.Timeout), FailOnError: c.OnError == "fail", Confirm: confirm}, err
}
