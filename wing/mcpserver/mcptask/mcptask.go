// Package mcptask has the tasks of an MCP server (SEP-2663) as they follow from stored sessions: a task
// is the turn that a tool call began. It needs no table: any replica reads the same state from the
// session's events, also after a restart.
package mcptask

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/genai"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// Extension is the extension's name in capabilities.
const Extension = "io.modelcontextprotocol/tasks"

// The extension's methods.
const (
	MethodGet    = "tasks/get"
	MethodUpdate = "tasks/update"
	MethodCancel = "tasks/cancel"
)

// Methods lists the extension's methods.
func Methods() []string { return []string{MethodGet, MethodUpdate, MethodCancel} }

// codeMissingCapability is the protocol's.
const codeMissingCapability = -32021

// NewCapabilityError returns the error for a client that does not offer the extension, which something
// requires.
func NewCapabilityError(what string) error {
	return &jsonrpc.Error{
		Code: codeMissingCapability, Message: what + " requires the capability " + Extension,
		Data: json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + Extension + `":{}}}}`),
	}
}

// Params are the parameters for each method.
type Params struct {
	mcp.ParamsBase
	TaskID string `json:"taskId"`
	// InputResponses may have any form: answers to other questions are ignored.
	InputResponses map[string]json.RawMessage `json:"inputResponses,omitempty"`
}

// A Result is what clients receive about a task: the result of a tool call that continues as a task, the
// task's state, or, without an ID, an acknowledgment.
type Result struct {
	mcp.ResultBase
	ResultType string `json:"resultType"`
	*State
}

// The values of resultType.
const (
	TypeTask     = "task"
	TypeComplete = "complete"
)

// The states of a task.
const (
	Working       = "working"
	InputRequired = "input_required"
	Completed     = "completed"
	Failed        = "failed"
	Cancelled     = "cancelled"
)

// A State is a task's state as clients see it.
type State struct {
	TaskID        string `json:"taskId"`
	Status        string `json:"status"`
	StatusMessage string `json:"statusMessage,omitempty"`
	CreatedAt     string `json:"createdAt"`
	LastUpdatedAt string `json:"lastUpdatedAt"`
	// TTL is null: a task is as old as its session may be.
	TTL           *int64              `json:"ttlMs"`
	PollInterval  int                 `json:"pollIntervalMs"`
	Result        *mcp.CallToolResult `json:"result,omitempty"`
	Error         *Failure            `json:"error,omitempty"`
	InputRequests mcp.InputRequestMap `json:"inputRequests,omitempty"`
}

// A Failure is the error when a task's run did not end.
type Failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// An ID names a task: the invocation that the call began, the tool, and the session, in which the
// invocation is found without an index.
type ID struct{ Invocation, Tool, Session string }

// maxID limits an ID in bytes.
const maxID = 2048

// String returns the ID for clients.
func (id ID) String() string { return id.Invocation + "." + id.Tool + "." + id.Session }

// ParseID reads a client's ID.
func ParseID(text string) (id ID, ok bool) {
	parts := strings.SplitN(text, ".", 3)
	if len(text) > maxID || len(parts) < 3 || slices.Contains(parts, "") {
		return ID{}, false
	}
	return ID{parts[0], parts[1], parts[2]}, true
}

// A Turn is a task's part of a session: from the message that began the invocation to the user's next
// message. Answers to the agent's questions belong to it.
type Turn struct {
	Events []*session.Event
	// Pending are the open calls.
	Pending []PendingCall
	// IsLast reports that no other turn follows.
	IsLast bool
}

// A PendingCall is a call that waits for a person, with the event that has made it.
type PendingCall struct {
	Event string
	Call  *genai.FunctionCall
}

// FindTurn returns the turn that an invocation began, or nil.
func FindTurn(events []*session.Event, invocation string) *Turn {
	events = session.Recorded(events)
	start := slices.IndexFunc(events, func(ev *session.Event) bool { return ev.InvocationID == invocation && ev.IsFromUser() })
	if start < 0 {
		return nil
	}
	end := start + 1
	for end < len(events) && !(events[end].IsFromUser() && len(events[end].Responses()) == 0) {
		end++
	}
	t := &Turn{Events: events[start:end], IsLast: end == len(events)}
	for _, w := range runtime.Pending(events) {
		if slices.Contains(t.Events, w.Event) {
			for _, open := range w.Calls {
				t.Pending = append(t.Pending, PendingCall{w.Event.ID, open})
			}
		}
	}
	return t
}

// Answer returns the agent's events after the user's last message or answer.
func (t *Turn) Answer() []*session.Event {
	for i, ev := range slices.Backward(t.Events) {
		if ev.IsFromUser() {
			return t.Events[i+1:]
		}
	}
	return nil
}

// IsCanceled reports that the turn ended because it was canceled.
func (t *Turn) IsCanceled() bool {
	last := t.Events[len(t.Events)-1]
	return last.ErrorCode == runtime.CodeAborted || slices.ContainsFunc(last.Responses(), func(f *genai.FunctionResponse) bool {
		return f.Response["error"] == runtime.AbortedCallText
	})
}

// failureKey marks the event with the reason for which a run failed, in its metadata.
const failureKey = "agenthost:mcp_task_failed"

// FailureMark returns the metadata of an event that ends a task whose run failed.
func FailureMark() map[string]any { return map[string]any{failureKey: true} }

// IsInterruption reports whether a replica can continue the run that an error has ended: another run or a
// shutdown stopped it, or the store was not available.
func IsInterruption(err *runtime.RunError) bool {
	return slices.Contains([]string{
		runtime.CodeCanceled, runtime.CodeUnavailable, runtime.CodeSessionBusy, runtime.CodeSessionTaken, runtime.CodeSessionNotFound,
	}, err.Code)
}

// FindFailure returns why the turn's run failed, if an event that was stored for the task has the reason.
func (t *Turn) FindFailure() string {
	last := t.Events[len(t.Events)-1]
	if last.CustomMetadata[failureKey] != true {
		return ""
	}
	return last.ErrorMessage
}

// HasEnded reports that the last event ends the turn, with an answer or an error.
func (t *Turn) HasEnded() bool {
	last := t.Events[len(t.Events)-1]
	return !last.IsFromUser() && (last.ErrorCode != "" || last.IsFinal() && !t.IsResumable())
}

// IsResumable reports that the invocation was interrupted, and that any replica can continue it.
func (t *Turn) IsResumable() bool { return runtime.ResumableInvocation(t.Events) != "" }

// pollInterval is how often clients should ask for the state, in milliseconds.
const pollInterval = 1000

// NewState returns a task's state with its times.
func (t *Turn) NewState(id ID, status string) *State {
	format := func(ev *session.Event) string { return ev.Timestamp.UTC().Format(time.RFC3339Nano) }
	return &State{TaskID: id.String(), Status: status, CreatedAt: format(t.Events[0]), LastUpdatedAt: format(t.Events[len(t.Events)-1]), PollInterval: pollInterval}
}
