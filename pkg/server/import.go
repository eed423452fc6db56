package server

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// maxClockSkew is how far a client's clock may be ahead of the server's.
const maxClockSkew = 5 * time.Minute

// importEvents validates and marks the events of a session that a client creates.
// Imported events are history: models read them, and no other part of the host relies
// on them. As in adk-python since 2.7.1, fields that would control the host are
// rejected. A state delta is accepted, because the request may write the state anyway.
// With authentication, only administrators may import events other than the user's own
// input.
func (s *Server) importEvents(r *http.Request, events []*session.Event) error {
	ids := map[string]bool{}
	for i, ev := range events {
		if reason := s.importProblem(ev); reason != "" {
			return badRequest(fmt.Sprintf("cannot import event %d: %s", i, reason))
		}
		if ev.ID != "" && ids[ev.ID] {
			return badRequest(fmt.Sprintf("cannot import event %d: id %q appears more than once", i, ev.ID))
		}
		ids[ev.ID] = true
		if !isUserInput(ev) && !s.isPrivileged(r) {
			return forbiddenError(fmt.Sprintf("permission denied: event %d is not user input; only administrators can import other events", i))
		}
		ev.Provenance = session.Provenance{Imported: true}
		delete(ev.Extra, "provenance")
	}
	return nil
}

// importProblem returns why an event cannot be imported, or an empty string.
func (s *Server) importProblem(ev *session.Event) string {
	a := ev.Actions
	a.StateDelta = nil
	switch {
	case ev.Partial:
		return "partial events are not stored"
	case len(ev.LongRunningToolIDs) > 0:
		return "longRunningToolIds must be empty"
	case !a.IsEmpty():
		return "actions must be empty except stateDelta"
	case ev.Timestamp.After(s.opts.Clock().Add(maxClockSkew)):
		return "timestamp is in the future"
	}
	for _, name := range functionNames(ev) {
		if runtime.IsReservedFunction(name) {
			return fmt.Sprintf("function name %q is reserved", name)
		}
	}
	return ""
}

// functionNames returns the names of an event's calls and responses.
func functionNames(ev *session.Event) []string {
	var names []string
	for _, c := range ev.Calls() {
		names = append(names, c.Name)
	}
	for _, f := range ev.Responses() {
		names = append(names, f.Name)
	}
	return names
}

// isUserInput reports whether an event contains only text and files of the user.
func isUserInput(ev *session.Event) bool {
	if ev.Author != session.UserAuthor || ev.ErrorCode != "" || ev.InputTranscription != nil || ev.OutputTranscription != nil {
		return false
	}
	if ev.Content == nil {
		return true
	}
	return (ev.Content.Role == "" || ev.Content.Role == genai.RoleUser) && !slices.ContainsFunc(ev.Content.Parts, func(p *genai.Part) bool {
		if p == nil {
			return true
		}
		rest := *p
		rest.Text, rest.InlineData, rest.FileData = "", nil, nil
		return !reflect.ValueOf(rest).IsZero()
	})
}
