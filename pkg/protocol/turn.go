package protocol

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/terminal"
	"agenthost/pkg/model"
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
// for [server.Services.LogError]. A message with answers to calls in several events is a turn for each
// event, one after the other; req.OnStart is called for each.
func Run(ctx context.Context, s *server.Services, req *runtime.RunRequest, read func(*session.Event) error) error {
	hasLeft := false
	one := *req
	one.ClientLeft = func() bool {
		return hasLeft || errors.Is(context.Cause(ctx), context.Canceled) && s.Stopping().Err() == nil
	}
	for i, message := range splitAnswers(ctx, s, req) {
		if one.Message = message; i > 0 {
			one.StateDelta = nil // stored with the first message
		}
		for ev, err := range s.Host().Run(ctx, &one) {
			if err != nil {
				s.RefundMissing(req.App, err)
				return server.WrapRunError(keyOf(req), err)
			}
			if err := read(ev); err != nil {
				hasLeft = true
				return err
			}
		}
	}
	return nil
}

func keyOf(req *runtime.RunRequest) session.Key {
	return session.Key{App: req.App, User: req.UserID, ID: req.SessionID}
}

// splitAnswers returns a message for each event whose calls the request's message answers, because the
// runtime rejects a message to several events. The last one has the parts that answer no call. A message
// with an answer that does not belong to an open call is not split, so that it is rejected as a whole.
func splitAnswers(ctx context.Context, s *server.Services, req *runtime.RunRequest) []*genai.Content {
	whole := []*genai.Content{req.Message}
	if len(model.ResponsesOf(req.Message)) < 2 {
		return whole
	}
	sess, err := s.Host().Store().Sessions.Get(ctx, keyOf(req), nil)
	if err != nil {
		return whole // the run reports it
	}
	events, requests := map[string]int{}, map[string]bool{} // by call
	pending := runtime.Pending(session.Recorded(sess.Events()))
	for i, open := range pending {
		for _, c := range open.Calls {
			events[c.ID], requests[c.ID] = i, runtime.IsRequest(open.Event, c)
		}
	}
	parts, rest, hasDecision := make([][]*genai.Part, len(pending)), []*genai.Part{}, false
	for _, p := range req.Message.Parts {
		if p.FunctionResponse == nil {
			rest = append(rest, p)
			continue
		}
		i, isOpen := events[p.FunctionResponse.ID]
		if !isOpen {
			return whole
		}
		parts[i] = append(parts[i], p)
		hasDecision = hasDecision || requests[p.FunctionResponse.ID]
	}
	if len(rest) > 0 && hasDecision { // no text follows a decision in a message
		return whole
	}
	var split []*genai.Content
	for _, own := range parts {
		if len(own) > 0 {
			split = append(split, &genai.Content{Role: req.Message.Role, Parts: own})
		}
	}
	last := split[len(split)-1]
	last.Parts = append(last.Parts, rest...)
	return split
}

// ReadFailure returns the error that an event reports; nil if it reports none. A client that repeats
// the request starts another turn.
func ReadFailure(ev *session.Event) error {
	if ev.ErrorCode == "" && ev.ErrorMessage == "" {
		return nil
	}
	return &server.Error{Status: http.StatusBadGateway, Code: ev.ErrorCode, Detail: cmp.Or(ev.ErrorMessage, ev.ErrorCode)}
}

// LogError returns an error as clients of a door without HTTP read it, and logs the cause if the text
// omits it. path names the door and the app.
func LogError(ctx context.Context, s *server.Services, path string, err error) *server.Error {
	r := (&http.Request{Method: http.MethodPost, URL: &url.URL{Path: path}}).WithContext(ctx)
	return s.LogError(r, err)
}

// displayName is the title's key in the value of [session.MetadataKey], where ADK's web client and
// the developer page look for it.
const displayName = "displayName"

// ReadTitle returns a session's title; empty without.
func ReadTitle(sess *session.Session) string {
	title, _ := ReadMetadata(sess, displayName).(string)
	return title
}

// WithTitle returns a state or its change with a title. sess is nil for a new session.
func WithTitle(sess *session.Session, title string) map[string]any {
	return WithMetadata(sess, displayName, title)
}

// ReadMetadata returns the value of a key next to a session's title; nil without.
func ReadMetadata(sess *session.Session, key string) any {
	stored, _ := sess.State.Get(session.MetadataKey)
	metadata, _ := stored.(map[string]any)
	return metadata[key]
}

// WithMetadata returns a state or its change with a value next to the title. sess is nil for a new session.
func WithMetadata(sess *session.Session, key string, value any) map[string]any {
	metadata := map[string]any{}
	if sess != nil {
		stored, _ := sess.State.Get(session.MetadataKey)
		known, _ := stored.(map[string]any)
		maps.Copy(metadata, known)
	}
	metadata[key] = value
	return map[string]any{session.MetadataKey: metadata}
}

// maxTitle limits a title in characters.
const maxTitle = 80

// NewTitle returns the beginning of text as a title: on one line, without characters that hide text.
func NewTitle(text string) string {
	if len(text) > 16*maxTitle {
		text = text[:16*maxTitle]
	}
	title := strings.Join(strings.Fields(terminal.Clean(text)), " ")
	if runes := []rune(title); len(runes) > maxTitle {
		return string(runes[:maxTitle-1]) + "…"
	}
	return title
}

// TruncateText returns text that a response repeats or shows, with at most a number of characters, and with
// … at the end of what it cuts.
func TruncateText(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}
