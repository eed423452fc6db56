package session

import (
	"encoding/json"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// UserAuthor is the author of user messages. No agent may have this name.
const UserAuthor = "user"

// An Event is an entry of a session's history. It is immutable once appended
// and safe for concurrent reads. Its JSON form is ADK's.
type Event struct {
	ID           string
	InvocationID string
	// Author is UserAuthor or the name of an agent.
	Author string
	// Branch is the dotted path of a parallel branch; an event with an empty
	// branch is visible to all.
	Branch    string
	Timestamp time.Time
	// Seq is the sequence number in the session, from 1, set by the store. It
	// is 0 for an event that is not stored. It has no JSON form.
	Seq int64
	// Provenance is the host's record about the event. It has no JSON form.
	Provenance Provenance

	// Response holds content, finish reason, usage and so on.
	model.Response

	Actions Actions
	// Output is the output of a workflow node for the next node; nil for most
	// events.
	Output any
	// NodePath is the path of the agent run that created the event within its
	// invocation, such as "pipeline@1/writer@1". Only resumable apps set it.
	NodePath string
	// LongRunningToolIDs are the ids of calls in this event that are answered
	// later. An event with calls has the list even when it is empty.
	LongRunningToolIDs []string

	// Extra holds unknown fields of the JSON form. They are written back
	// unchanged.
	Extra map[string]json.RawMessage
}

// Text returns the event's text without thoughts.
func (e *Event) Text() string { return model.TextOf(e.Content) }

// Calls returns the event's function calls.
func (e *Event) Calls() []*genai.FunctionCall { return model.CallsOf(e.Content) }

// Responses returns the event's function responses.
func (e *Event) Responses() []*genai.FunctionResponse { return model.ResponsesOf(e.Content) }

// IsFinal reports whether the event is the agent's final response of this turn,
// which requires no further model call. A final event may have no content. The
// rule is is_final_response of adk-python events/event.py.
func (e *Event) IsFinal() bool {
	if e.Actions.SkipSummarization || len(e.LongRunningToolIDs) > 0 {
		return true
	}
	if e.Partial {
		return false
	}
	if e.Content == nil || len(e.Content.Parts) == 0 {
		return true
	}
	for _, p := range e.Content.Parts {
		if p.FunctionCall != nil || p.FunctionResponse != nil {
			return false
		}
	}
	return e.Content.Parts[len(e.Content.Parts)-1].CodeExecutionResult == nil
}
