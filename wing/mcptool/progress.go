package mcptool

import (
	"context"
	"fmt"
	"iter"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/internal/safe"
	"agenthost/pkg/tool"
)

// maxProgress is how many notifications wait for a reader; the oldest are dropped.
const maxProgress = 16

// addCall returns a token for a call, and its progress.
func (h *progressHub) addCall() (token string, progress <-chan *mcp.ProgressNotificationParams, leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count++
	token = "call-" + strconv.Itoa(h.count)
	updates := make(chan *mcp.ProgressNotificationParams, maxProgress)
	if h.calls == nil {
		h.calls = map[string]chan *mcp.ProgressNotificationParams{}
	}
	h.calls[token] = updates
	return token, updates, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.calls, token)
	}
}

// receiveProgress is the handler for notifications. Those with another token are ignored.
func (h *progressHub) receiveProgress(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
	token, _ := req.Params.ProgressToken.(string)
	h.mu.Lock()
	defer h.mu.Unlock()
	updates := h.calls[token]
	if updates == nil {
		return
	}
	if len(updates) == cap(updates) {
		<-updates
	}
	updates <- req.Params
}

var _ tool.Streamer = (*serverTool)(nil)

// Stream returns the progress that the server reports during a call, as {"progress": …,
// "total": …, "message": …} without what is missing, and then the result; see
// [tool.Streamer].
func (t *serverTool) Stream(ctx context.Context, call *tool.Call) iter.Seq2[*tool.Result, error] {
	return func(yield func(*tool.Result, error) bool) {
		call, err := t.CheckCall(ctx, call)
		if err != nil {
			yield(nil, err)
			return
		}
		l, release, err := t.set.acquireLink(ctx, call)
		if err != nil {
			yield(nil, fmt.Errorf("tool %s: %w", t.Declaration().Name, err))
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		token, progress, leave := l.progress.addCall()
		defer leave()
		type outcome struct {
			result *tool.Result
			err    error
		}
		ended := make(chan outcome, 1)
		go func() {
			defer safe.Recover(func(p *safe.Panic) { ended <- outcome{err: p} })
			defer release()
			result, err := t.callServer(ctx, l, call, token, callQuestions{})
			ended <- outcome{result, err}
		}()
		for {
			select {
			case p := <-progress:
				if !yield(l.newProgressResult(p), nil) {
					return
				}
			case end := <-ended:
				for len(progress) > 0 {
					if !yield(l.newProgressResult(<-progress), nil) {
						return
					}
				}
				yield(end.result, end.err)
				return
			}
		}
	}
}

func (l *link) newProgressResult(p *mcp.ProgressNotificationParams) *tool.Result {
	response := map[string]any{"progress": p.Progress}
	if p.Total != 0 {
		response["total"] = p.Total
	}
	if p.Message != "" {
		response["message"] = l.cleanText(p.Message)
	}
	return &tool.Result{Response: response}
}
