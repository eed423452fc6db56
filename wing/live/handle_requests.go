package live

import (
	"context"
	"errors"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
)

// maxPartialBytes limits a turn's partial contents.
const maxPartialBytes = 1 << 20

// receiveRequest handles the client's next request. An invalid one is reported to the client and
// changes nothing.
func (a *liveAgent) receiveRequest(ctx context.Context) {
	request, closed := a.req.Requests.Next()
	a.limiter.recordActivity()
	if request == nil {
		a.closed = closed
		return
	}
	err := a.handleRequest(ctx, request)
	var invalid *runtime.RunError
	switch {
	case err == nil:
	case errors.As(err, &invalid) && (invalid.Code == runtime.CodeInvalidRequest || invalid.Code == runtime.CodeForbidden):
		ev := a.NewEvent() // the error does not end the run, and is not stored
		ev.Partial, ev.ErrorCode, ev.ErrorMessage = true, invalid.Code, invalid.Message
		a.Commit(ev)
	default:
		a.Fail(err)
	}
}

// handleRequest stores and sends a request: its state, then a close, an activity or a blob,
// then its content (adk-python flows/llm_flows/base_llm_flow.py _send_to_model).
func (a *liveAgent) handleRequest(ctx context.Context, r *Request) error {
	if err := a.App().CheckWriter(a.req.Writer, r.StateDelta); err != nil {
		return err
	}
	if runtime.HoldsDecisions(r.Content) {
		// The answer to a request for a confirmation, a credential or input is stored, and the call that
		// waited for it runs.
		batch, err := a.InjectDecisions(ctx, r.Content, r.StateDelta)
		if err == nil && batch != nil {
			a.startCalls(ctx, &liveCalls{CallBatch: batch})
		}
		return err
	}
	if err := a.CheckAnswers(r.Content); err != nil {
		return err
	}
	out, err := Translate(r, a.traits)
	if err != nil {
		return invalidRequest("%s", err)
	}
	if a.partial += out.PartialBytes; a.partial > maxPartialBytes {
		a.partial -= out.PartialBytes
		return invalidRequest("the turn's partial contents exceed the limit of 1 MiB: send a content that is not partial")
	}
	if r.Blob != nil && a.tools.streams.offerMedia(r.Blob) {
		out.Dropped = ""
	}
	if len(out.Responses) > 0 {
		// Unlike adk-python, so that no call stays open in the history.
		out.Content = &genai.Content{Role: genai.RoleUser, Parts: r.Content.Parts}
	}
	if out.Content != nil || len(out.StateDelta) > 0 {
		if err := a.Inject(ctx, out.Content, out.StateDelta); err != nil {
			return err
		}
	}
	if out.Content != nil && len(out.Responses) == 0 {
		a.partial = 0
		a.SetInput(model.TextOf(out.Content))
	}
	for _, frame := range out.Frames {
		if a.recorder != nil && frame.ActivityStart {
			a.recorder.SkipInput()
		} else if a.recorder != nil {
			a.recorder.AddInput(frame.Blob, a.ReadClock())
		}
		a.turnOpen = a.turnOpen || frame.TurnComplete || frame.Text != "" || len(frame.Responses) > 0
		a.out.Push(frame, out.Content != nil && frame.Blob == nil, time.Now())
	}
	a.closed = a.closed || out.Close
	if out.Dropped != "" && !a.reportedMedia {
		a.reportedMedia = true // once: media comes in many chunks
		return invalidRequest("model %s accepts no %s: these blobs are dropped", a.modelName(), out.Dropped)
	}
	return nil
}
