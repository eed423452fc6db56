package main

import (
	"context"
	"errors"

	"github.com/spf13/pflag"
	"google.golang.org/genai"

	"agenthost/internal/command"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/wing/acpserver"
	connections "agenthost/wing/connection"
	"agenthost/wing/connection/authorize"
)

// An editorAuthorizer lets the person at an editor authorize connections.
type editorAuthorizer struct {
	flags authorize.TerminalFlags
	*authorize.Authorizer
}

func (a *editorAuthorizer) RegisterFlags(flags *pflag.FlagSet) { a.flags.RegisterLoopback(flags) }

func (a *editorAuthorizer) Open(env *command.Env, load *command.LoadFlags, sessionDB string) (err error) {
	if a.Authorizer, err = a.flags.NewAuthorizer(*env, &load.Reserved, sessionDB); err != nil {
		return err
	}
	env.Kinds.Connections = connections.NewKind(a.Grants)
	load.SetConnections(env.Kinds.Connections, a.Grants)
	return nil
}

func (a *editorAuthorizer) UseStore(st *store.Store) { a.Authorizer.UseStore(st) }

func (a *editorAuthorizer) Authorize(ctx context.Context, call *genai.FunctionCall, key session.Key, show acpserver.ShowAddress) (map[string]any, error) {
	c := authorize.NewCall(call)
	if c == nil {
		return nil, errors.New("the call waits for no connection")
	}
	response, err := a.AuthorizeShown(ctx, c, key, authorize.Show(show))
	if err != nil {
		return nil, c.WrapError(err)
	}
	return response, nil
}
