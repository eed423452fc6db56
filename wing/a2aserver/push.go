package a2aserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"

	"agenthost/internal/safe"
	"agenthost/pkg/protocol/task"
	"agenthost/pkg/runtime"
	"agenthost/wing/a2aserver/a2apush"
)

// A task's clients are notified when it waits for them, and when it has ended. The replica whose run ended
// sends the notification; a run of another door counts, as that in which a person approved a call on a page:
//
//	run of A2A       ──▶ turnEnd, once its failure is stored ──▶ startNotifying
//	other runs       ──▶ observeRun ──────────────────────────▶ startNotifying
//	canceled, added  ──▶ startNotifying
//	startNotifying   ──▶ the state ──▶ Claim, so that no state is sent twice ──▶ Sender
//
// A shutdown waits for notifications in progress, and ends their pauses.

// storeTimeout limits how long the state and the configurations are read and claimed.
const storeTimeout = 30 * time.Second

// maxPushBody limits a notification in bytes. Without its artifacts a task is sent as its state.
const maxPushBody = 256 << 10

// checkPush returns the error for a call about push notifications, if the agent offers none.
func (d *door) checkPush() error {
	switch {
	case d.rejected != nil:
		return d.rejected
	case len(d.settings.pushHosts) == 0:
		return a2a.ErrPushNotificationNotSupported
	case d.h.configs == nil:
		d.h.warnMissingKeys(d.app.Name())
		return a2a.NewError(a2a.ErrPushNotificationNotSupported, "push notifications require keys on the host (--credentials-key)")
	}
	return nil
}

// warnMissingKeys logs once for each app that it has push_hosts and the host has no keys.
func (h *handlers) warnMissingKeys(app string) {
	if _, ok := h.warned.LoadOrStore(app, true); !ok {
		h.Logger().Warn("push_hosts has no effect without --credentials-key", "app", app)
	}
}

// readPushConfig returns a client's configuration.
func (d *door) readPushConfig(c *a2a.PushConfig) (*a2apush.Config, error) {
	if err := d.checkPush(); err != nil {
		return nil, err
	}
	read := &a2apush.Config{ID: c.ID, URL: c.URL, Token: c.Token, IsOld: d.isOld}
	if c.Auth != nil {
		read.Scheme, read.Credentials = c.Auth.Scheme, c.Auth.Credentials
	}
	if err := read.Check(d.settings.pushHosts); err != nil {
		return nil, newInvalid("push notification configuration: %s", err)
	}
	return read, nil
}

// addPushConfig stores a configuration; nil is none. If the run that reaches the next state has ended
// meanwhile, the state is sent; a nil run has ended.
func (d *door) addPushConfig(ctx context.Context, id task.ID, config *a2apush.Config, run *task.Run) error {
	if config == nil {
		return nil
	}
	if err := d.storePushConfig(ctx, id, config); err != nil {
		return err
	}
	if run != nil {
		select {
		case <-run.Ended():
		default:
			return nil // its end finds the configuration
		}
	}
	d.h.startNotifying(id, nil)
	return nil
}

// storePushConfig stores a configuration, and notifies no client.
func (d *door) storePushConfig(ctx context.Context, id task.ID, config *a2apush.Config) error {
	config.ID = cmp.Or(config.ID, string(formatID(id)))
	err := d.h.configs.Add(ctx, id, config)
	if errors.Is(err, a2apush.ErrTooMany) {
		return newInvalid("%s", err)
	}
	return d.describeError(err)
}

// findPushTask returns a task of the caller's.
func (d *door) findPushTask(ctx context.Context, taskID a2a.TaskID) (task.ID, error) {
	if err := d.checkPush(); err != nil {
		return task.ID{}, err
	}
	id, err := d.readID(taskID)
	if err != nil {
		return id, err
	}
	_, err = d.h.tasks.Find(ctx, id)
	return id, d.describeError(err)
}

