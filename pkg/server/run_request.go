package server

import (
	"net/http"

	"agenthost/internal/runconfig"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
)

// A runRequest is a /run or /run_sse request as decodeRun has read it: the turn, and the form in
// which the client wants its events. Handlers read no header, query or body again.
type runRequest struct {
	runtime.RunRequest
	// form is ADK's form of events, with their provenance after ?provenance=true.
	form session.Form
	// eventIDs asks for event IDs: ?eventIds=true, or a client that reconnects.
	eventIDs bool
	// lastEventID is the Last-Event-ID header from a client that reconnects; empty starts a run.
	lastEventID string
	// detached lets the run continue without its client (?detach=true). detachErr is that flag's
	// error, which counts only once the run may start.
	detached  bool
	detachErr error
	// singleFrame sends an event that saved artifacts in one frame.
	singleFrame bool
}

func (q *runRequest) sessionKey() session.Key {
	return session.Key{App: q.App, User: q.UserID, ID: q.SessionID}
}

// decodeRun reads a request of /run or, if it streams, of /run_sse. It checks in this order,
// because clients see the first error: the query, the JSON and its fields, the run config against
// the one in the app, the user, and the state keys that the caller may write. The host validates
// the message and finds the app and the session.
func (s *Services) decodeRun(w http.ResponseWriter, r *http.Request, streams bool) (*runRequest, error) {
	q, err := &runRequest{}, error(nil)
	if streams {
		q.lastEventID = r.Header.Get("Last-Event-ID")
		if q.eventIDs, err = ReadQueryFlag(r, "eventIds"); err != nil {
			return nil, err
		}
		q.eventIDs = q.eventIDs || q.lastEventID != ""
	}
	if q.form, err = readEventForm(r); err != nil {
		return nil, err
	}
	q.detached, q.detachErr = ReadQueryFlag(r, "detach")

	b, err := s.ReadBody(w, r)
	if err != nil {
		return nil, err
	}
	if s.opts.Auth == nil {
		b.RequireField("userId")
	}
	b.RequireField("sessionId")
	q.RunRequest = runtime.RunRequest{
		App: b.ReadString("appName"), UserID: b.ReadString("userId"), SessionID: b.ReadString("sessionId"),
		Message: b.ReadContent("newMessage"), StateDelta: b.ReadMap("stateDelta"),
		Streaming: b.ReadBool("streaming"), CustomMetadata: b.ReadMap("customMetadata"),
		CreateSession: s.opts.AutoCreateSession, Writer: s.StateWriter(r),
	}
	if q.Protocol = "run_sse"; !streams {
		q.Protocol = "run"
		q.Streaming = new(bool) // as in ADK, despite the request and the app
	}
	if f, app := b.FindField("runConfig"), s.host.App(q.App); f != nil && app != nil {
		config, problems := runconfig.Override(app.Config(), f.Value)
		for _, p := range problems {
			if p.Severity == spec.Error {
				b.AddDetail("value_error", p.Message, string(f.Key))
			}
		}
		q.Config = config
	}
	q.singleFrame = b.ReadString("functionCallEventId") != ""
	q.InvocationID = b.ReadString("invocationId")
	if q.InvocationID != "" && q.Message == nil {
		// The message may have a misspelt key. Requests with a message can have other fields,
		// which are ignored as in ADK.
		b.RejectUnknownFields("appName", "userId", "sessionId", "newMessage", "stateDelta", "streaming",
			"customMetadata", "functionCallEventId", "runConfig", "invocationId")
	}
	switch err := b.Err(); {
	case err != nil:
		return nil, err
	case q.App == "":
		return nil, badRequest("appName is required")
	}

	if q.UserID, err = s.ResolveUser(r, q.App, q.UserID); err != nil {
		return nil, err
	}
	if err := s.AuthorizeWrites(r, q.App, q.StateDelta); err != nil {
		return nil, err
	}
	return q, nil
}
