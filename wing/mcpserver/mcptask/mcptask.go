// Package mcptask has MCP tasks (SEP-2663) as they are on the wire.
package mcptask

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/pkg/protocol/task"
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

// Values for resultType.
const (
	TypeTask     = "task"
	TypeComplete = "complete"
)

// The states.
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

// pollInterval is how often clients should ask for the state, in milliseconds.
const pollInterval = 1000

// NewState returns a task's state with its times.
func NewState(id ID, t *task.Turn, status string) *State {
	return &State{
		TaskID: id.String(), Status: status, PollInterval: pollInterval,
		CreatedAt: t.Began().Format(time.RFC3339Nano), LastUpdatedAt: t.Updated().Format(time.RFC3339Nano),
	}
}
