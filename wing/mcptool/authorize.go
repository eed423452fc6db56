package mcptool

import (
	"context"

	"google.golang.org/genai"

	connections "agenthost/pkg/connection"
	"agenthost/pkg/tool"
)

// An authorizeTool asks the user to authorize a server's connection; its tools are unknown before.
// A set has it for all users, so that the call finds it again after the answer.
type authorizeTool struct {
	set  *serverSet
	decl *genai.FunctionDeclaration
}

func (s *serverSet) newAuthorizeTool() authorizeTool {
	return authorizeTool{s, &genai.FunctionDeclaration{
		Name: s.server.prefixedName("authorize_" + s.env.Connection.Name()),
		Description: "Asks the user to authorize the access to " + s.env.Connection.Name() + ", whose other tools are available afterwards. " +
			"Call it only if you need them and they are missing.",
	}}
}

// Declaration implements [tool.Tool].
func (t authorizeTool) Declaration() *genai.FunctionDeclaration { return t.decl }

// Run implements [tool.Tool]: the error asks the user.
func (t authorizeTool) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	user := connections.User{App: call.Origin.App, UserID: call.Origin.UserID}
	if err := t.set.env.Connection.Prepare(ctx, user); err != nil {
		return nil, err
	}
	return tool.NewResult("The access is authorized."), nil
}
