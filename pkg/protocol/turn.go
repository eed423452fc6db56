package protocol

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// ResolveCaller returns the user that a request acts as in an app. Administrators, too, act as
// themselves. On a host without authentication it is local. The error is one of the server's.
func ResolveCaller(s *server.Services, r *http.Request, app, local string) (string, error) {
	caller, err := s.Authenticate(r)
	switch {
	case err != nil:
		return "", err
	case caller != nil && !caller.MayUse(r.Context(), app):
		return "", server.ErrPermissionDenied
	case caller != nil:
		return caller.UserID, nil
	}
	return local, nil
}

// FindAgent returns the agent with a name, depth first, without workflows' nodes; nil for none. A client
// may name each of these agents.
func FindAgent(a runtime.Agent, name string) runtime.Agent {
	if a.Name() == name {
		return a
	}
	if _, isWorkflow := a.(*runtime.Workflow); isWorkflow {
		return nil
	}
	for _, sub := range a.SubAgents() {
		if hit := FindAgent(sub, name); hit != nil {
			return hit
		}
	}
	return nil
}

// Run runs a turn for a client that reads its events, and ends it when ctx, which is that of
// [server.Services.StartRun], ends or read returns an error. The error is read's, or has the session
// for [server.Services.LogError].
func Run(ctx context.Context, s *server.Services, req *runtime.RunRequest, read func(*session.Event) error) error {
	hasLeft := false
	req.ClientLeft = func() bool {
		return hasLeft || errors.Is(context.Cause(ctx), context.Canceled) && s.Stopping().Err() == nil
	}
	for ev, err := range s.Host().Run(ctx, req) {
		if err != nil {
			s.RefundMissing(req.App, err)
			return server.WrapRunError(session.Key{App: req.App, User: req.UserID, ID: req.SessionID}, err)
		}
		if err := read(ev); err != nil {
			hasLeft = true
			return err
		}
	}
	return nil
}

// ReadFailure returns the error that an event reports; nil if it reports none. A client that repeats
// the request starts another turn.
func ReadFailure(ev *session.Event) error {
	if ev.ErrorCode == "" && ev.ErrorMessage == "" {
		return nil
	}
	return &server.Error{Status: http.StatusBadGateway, Code: ev.ErrorCode, Detail: cmp.Or(ev.ErrorMessage, ev.ErrorCode)}
}
