package a2aserver

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"agenthost/internal/a2apart"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"agenthost/pkg/protocol"
	"agenthost/pkg/protocol/task"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// formatID returns a task's ID for clients: the invocation and the session, in which it is found without
// an index.
func formatID(id task.ID) a2a.TaskID { return a2a.TaskID(id.Invocation + "." + id.Key.ID) }

// readID reads a client's task ID. The session is the caller's own.
func (d *door) readID(id a2a.TaskID) (task.ID, error) {
	invocation, sessionID, ok := strings.Cut(string(id), ".")
	if !ok || invocation == "" || sessionID == "" || len(id) > 2*maxID {
		return task.ID{}, a2a.ErrTaskNotFound
	}
	return task.ID{Key: session.Key{App: d.app.Name(), User: d.user, ID: sessionID}, Invocation: invocation}, nil
}

// A taskView describes a task for a client.
type taskView struct {
	id task.ID
	// taskID is the client's.
	taskID a2a.TaskID
	isADK  bool
	// saved loads the files that the task has saved; nil omits them.
	saved *savedFiles
}

// newTaskView returns a view without saved files.
func newTaskView(id task.ID) *taskView { return &taskView{id: id, taskID: formatID(id)} }

func (v *taskView) taskInfo() a2a.TaskInfo {
	return a2a.TaskInfo{TaskID: v.taskID, ContextID: v.id.Key.ID}
}

// describeTask returns a task. history is how many of its messages it has, the latest ones; nil for all.
func (v *taskView) describeTask(ctx context.Context, s *task.State, history *int, withArtifacts bool) *a2a.Task {
	t := &a2a.Task{ID: v.taskID, ContextID: v.id.Key.ID, Status: v.describeStatus(s), Metadata: v.buildMetadata()}
	t.History = v.listMessages(s.Turn, history)
	if !withArtifacts {
		return t
	}
	numbers := numbering{}
	for _, ev := range s.Events {
		if a := v.buildArtifact(ev, numbers); a != nil {
			t.Artifacts = append(t.Artifacts, a)
		}
		t.Artifacts = append(t.Artifacts, v.listSaved(ctx, ev)...)
	}
	return t
}

// listMessages returns the user's messages in a turn.
func (v *taskView) listMessages(t *task.Turn, limit *int) []*a2a.Message {
	all := []*a2a.Message{}
	for _, ev := range t.Events {
		if !ev.IsFromUser() {
			continue
		}
		if parts := a2apart.BuildParts(ev.Content, true, nil); len(parts) > 0 {
			m := a2a.NewMessageForTask(a2a.MessageRoleUser, v.taskInfo(), parts...)
			m.ID = ev.ID
			all = append(all, m)
		}
	}
	if limit != nil && len(all) > *limit {
		all = all[len(all)-max(*limit, 0):]
	}
	return all
}

// describeStatus returns a task's status, with the questions that it waits for or its failure.
func (v *taskView) describeStatus(s *task.State) a2a.TaskStatus {
	updated := s.Updated().Truncate(time.Millisecond)
	status := a2a.TaskStatus{State: a2a.TaskStateWorking, Timestamp: &updated}
	switch s.Status {
	case task.Waiting:
		status.State, status.Message = v.describeQuestions(s.Pending)
	case task.Canceled:
		status.State = a2a.TaskStateCanceled
	case task.Failed:
		status.State, status.Message = a2a.TaskStateFailed, v.newAgentMessage(a2a.NewTextPart(s.Failure))
	case task.Completed:
		status.State = a2a.TaskStateCompleted
		if last := s.Events[len(s.Events)-1]; last.ErrorCode != "" {
			status.State = a2a.TaskStateFailed
			status.Message = v.newAgentMessage(a2a.NewTextPart(cmp.Or(last.ErrorMessage, last.ErrorCode)))
			status.Message.SetMeta("adk_error_code", last.ErrorCode)
		}
	}
	if status.Message != nil {
		status.Message.ID = "status-" + s.Events[len(s.Events)-1].ID
	}
	return status
}

func (v *taskView) newAgentMessage(parts ...*a2a.Part) *a2a.Message {
	return a2a.NewMessageForTask(a2a.MessageRoleAgent, v.taskInfo(), parts...)
}

// describeQuestions returns the state of a task that waits: in words for clients that have only text, and
// with the calls, which a client may answer by their IDs.
func (v *taskView) describeQuestions(pending []task.PendingCall) (a2a.TaskState, *a2a.Message) {
	state := a2a.TaskStateAuthRequired
	var words, calls a2a.ContentParts
	for _, open := range pending {
		if open.Call.Name != runtime.RequestCredential {
			state = a2a.TaskStateInputRequired
		}
		if q := protocol.NewQuestion(open.Call); q != nil {
			words = append(words, a2a.NewTextPart(q.Text))
		}
		if part := a2apart.NewTypedPart(a2apart.TypeCall, open.Call, nil); part != nil {
			part.SetMeta(a2apart.LongRunningKey, true)
			calls = append(calls, part)
		}
	}
	return state, v.newAgentMessage(append(words, calls...)...)
}

// numbering counts each author's events, so that the artifacts of a stream and of a stored task have the
// same IDs.
type numbering map[string]int

// nextID returns the ID of the artifact with the author's next event.
func (n numbering) nextID(author string) a2a.ArtifactID {
	return a2a.ArtifactID(author + "-" + strconv.Itoa(n[author]+1))
}

// buildArtifact returns a complete event as an artifact; nil for one without parts for the client.
func (v *taskView) buildArtifact(ev *session.Event, numbers numbering) *a2a.Artifact {
	if ev.IsFromUser() || ev.Partial {
		return nil
	}
	id := numbers.nextID(ev.Author)
	numbers[ev.Author]++
	parts := a2apart.BuildParts(ev.Content, v.isADK, ev.LongRunningToolIDs)
	if ev.IsPlainResult() {
		parts = a2a.ContentParts{a2a.NewTextPart(ev.ResultText())}
	}
	if len(parts) == 0 {
		return nil
	}
	return &a2a.Artifact{ID: id, Parts: parts, Metadata: v.buildEventMetadata(ev)}
}

// buildMetadata returns the metadata of a task and its status, as ADK's executor has them.
func (v *taskView) buildMetadata() map[string]any {
	if !v.isADK {
		return nil
	}
	return map[string]any{
		"adk_app_name": v.id.Key.App, "adk_user_id": v.id.Key.User, "adk_session_id": v.id.Key.ID,
		a2apart.ADKExtension: map[string]any{"adk_agent_executor_v2": true},
	}
}

// buildEventMetadata returns an artifact's metadata, as ADK's executor has it.
func (v *taskView) buildEventMetadata(ev *session.Event) map[string]any {
	if !v.isADK {
		return nil
	}
	m := v.buildMetadata()
	m["adk_invocation_id"], m["adk_author"], m["adk_event_id"] = ev.InvocationID, ev.Author, ev.ID
	if ev.Branch != "" {
		m["adk_branch"] = ev.Branch
	}
	for key, value := range map[string]any{"adk_usage_metadata": ev.UsageMetadata, "adk_grounding_metadata": ev.GroundingMetadata, "adk_citation_metadata": ev.CitationMetadata} {
		if object := a2apart.NewTypedPart("", value, nil); object != nil {
			if fields, ok := object.Data().(map[string]any); ok && len(fields) > 0 {
				m[key] = fields
			}
		}
	}
	if ev.ErrorCode != "" {
		m["adk_error_code"] = ev.ErrorCode
	}
	return m
}
