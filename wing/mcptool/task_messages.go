package mcptool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/pkg/tool"
)

// tasksExtension is the name of the extension (SEP-2663) in capabilities.
const tasksExtension = "io.modelcontextprotocol/tasks"

// The bounds for what a server reports about a task.
const (
	maxTaskID = 1 << 10
	// defaultPoll is the interval that a server does not name, minPoll the shortest; a server that
	// names a longer one than maxPoll is refused.
	defaultPoll = time.Second
	minPoll     = 100 * time.Millisecond
	maxPoll     = time.Hour
)

// The states of a task.
const (
	taskWorking       = "working"
	taskInputRequired = "input_required"
	taskCompleted     = "completed"
	taskFailed        = "failed"
	taskCancelled     = "cancelled"
)

// taskParams are the parameters of the extension's requests.
type taskParams struct {
	mcp.ParamsBase
	TaskID         string               `json:"taskId"`
	InputResponses mcp.InputResponseMap `json:"inputResponses,omitempty"`
}

// taskAnswer is the result of the extension's requests, as unwrapResult returns it.
type taskAnswer struct{ mcp.ResultBase }

// addTaskMethods lets a client send the extension's requests.
func addTaskMethods(c *mcp.Client) error {
	for _, method := range taskMethods() {
		if err := mcp.AddSendingCustomMethod[*taskParams, *taskAnswer](c, method); err != nil {
			return err
		}
	}
	return nil
}

// A taskReport is what a server reports about a task.
type taskReport struct {
	id, status string
	// interval is 0, and ttl negative, if the server names none.
	interval, ttl time.Duration
	// result is that of a completed task, failure the error of a failed one.
	result  json.RawMessage
	failure string
	// round has the questions of a task that requires input.
	round *inputRound
}

func (r *taskReport) isTerminal() bool {
	return r.status != taskWorking && r.status != taskInputRequired
}

// isTaskResult reports whether a call's result is a task.
func isTaskResult(raw []byte) bool {
	var result struct {
		ResultType string `json:"resultType"`
	}
	return bytes.Contains(raw, []byte(`task`)) && json.Unmarshal(raw, &result) == nil && result.ResultType == "task"
}

// decodeTask decodes a result about a task; id is empty for the call's result, which names the task. It
// returns the report with an error if the report names the task.
func decodeTask(raw []byte, id string) (*taskReport, error) {
	var fields struct {
		TaskID        json.RawMessage            `json:"taskId"`
		Status        json.RawMessage            `json:"status"`
		TTL           json.RawMessage            `json:"ttlMs"`
		PollInterval  json.RawMessage            `json:"pollIntervalMs"`
		Result        json.RawMessage            `json:"result"`
		Error         json.RawMessage            `json:"error"`
		InputRequests map[string]json.RawMessage `json:"inputRequests"`
	}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, limitError{"the server's task cannot be read: it is not an object with the protocol's members"}
	}
	r := &taskReport{ttl: -1}
	if json.Unmarshal(fields.TaskID, &r.id) != nil || r.id == "" {
		return nil, limitError{"the server's taskId must be a string that is not empty"}
	}
	switch {
	case len(r.id) > maxTaskID:
		return nil, limitError{fmt.Sprintf("the server's taskId exceeds the limit of %d bytes", maxTaskID)}
	case id != "" && r.id != id:
		return nil, limitError{fmt.Sprintf("the server answers about task %q, and the request is about task %q", cutText(cleanText(r.id), maxNameShown), cutText(cleanText(id), maxNameShown))}
	}
	states := []string{taskWorking, taskInputRequired, taskCompleted, taskFailed, taskCancelled}
	if json.Unmarshal(fields.Status, &r.status) != nil || !slices.Contains(states, r.status) {
		return r, limitError{fmt.Sprintf("the task's status must be working, input_required, completed, failed or cancelled, got %s", cutText(cleanText(string(fields.Status)), maxNameShown))}
	}
	var err error
	if r.interval, err = decodeMilliseconds("pollIntervalMs", fields.PollInterval, 0); err == nil && r.interval > maxPoll {
		err = limitError{fmt.Sprintf("the task's pollIntervalMs exceeds the limit of %s", tool.FormatDuration(maxPoll))}
	}
	if err == nil {
		r.ttl, err = decodeMilliseconds("ttlMs", fields.TTL, -1)
	}
	if err != nil || id == "" {
		return r, err
	}
	switch r.status {
	case taskCompleted:
		if r.result = bytes.TrimSpace(fields.Result); isNull(r.result) {
			return nil, limitError{"the task is completed, and the server sends no result"}
		}
	case taskFailed:
		r.failure = decodeFailure(fields.Error)
	case taskInputRequired:
		r.round = &inputRound{Requests: fields.InputRequests, Responses: mcp.InputResponseMap{}}
	}
	return r, nil
}

// decodeMilliseconds decodes a duration; missing is the value for null.
func decodeMilliseconds(name string, raw json.RawMessage, missing time.Duration) (time.Duration, error) {
	if isNull(raw) {
		return missing, nil
	}
	var ms float64
	if json.Unmarshal(raw, &ms) != nil || ms <= 0 || ms != math.Trunc(ms) {
		return 0, limitError{fmt.Sprintf("the task's %s must be a positive integer, got %s", name, cutText(cleanText(string(raw)), maxNameShown))}
	}
	const longest = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(ms, float64(longest/2))) * time.Millisecond, nil
}

// decodeFailure returns the message of a failed task.
func decodeFailure(raw json.RawMessage) string {
	var failure struct{ Message json.RawMessage }
	var text string
	if json.Unmarshal(raw, &failure) == nil && json.Unmarshal(failure.Message, &text) == nil && text != "" {
		return text
	}
	if isNull(raw) {
		return "the server sends no error"
	}
	return string(raw)
}

// removeAnswered returns the round without the questions that were answered before: a server may report them until it has
// read the answers.
func (r *taskReport) removeAnswered(task *storedTask) *inputRound {
	requests := maps.Clone(r.round.Requests)
	for _, id := range task.Answered {
		delete(requests, id)
	}
	return &inputRound{Requests: requests, Responses: mcp.InputResponseMap{}, Task: task}
}