// describePushConfig returns a configuration for its client, without the credentials.
func describePushConfig(id task.ID, c *a2apush.Config) *a2a.PushConfig {
	out := &a2a.PushConfig{TaskID: formatID(id), ID: c.ID, URL: c.URL, Token: c.Token}
	if c.Scheme != "" {
		out.Auth = &a2a.PushAuthInfo{Scheme: c.Scheme}
	}
	return out
}

// CreateTaskPushConfig implements [a2asrv.RequestHandler].
func (h *handlers) CreateTaskPushConfig(ctx context.Context, req *a2a.PushConfig) (*a2a.PushConfig, error) {
	d := doorOf(ctx)
	id, err := d.findPushTask(ctx, req.TaskID)
	if err != nil {
		return nil, err
	}
	config, err := d.readPushConfig(req)
	if err != nil {
		return nil, err
	}
	if err := d.addPushConfig(ctx, id, config, nil); err != nil {
		return nil, err
	}
	return describePushConfig(id, config), nil
}

// GetTaskPushConfig implements [a2asrv.RequestHandler]. Without an ID, which 0.3 allows, it returns the
// oldest one.
func (h *handlers) GetTaskPushConfig(ctx context.Context, req *a2a.GetTaskPushConfigRequest) (*a2a.PushConfig, error) {
	d := doorOf(ctx)
	id, err := d.findPushTask(ctx, req.TaskID)
	if err != nil {
		return nil, err
	}
	all, err := h.configs.List(ctx, id)
	if err != nil {
		return nil, d.describeError(err)
	}
	for _, one := range all {
		if one.ID == req.ID || req.ID == "" {
			return describePushConfig(id, one), nil
		}
	}
	return nil, a2a.NewError(a2a.ErrTaskNotFound, a2apush.ErrUnknown.Error())
}

// ListTaskPushConfigs implements [a2asrv.RequestHandler]. There are few: the first page has all.
func (h *handlers) ListTaskPushConfigs(ctx context.Context, req *a2a.ListTaskPushConfigRequest) (*a2a.ListTaskPushConfigResponse, error) {
	d := doorOf(ctx)
	id, err := d.findPushTask(ctx, req.TaskID)
	if err != nil {
		return nil, err
	}
	all, err := h.configs.List(ctx, id)
	if err != nil {
		return nil, d.describeError(err)
	}
	list := &a2a.ListTaskPushConfigResponse{Configs: []*a2a.PushConfig{}}
	for _, one := range all {
		list.Configs = append(list.Configs, describePushConfig(id, one))
	}
	return list, nil
}

// DeleteTaskPushConfig implements [a2asrv.RequestHandler].
func (h *handlers) DeleteTaskPushConfig(ctx context.Context, req *a2a.DeleteTaskPushConfigRequest) error {
	d := doorOf(ctx)
	id, err := d.findPushTask(ctx, req.TaskID)
	if err != nil {
		return err
	}
	if err := h.configs.Delete(ctx, id, req.ID); err != nil && !errors.Is(err, a2apush.ErrUnknown) {
		return d.describeError(err)
	}
	return nil // deleting is idempotent
}

// A turnEnd notifies the clients once a run has ended and its failure is stored.
type turnEnd struct {
	h *handlers
	// id has no invocation until the message is stored.
	id task.ID
	// run receives the run once.
	run chan *task.Run
}

// newTurnEnd returns nil, which does nothing, for an app that offers no notifications.
func (d *door) newTurnEnd() *turnEnd {
	if d.checkPush() != nil {
		return nil
	}
	return &turnEnd{h: d.h, run: make(chan *task.Run, 1)}
}

func (e *turnEnd) setTask(id task.ID) {
	if e != nil {
		e.id = id
	}
}

func (e *turnEnd) setRun(r *task.Run) {
	if e != nil {
		e.run <- r
	}
}

// notifyClients begins to wait for the run's end; it is called in the run, for which a shutdown waits. A run
// that another replica has taken over is none of this one's.
func (e *turnEnd) notifyClients() {
	if e == nil || e.id.Invocation == "" {
		return
	}
	e.h.startNotifying(e.id, func() bool {
		r := <-e.run
		<-r.Ended()
		failure, ok := errors.AsType[*runtime.RunError](r.Err())
		return !ok || failure.Code != runtime.CodeSessionTaken
	})
}

