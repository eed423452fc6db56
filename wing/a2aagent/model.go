package a2aagent

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"google.golang.org/genai"

	"agenthost/internal/a2apart"
	"agenthost/internal/limit"
	"agenthost/internal/terminal"
	"agenthost/pkg/connection"
	"agenthost/pkg/model"
	"agenthost/pkg/protocol"
)

const (
	// maxText limits a server's text in an error, in characters.
	maxText = 500
	// cancelWait is how long the server may take to cancel a task.
	cancelWait = 5 * time.Second
	// A task that continues after its stream is read every minPoll at first, and then every maxPoll.
	minPoll = 500 * time.Millisecond
	maxPoll = 10 * time.Second
)

// A remoteModel is a remote agent as a model. It is safe for concurrent use.
type remoteModel struct {
	remote *remote
	// withActions requests ADK's metadata, which has actions.
	withActions bool
}

// Name returns the model's name in traces and costs.
func (m *remoteModel) Name() string { return "a2a/" + m.remote.card.Host }

// Generate sends the message and yields the remote task's answer; see [model.LLM]. If ctx ends, it
// cancels the task.
func (m *remoteModel) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		ctx = withUser(ctx, connection.User{App: req.Origin.App, UserID: req.Origin.UserID})
		if m.remote.timeout > 0 {
			inTime, stop := context.WithTimeoutCause(ctx, m.remote.timeout, fmt.Errorf("the task did not end within %s (timeout)", m.remote.timeout))
			defer stop()
			ctx = inTime
		}
		if m.withActions {
			ctx = a2aclient.AttachServiceParams(ctx, a2aclient.ServiceParams{a2a.SvcParamExtensions: {a2apart.ADKExtension}})
		}
		resp, err := m.runTask(ctx, req, yield)
		switch {
		case errors.Is(err, errStopped):
		case errors.As(err, new(*connection.ConsentError)) && !endsWithConsent(req.Contents):
			yield(&model.Response{Content: genai.NewContentFromFunctionCall(consentToolName, map[string]any{}, genai.RoleModel)}, nil)
		case err != nil:
			yield(nil, m.wrapError(ctx, err))
		default:
			yield(resp, nil)
		}
	}
}

// endsWithConsent reports whether a conversation ends with the consent tool's result: another call of it
// would not help.
func endsWithConsent(contents []*genai.Content) bool {
	if len(contents) == 0 {
		return false
	}
	parts := contents[len(contents)-1].Parts
	last := parts[len(parts)-1].FunctionResponse
	return last != nil && last.Name == consentToolName
}

// errStopped reports that nothing more is to be yielded.
var errStopped = errors.New("stopped")

// wrapError returns an error without the credential.
func (m *remoteModel) wrapError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
		if errors.Is(cause, context.Canceled) {
			return cause
		}
	}
	if exceeded := (*limit.Error)(nil); errors.As(err, &exceeded) {
		err = exceeded
	}
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		err = failed.Err // the address may have a key
	}
	text := terminal.Clean(protocol.TruncateText(m.remote.secrets.RedactString(err.Error()), maxText))
	return errors.New(text)
}

// runTask sends the message, reads the task to its end, and returns the response.
func (m *remoteModel) runTask(ctx context.Context, req *model.Request, yield func(*model.Response, error) bool) (*model.Response, error) {
	message, err := newMessage(req)
	if err != nil {
		return nil, err
	}
	if err := m.remote.connection.Prepare(ctx, connection.User{App: req.Origin.App, UserID: req.Origin.UserID}); err != nil {
		return nil, err
	}
	client, streams, err := m.remote.openClient(ctx)
	if err != nil {
		return nil, err
	}
	r := &answer{}
	if req.Stream {
		r.yield = yield
	}
	defer m.cancelTask(ctx, client, r)
	if message.TaskID != "" {
		r.continued = true
		task, err := client.GetTask(ctx, &a2a.GetTaskRequest{ID: message.TaskID})
		if err == nil {
			err = r.continueTask(task)
		}
		if err != nil {
			m.remote.logger.Debug("reading the task of a remote agent failed", "server", m.remote.card.Host, "task", string(message.TaskID), "error", m.wrapError(ctx, err))
		}
	}
	send := &a2a.SendMessageRequest{Message: message}
	if streams {
		err = r.readStream(client.SendStreamingMessage(ctx, send))
	} else {
		var result a2a.SendMessageResult
		if result, err = client.SendMessage(ctx, send); err == nil {
			err = r.readEvent(result)
		}
	}
	if err == nil {
		err = m.pollTask(ctx, client, r)
	}
	if err != nil {
		return nil, err
	}
	return r.buildResponse(m.withActions, req.Contents)
}

// pollTask reads a task that continues after its stream or its response until it ends or waits.
func (m *remoteModel) pollTask(ctx context.Context, client *a2aclient.Client, r *answer) error {
	for wait := minPoll; r.isWorking(); wait = min(2*wait, maxPoll) {
		if r.task == "" {
			return errors.New("the stream ended without a task")
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		task, err := client.GetTask(ctx, &a2a.GetTaskRequest{ID: r.task})
		if err != nil {
			return err
		}
		if err := r.readEvent(task); err != nil {
			return err
		}
	}
	return nil
}

// cancelTask cancels a task whose answer is not needed any more.
func (m *remoteModel) cancelTask(ctx context.Context, client *a2aclient.Client, r *answer) {
	if r.task == "" || !r.isWorking() {
		return
	}
	inTime, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelWait)
	defer stop()
	if _, err := client.CancelTask(inTime, &a2a.CancelTaskRequest{ID: r.task}); err != nil {
		m.remote.logger.Warn("canceling the task of a remote agent failed", "server", m.remote.card.Host, "task", string(r.task), "error", m.wrapError(inTime, err))
	}
}
