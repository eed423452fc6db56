package a2aserver

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"agenthost/pkg/protocol/task"
	"agenthost/pkg/session"
)

// Limits for lists.
const (
	defaultPage = 50
	maxPage     = 100
	// maxListed is how many sessions a list reads, the latest ones.
	maxListed = 50
)

// ListTasks implements [a2asrv.RequestHandler]: the tasks of the caller's latest sessions, the newest
// first.
func (h *handlers) ListTasks(ctx context.Context, req *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	d := doorOf(ctx)
	if d.rejected != nil {
		return nil, d.rejected
	}
	size := cmp.Or(req.PageSize, defaultPage)
	offset, err := strconv.Atoi(cmp.Or(req.PageToken, "0"))
	switch {
	case size < 1 || size > maxPage:
		return nil, newInvalid("pageSize must be 1 to %d, got %d", maxPage, req.PageSize)
	case err != nil || offset < 0:
		return nil, newInvalid("pageToken must be the nextPageToken of a list")
	case req.HistoryLength != nil && *req.HistoryLength < 0:
		return nil, newInvalid("historyLength must be at least 0")
	}
	all, err := d.listTasks(ctx, req)
	if err != nil {
		return nil, d.describeError(err)
	}
	page := all[min(offset, len(all)):min(offset+size, len(all))]
	list := &a2a.ListTasksResponse{Tasks: []*a2a.Task{}, TotalSize: len(all), PageSize: len(page)}
	for _, one := range page {
		list.Tasks = append(list.Tasks, d.newView(one.id).describeTask(ctx, one.state, req.HistoryLength, req.IncludeArtifacts))
	}
	if offset+size < len(all) {
		list.NextPageToken = strconv.Itoa(offset + size)
	}
	return list, nil
}

// A listedTask is a task with its state.
type listedTask struct {
	id    task.ID
	state *task.State
}

// listTasks returns the tasks that a list selects, the newest first.
func (d *door) listTasks(ctx context.Context, req *a2a.ListTasksRequest) ([]listedTask, error) {
	keys, err := d.listSessions(ctx, req.ContextID)
	if err != nil {
		return nil, err
	}
	var all []listedTask
	for _, key := range keys {
		states, err := d.h.tasks.List(ctx, key)
		if errors.Is(err, task.ErrUnknown) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		for _, s := range slices.Backward(states) {
			one := listedTask{task.ID{Key: key, Invocation: s.Events[0].InvocationID}, s}
			status := d.newView(one.id).describeStatus(s)
			if req.Status != "" && status.State != req.Status || req.StatusTimestampAfter != nil && !status.Timestamp.After(*req.StatusTimestampAfter) {
				continue
			}
			all = append(all, one)
		}
	}
	slices.SortStableFunc(all, func(a, b listedTask) int { return b.state.Updated().Compare(a.state.Updated()) })
	return all, nil
}

// listSessions returns the session of a context, or the caller's latest ones.
func (d *door) listSessions(ctx context.Context, contextID string) ([]session.Key, error) {
	if contextID != "" {
		return []session.Key{{App: d.app.Name(), User: d.user, ID: contextID}}, nil
	}
	sessions, err := d.h.Host().Store().Sessions.List(ctx, d.app.Name(), d.user)
	if err != nil {
		return nil, err
	}
	var keys []session.Key
	for _, sess := range slices.Backward(sessions) {
		if len(keys) == maxListed {
			break
		}
		keys = append(keys, sess.Key)
	}
	return keys, nil
}
