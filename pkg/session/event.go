package session

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/template"
)

// UserAuthor is the author of user messages. No agent may have this name.
const UserAuthor = "user"

// An Event is an entry in a session's history. It is immutable once appended and safe for
// concurrent reads. Its JSON form is ADK's.
type Event struct {
	ID           string
	InvocationID string
	// Author is UserAuthor or an agent's name.
	Author string
	// Branch is the dotted path of a parallel branch; an event with an empty branch is
	// visible to all.
	Branch string
	// IsolationScope is the ID of the call that delegated a task. Only the task's agent sees
	// events with it.
	IsolationScope string
	Timestamp      time.Time
	// Seq is the sequence number in the session, from 1, set by the store. It
	// is 0 for an event that is not stored. It has no JSON form.
	Seq int64
	// Provenance is the host's record about the event. It has no JSON form.
	Provenance Provenance

	// Response holds content, finish reason, usage and so on.
	model.Response

	Actions Actions
	// Output is a workflow node's output for the next node; nil for most events.
	Output any
	// NodePath is the path of the agent run that created the event within its invocation,
	// such as "pipeline@1/writer@1".
	NodePath string
	// OutputFor has the paths of the nodes whose output the event has: its own node, and the
	// workflows that end with it. Only events with a NodePath have it.
	OutputFor []string
	// MessageAsOutput reports that the output is the content, and not Output.
	MessageAsOutput bool
	// LongRunningToolIDs are the ids of calls in this event that are answered later. An event
	// with calls has the list even when it is empty.
	LongRunningToolIDs []string

	// Extra holds unknown fields from the JSON form. They are written back unchanged.
	Extra map[string]json.RawMessage
}

// Text returns the event's text without thoughts.
func (e *Event) Text() string { return model.TextOf(e.Content) }

// ResultText returns the event's text for people. Without a message, it is the output with
// which the invocation's root ends, as text or JSON.
func (e *Event) ResultText() string {
	if e.IsPlainResult() {
		return template.String(e.Output)
	}
	return e.Text()
}

// IsPlainResult reports whether the event has the output of the invocation's root, such as a
// workflow that ends with a function, and no content.
func (e *Event) IsPlainResult() bool {
	return e.Content == nil && e.Output != nil && slices.ContainsFunc(e.OutputFor, func(path string) bool { return !strings.Contains(path, "/") })
}

// NodeName returns the name of the agent or node that made the event: the last one in its node
// path. Events from function, tool and join nodes have their workflow as author, which is the
// name without a path.
func (e *Event) NodeName() string {
	path := e.NodePath
	for path != "" {
		last := path[strings.LastIndexByte(path, '/')+1:]
		if name, _, ok := strings.Cut(last, "@"); ok {
			return name
		}
		path = strings.TrimSuffix(strings.TrimSuffix(path, last), "/")
	}
	return e.Author
}

// Calls returns the event's function calls.
func (e *Event) Calls() []*genai.FunctionCall { return model.CallsOf(e.Content) }

// Responses returns the event's function responses.
func (e *Event) Responses() []*genai.FunctionResponse { return model.ResponsesOf(e.Content) }

// IsFinal reports whether the event is the agent's final response in this turn, which
// requires no further model call. A final event may have no content. The rule is
// is_final_response in adk-python events/event.py.
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

// IsFromUser reports whether the user or a client sent the event: its author is [UserAuthor],
// and it is not a task's result.
func (e *Event) IsFromUser() bool { return e.Author == UserAuthor && !e.Provenance.TaskResult }

// Provenance is the host's record about an event: its origin and reason. It is
// not part of the event's JSON form, so neither clients nor apps can write it;
// stores keep it next to the event.
type Provenance struct {
	// Revision is the app revision that created the event; empty if the app has
	// none or no app created it.
	Revision string `json:"revision,omitempty"`
	// Skipped is the reason why an agent was skipped; empty for all other
	// events.
	Skipped string `json:"skipped,omitempty"`
	// RewindAfter is the id of the last event that a rewind keeps; empty if whole invocations
	// are rewound. ADK has no such field: other programs rewind the invocation in
	// rewindBeforeInvocationId.
	RewindAfter string `json:"rewindAfterEventId,omitempty"`
	// Imported reports that a client supplied the event for a new session.
	// Models read it as history; nothing else relies on it.
	Imported bool `json:"imported,omitempty"`
	// TaskResult reports that the runtime wrote the event: the response to a call that
	// delegated a task. ADK makes the user its author.
	TaskResult bool `json:"taskResult,omitempty"`
	// Unresumable reports that the app was not resumable, so that NodePath does not record
	// an invocation to resume. Versions that set NodePath only in resumable apps did not
	// set it.
	Unresumable bool `json:"unresumable,omitempty"`
	// Unverified reports that the record was read from the event's
	// customMetadata, which agenthost used before schema version 6 and which
	// clients could write. It is shown but selects no revision.
	Unverified bool `json:"unverified,omitempty"`
}

