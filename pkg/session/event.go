package session

import (
	"encoding/json"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// UserAuthor is the author of what the user said. No agent may have this name.
const UserAuthor = "user"

// An Event is one fact of a session. Once appended it never changes, and many
// goroutines may read it. Its JSON form is ADK's.
type Event struct {
	ID           string
	InvocationID string
	// Author is UserAuthor or an agent's name.
	Author string
	// Branch is the dotted path of a parallel branch; empty is visible to all.
	Branch    string
	Timestamp time.Time
	// Seq is the event's place in its session, from 1. The store gives it; 0
	// is an event that was not stored. It is not part of the JSON form.
	Seq int64
	// Provenance is what the host knows about the event. It is not part of the
	// JSON form either.
	Provenance Provenance

	// Response is what was said: content, finish reason, usage and so on.
	model.Response

	Actions Actions
	// Output is what a node of a workflow gives to the next; nil for most events.
	Output any
	// NodePath is the place in its invocation of the agent's run that the event
	// is of, such as "pipeline@1/writer@1"; only resumable apps have it.
	NodePath string
	// LongRunningToolIDs are the calls of this event that are answered later.
	// An event with calls has the list even when it is empty.
	LongRunningToolIDs []string

	// Extra holds fields of the JSON form that this version does not know.
	// They are written back as they came.
	Extra map[string]json.RawMessage
}

// Text is the event's text without thoughts.
func (e *Event) Text() string { return model.TextOf(e.Content) }

// Calls returns the event's function calls.
func (e *Event) Calls() []*genai.FunctionCall { return model.CallsOf(e.Content) }

// Responses returns the event's function responses.
func (e *Event) Responses() []*genai.FunctionResponse { return model.ResponsesOf(e.Content) }

// IsFinal says whether the event ends its agent's work for this turn: it asks
// the model for nothing more. A final event need not have content. The rule is
// is_final_response of adk-python events/event.py.
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