// observeRun notifies the clients of a task whose run another door has started.
func (h *handlers) observeRun(m runtime.Measurement) {
	if m.Kind == runtime.MeasuredRun && m.Protocol != protocolName && m.Invocation != "" && m.Code != runtime.CodeSessionTaken {
		h.startNotifying(task.ID{Key: m.Session, Invocation: m.Invocation}, nil)
	}
}

// startNotifying notifies a task's clients of its state, in its own goroutine. The invocation may be that of
// an answer. ready waits until the state is stored, and returns false if there is nothing to send; nil for
// a stored state.
func (h *handlers) startNotifying(id task.ID, ready func() bool) {
	app := h.Host().App(id.Key.App)
	if app == nil || h.configs == nil {
		return
	}
	settings := h.readSettings(app)
	if settings == nil || len(settings.pushHosts) == 0 {
		return
	}
	end, ok := h.TrackFollowUp()
	if !ok {
		return
	}
	go func() {
		defer end()
		defer safe.Recover(func(p *safe.Panic) { p.Log(h.Logger(), "notifying an A2A client panicked", "app", id.Key.App) })
		if ready != nil && !ready() {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
		defer cancel()
		if err := h.notifyClients(ctx, id, settings); err != nil && !errors.Is(err, task.ErrUnknown) {
			h.Logger().Warn("notifying an A2A client failed", "app", id.Key.App, "session", id.Key.ID, "error", err)
		}
	}()
}

// notifyClients sends a task's state to the configurations that do not have it.
func (h *handlers) notifyClients(ctx context.Context, id task.ID, settings *Settings) error {
	id, found, err := h.tasks.ReadEnded(ctx, id)
	if err != nil || found.Status == task.Working {
		return err
	}
	last := found.Events[len(found.Events)-1]
	claimed, err := h.configs.Claim(ctx, id, last.Seq, fmt.Sprint(found.Status))
	if err != nil {
		return err
	}
	bodies := map[bool][]byte{}
	for _, config := range claimed {
		if config.Check(settings.pushHosts) != nil {
			continue // the host is not granted any more
		}
		if bodies[config.IsOld] == nil {
			if bodies[config.IsOld], err = encodeNotification(ctx, id, found, config.IsOld); err != nil {
				return err
			}
		}
		n := &a2apush.Notification{
			Config: config, App: id.Key.App, User: id.Key.User, ContentType: "application/a2a+json", Body: bodies[config.IsOld], Client: settings.client,
			IsCurrent: func(ctx context.Context) bool { return h.configs.IsCurrent(ctx, id, config) },
		}
		if config.IsOld {
			n.ContentType = "application/json"
		}
		if end, ok := h.TrackFollowUp(); ok {
			h.sender.Send(h.Stopping(), n, end)
		}
	}
	return nil
}

// encodeNotification returns the body that a client reads: the task, in 1.0 as an item of a stream. Artifacts
// that do not fit are omitted, and then the status message. It has no saved files.
func encodeNotification(ctx context.Context, id task.ID, s *task.State, isOld bool) ([]byte, error) {
	none := 0
	view := newTaskView(id)
	t := view.describeTask(ctx, s, &none, measureFiles(s) <= maxPushBody)
	for {
		var body any = a2a.StreamResponse{Event: t}
		if isOld {
			body = a2av0.FromV1Task(t)
		}
		text, err := json.Marshal(body)
		switch {
		case err != nil || len(text) <= maxPushBody || t.Artifacts == nil && t.Status.Message == nil:
			return text, err
		case t.Artifacts == nil:
			t.Status.Message = nil
		}
		t.Artifacts = nil
	}
}

// measureFiles returns how many bytes of texts and files a task's events have.
func measureFiles(s *task.State) int {
	size := 0
	for _, ev := range s.Events {
		if ev.Content == nil {
			continue
		}
		for _, p := range ev.Content.Parts {
			size += len(p.Text)
			if p.InlineData != nil {
				size += len(p.InlineData.Data)
			}
		}
	}
	return size
}