// Actions are an event's effects besides its content. The zero value has no effect. JSON keys
// are those in adk-python events/event_actions.py.
type Actions struct {
	// StateDelta holds the state keys that the event sets; a nil value deletes
	// the key.
	StateDelta map[string]any `json:"stateDelta"`
	// StateUpdates are writes computed from stored values, applied after
	// StateDelta. An append moves their results to StateDelta; they have no
	// JSON form.
	StateUpdates []StateUpdate `json:"-"`
	// ArtifactDelta holds each artifact's saved version.
	ArtifactDelta map[string]int `json:"artifactDelta"`

	RequestedAuthConfigs       map[string]any           `json:"requestedAuthConfigs"`
	RequestedToolConfirmations map[string]*Confirmation `json:"requestedToolConfirmations"`

	// TransferToAgent names the agent that takes over.
	TransferToAgent string `json:"transferToAgent,omitempty"`
	// SkipSummarization keeps the model from summarizing this response.
	SkipSummarization bool `json:"skipSummarization,omitempty"`
	// Escalate exits the enclosing loops.
	Escalate bool `json:"escalate,omitempty"`

	EndOfAgent               bool            `json:"endOfAgent,omitempty"`
	AgentState               map[string]any  `json:"agentState,omitzero"`
	RewindBeforeInvocationID string          `json:"rewindBeforeInvocationId,omitempty"`
	Compaction               *Compaction     `json:"compaction,omitempty"`
	Route                    any             `json:"route,omitempty"`
	RenderUIWidgets          json.RawMessage `json:"renderUiWidgets,omitempty"`
	SetModelResponse         any             `json:"setModelResponse,omitempty"`
}

// A Confirmation is a request to confirm a tool call, or the answer.
type Confirmation struct {
	Hint      string `json:"hint"`
	Confirmed bool   `json:"confirmed"`
	Payload   any    `json:"payload,omitempty"`
}

// A Compaction replaces the events between two times. The times are seconds
// since the Unix epoch.
type Compaction struct {
	StartTimestamp   float64        `json:"startTimestamp"`
	EndTimestamp     float64        `json:"endTimestamp"`
	CompactedContent *genai.Content `json:"compactedContent"`
}

// IsEmpty reports whether the event has no effect besides its content.
func (a *Actions) IsEmpty() bool {
	return len(a.StateDelta) == 0 && len(a.StateUpdates) == 0 && len(a.ArtifactDelta) == 0 &&
		len(a.RequestedAuthConfigs) == 0 && len(a.RequestedToolConfirmations) == 0 &&
		!a.SkipSummarization && a.TransferToAgent == "" && !a.Escalate &&
		!a.EndOfAgent && a.AgentState == nil && a.RewindBeforeInvocationID == "" &&
		a.Compaction == nil && a.Route == nil && len(a.RenderUIWidgets) == 0 && a.SetModelResponse == nil
}

// SetState sets a state key; nil deletes it. It discards the key's earlier updates.
func (a *Actions) SetState(key string, value any) {
	a.dropUpdates(func(k string) bool { return k == key })
	if a.StateDelta == nil {
		a.StateDelta = map[string]any{}
	}
	a.StateDelta[key] = value
}

// SetArtifact records an artifact's saved version.
func (a *Actions) SetArtifact(name string, version int) {
	if a.ArtifactDelta == nil {
		a.ArtifactDelta = map[string]int{}
	}
	a.ArtifactDelta[name] = version
}

// Merge adds the effects of b to a, as responses to parallel calls become one event: maps are
// merged deeply, later values win, and flags and widgets accumulate (adk-python
// flows/llm_flows/functions.py).
func (a *Actions) Merge(b *Actions) {
	if len(b.StateDelta) > 0 {
		a.dropUpdates(func(key string) bool { _, isSet := b.StateDelta[key]; return isSet })
	}
	a.StateUpdates = append(a.StateUpdates, b.StateUpdates...)
	a.StateDelta = mergeDeep(a.StateDelta, b.StateDelta)
	a.ArtifactDelta = mergeFlat(a.ArtifactDelta, b.ArtifactDelta)
	a.RequestedAuthConfigs = mergeFlat(a.RequestedAuthConfigs, b.RequestedAuthConfigs)
	a.RequestedToolConfirmations = mergeFlat(a.RequestedToolConfirmations, b.RequestedToolConfirmations)
	a.SkipSummarization = a.SkipSummarization || b.SkipSummarization
	a.Escalate = a.Escalate || b.Escalate
	a.EndOfAgent = a.EndOfAgent || b.EndOfAgent
	a.AgentState = mergeDeep(a.AgentState, b.AgentState)
	a.TransferToAgent = cmp.Or(b.TransferToAgent, a.TransferToAgent)
	a.RewindBeforeInvocationID = cmp.Or(b.RewindBeforeInvocationID, a.RewindBeforeInvocationID)
	a.Compaction = cmp.Or(b.Compaction, a.Compaction)
	a.RenderUIWidgets = joinLists(a.RenderUIWidgets, b.RenderUIWidgets)
	if b.Route != nil {
		a.Route = b.Route
	}
	if b.SetModelResponse != nil {
		a.SetModelResponse = b.SetModelResponse
	}
}

// joinLists concatenates two JSON lists; nil is an empty list.
func joinLists(a, b json.RawMessage) json.RawMessage {
	head, tail := listItems(a), listItems(b)
	switch {
	case len(tail) == 0:
		return a
	case len(head) == 0:
		return b
	}
	return slices.Concat(json.RawMessage("["), head, json.RawMessage(","), tail, json.RawMessage("]"))
}

func listItems(list json.RawMessage) json.RawMessage {
	list = bytes.TrimSpace(list)
	list = bytes.TrimSuffix(bytes.TrimPrefix(list, []byte("[")), []byte("]"))
	return bytes.TrimSpace(list)
}

func mergeFlat[V any](a, b map[string]V) map[string]V {
	if len(b) == 0 {
		return a
	}
	if a == nil {
		return maps.Clone(b)
	}
	maps.Copy(a, b)
	return a
}

func mergeDeep(a, b map[string]any) map[string]any {
	if a == nil {
		return maps.Clone(b)
	}
	for k, v := range b {
		old, ok1 := a[k].(map[string]any)
		now, ok2 := v.(map[string]any)
		if ok1 && ok2 {
			a[k] = mergeDeep(maps.Clone(old), now)
		} else {
			a[k] = v
		}
	}
	return a
}
