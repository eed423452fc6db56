package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/safe"
	"agenthost/internal/textlive"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

const (
	// streamFirstWait is how long a call waits for its first result: one that is there at
	// once is sent before the status that others follow, as in adk-python.
	streamFirstWait = 10 * time.Millisecond
	// streamPause is the least time between a stream's results.
	streamPause = 20 * time.Millisecond
	// streamStopWait is how long stop_streaming waits for a tool to end (adk-python).
	streamStopWait = time.Second
	// maxStreamFailures is how many calls in a row may fail before a stream ends.
	maxStreamFailures = 5
)

var errStreamStopped = errors.New("the model stopped the stream")

// liveStreams are a live conversation's tools that return results repeatedly. Calls start and stop
// them on their own goroutines; the loop receives the results.
type liveStreams struct {
	ctx   context.Context //nolint:containedctx // the conversation's, which owns this value
	items chan *streamItem

	mu   sync.Mutex
	open map[*liveStream]bool
}

// A liveStream is a call to a tool that streams.
type liveStream struct {
	agent  *liveAgent
	tool   tool.Tool
	call   *tool.Call
	traits tool.Capabilities
	tap    *Tap
	cancel context.CancelCauseFunc
	// first is closed when the loop has received the first result, done when the tool has
	// ended.
	first, done chan struct{}
	sent        int
	// last is the last result as JSON.
	last string
}

// A streamItem is a stream's result.
type streamItem struct {
	stream   *liveStream
	response map[string]any
	actions  session.Actions
	// failure ends the run.
	failure error
}

// startStream starts a call's stream, and returns the response to the call.
func (l *liveStreams) startStream(a *liveAgent, t tool.Tool, call *tool.Call, traits tool.Capabilities) *tool.Result {
	ctx, cancel := context.WithCancelCause(l.ctx)
	st := &liveStream{
		agent: a, tool: t, call: call, traits: traits, cancel: cancel,
		first: make(chan struct{}), done: make(chan struct{}), tap: NewTap(traits.Stream.Watch),
	}
	l.mu.Lock()
	l.open[st] = true
	l.mu.Unlock()
	go func() {
		defer l.endStream(st)
		defer safe.Recover(func(p *safe.Panic) {
			p.Log(a.RunLogger(), "tool panicked", "tool", call.Name)
			l.sendItem(ctx, &streamItem{stream: st, response: map[string]any{"error": errPanicked.Error()}})
		})
		l.runStream(ctx, st)
	}()
	wait := time.NewTimer(streamFirstWait)
	defer wait.Stop()
	select {
	case <-st.first:
	case <-st.done:
	case <-wait.C:
	}
	return &tool.Result{Response: map[string]any{"status": textlive.PendingStatus}}
}

func (l *liveStreams) endStream(st *liveStream) {
	st.cancel(nil)
	l.mu.Lock()
	delete(l.open, st)
	l.mu.Unlock()
	close(st.done)
}

// runStream yields a stream's results until it ends.
func (l *liveStreams) runStream(ctx context.Context, st *liveStream) {
	limit := st.traits.Stream.For
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, context.DeadlineExceeded)
		defer cancel()
	}
	if streamer, ok := st.tool.(tool.Streamer); ok && st.traits.Stream.Every == 0 {
		l.runSource(ctx, st, streamer)
	} else {
		l.pollTool(ctx, st)
	}
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		text := fmt.Sprintf("The stream of %s has ended after %s.", st.call.Name, tool.FormatDuration(limit))
		l.sendItem(l.ctx, &streamItem{stream: st, response: map[string]any{"status": text}})
	}
}

// runSource yields results from a tool whose source streams.
func (l *liveStreams) runSource(ctx context.Context, st *liveStream, t tool.Streamer) {
	var actions session.Actions
	call := st.newCall(&actions)
	call.NextMedia = st.tap.Next
	for result, err := range t.Stream(ctx, call) {
		if ctx.Err() != nil {
			return
		}
		item := &streamItem{stream: st, actions: actions}
		actions = session.Actions{} // the loop has the item's
		item.setResult(result, err)
		if !l.sendItem(ctx, item) || err != nil {
			return
		}
	}
}

// pollTool calls a tool again and again, and yields what changes.
func (l *liveStreams) pollTool(ctx context.Context, st *liveStream) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for failures := 0; ; pause.Reset(st.traits.Stream.Every) {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		item, err := st.callOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		failures++
		if err == nil {
			failures = 0
		}
		if failures == maxStreamFailures {
			item.response = map[string]any{"error": fmt.Sprintf("the stream has ended after %d failed calls, the last with: %s", failures, spec.ClientText(err))}
		}
		text := encodeJSON(item.response)
		if text == st.last && !st.traits.Stream.Always && item.failure == nil && failures < maxStreamFailures {
			continue
		}
		st.last = text
		if !l.sendItem(ctx, item) || failures == maxStreamFailures {
			return
		}
	}
}

// callOnce calls the tool once.
func (st *liveStream) callOnce(ctx context.Context) (*streamItem, error) {
	item := &streamItem{stream: st}
	call := st.newCall(&item.actions)
	if st.traits.Stream.Watch != "" {
		media, err := st.tap.Next(ctx)
		if err != nil {
			return item, err
		}
		call.Media = media
	}
	result, err := st.agent.CallTool(ctx, st.tool, call)
	item.setResult(result, err)
	return item, err
}

// newCall returns a call for one result. Each has its own idempotency key and expression budget.
func (st *liveStream) newCall(actions *session.Actions) *tool.Call {
	call := st.agent.NewCall(&genai.FunctionCall{ID: st.call.ID, Name: st.call.Name, Args: st.call.Args}, actions)
	call.IdempotencyKey = fmt.Sprintf("%s/%d", call.IdempotencyKey, st.sent)
	st.sent++
	return call
}

// setResult sets the response to the model.
func (i *streamItem) setResult(result *tool.Result, err error) {
	var args *tool.ArgsError
	switch {
	case err != nil && i.stream.traits.FailOnError && !errors.As(err, &args):
		i.failure = newRunError(runtime.CodeToolFailed, err, "tool %s of agent %s failed: %s", i.stream.call.Name, i.stream.agent.Agent().Name(), err)
	case err != nil:
		i.response = tool.ErrorResponse(err)
	case result == nil || result.Response == nil:
		i.response = map[string]any{"result": nil}
	default:
		i.response = result.Response
	}
}

// sendItem gives a result to the loop. It returns false when the stream has ended.
func (l *liveStreams) sendItem(ctx context.Context, item *streamItem) bool {
	select {
	case l.items <- item:
	case <-ctx.Done():
		return false
	}
	st := item.stream
	select {
	case <-st.first:
	default:
		close(st.first)
		return true
	}
	pause := time.NewTimer(streamPause)
	defer pause.Stop()
	select {
	case <-pause.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// offerMedia gives what the user has sent to the tools that watch it, and reports whether
// there are any.
func (l *liveStreams) offerMedia(b *genai.Blob) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	watched := false
	for st := range l.open {
		if st.traits.Stream.Watch != "" {
			st.tap.Offer(b)
			watched = true
		}
	}
	return watched
}

// countOpen counts the open streams.
func (l *liveStreams) countOpen() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// cancelStreams cancels the streams for which match returns true, and returns them.
func (l *liveStreams) cancelStreams(match func(*liveStream) bool, cause error) []*liveStream {
	l.mu.Lock()
	defer l.mu.Unlock()
	var canceled []*liveStream
	for st := range l.open {
		if match(st) {
			st.cancel(cause)
			canceled = append(canceled, st)
		}
	}
	return canceled
}

// stopStreams runs stop_streaming for a tool's streams (adk-python flows/llm_flows/functions.py
// _process_function_live_helper).
func (l *liveStreams) stopStreams(ctx context.Context, name string) *tool.Result {
	status := func(format string) *tool.Result {
		return &tool.Result{Response: map[string]any{"status": fmt.Sprintf(format, name)}}
	}
	stopped := l.cancelStreams(func(st *liveStream) bool { return st.call.Name == name }, errStreamStopped)
	if len(stopped) == 0 {
		return status("No active streaming function named %s found")
	}
	limit := time.NewTimer(streamStopWait)
	defer limit.Stop()
	for _, st := range stopped {
		select {
		case <-st.done:
		case <-ctx.Done():
		case <-limit.C:
			return status("The task is not cancelled yet for %s.")
		}
	}
	return status("Successfully stopped streaming function %s")
}

// interceptCall answers the calls that only live conversations treat differently. It returns nil
// for all others.
func (a *liveAgent) interceptCall(ctx context.Context, t tool.Tool, call *tool.Call) *tool.Result {
	streams := a.tools.streams
	if name, ok := call.Args["function_name"].(string); ok && call.Name == tool.StopStreaming {
		return streams.stopStreams(ctx, name)
	}
	if traits := tool.CapabilitiesOf(t); traits.Stream != nil {
		return streams.startStream(a, t, call, traits)
	}
	return nil
}

// receiveItem sends a stream's result to the model. Only the state and the artifacts that the tool
// has written are stored.
func (a *liveAgent) receiveItem(ctx context.Context, item *streamItem) {
	if item.failure != nil {
		a.Fail(item.failure)
		return
	}
	if written := item.actions; len(written.StateDelta)+len(written.StateUpdates)+len(written.ArtifactDelta) > 0 {
		ev := a.NewEvent()
		ev.Actions.StateDelta, ev.Actions.StateUpdates, ev.Actions.ArtifactDelta = written.StateDelta, written.StateUpdates, written.ArtifactDelta
		if !a.Commit(ev) {
			return
		}
	}
	call := item.stream.call
	response := &genai.FunctionResponse{ID: call.ID, Name: call.Name, Response: item.response, Scheduling: a.schedulingOf(call.Name)}
	if a.traits.NoAsyncCalls || !a.isOpenCall(call.ID) {
		a.sendText(fmt.Sprintf("Function %s returned: %s", call.Name, encodeJSON(item.response)))
		return
	}
	a.pushResponses(response)
}

// schedulingOf returns when the model receives a tool's responses.
func (a *liveAgent) schedulingOf(name string) genai.FunctionResponseScheduling {
	t := a.FindTool(name)
	if t == nil || a.traits.NoAsyncCalls {
		return ""
	}
	return tool.CapabilitiesOf(t).Scheduling
}

// addStopStreaming adds the tool that stops streams, in this run only. adk-python requires
// apps to declare it.
func (a *liveAgent) addStopStreaming() error {
	streams := slices.ContainsFunc(a.ListTools(), func(t tool.Tool) bool { return tool.CapabilitiesOf(t).Stream != nil })
	if !streams || a.FindTool(tool.StopStreaming) != nil || a.LacksStopStreaming() {
		return nil
	}
	type args struct {
		FunctionName string `json:"function_name"`
	}
	stop, err := declare.Func(tool.StopStreaming, "Stops a function that returns results repeatedly.", func(_ context.Context, _ *tool.Call, in args) (string, error) {
		return "No active streaming function named " + in.FunctionName + " found", nil
	})
	if err != nil {
		return err
	}
	a.AddTool(stop)
	return nil
}

// markAsync marks the functions that the model need not wait for.
func (a *liveAgent) markAsync(tools []*genai.Tool) []*genai.Tool {
	marked := make([]*genai.Tool, len(tools))
	for i, one := range tools {
		marked[i] = one
		decls := make([]*genai.FunctionDeclaration, len(one.FunctionDeclarations))
		changed := false
		for j, d := range one.FunctionDeclarations {
			decls[j] = d
			if t := a.FindTool(d.Name); t != nil && isAsync(tool.CapabilitiesOf(t)) {
				async := *d
				async.Behavior = genai.BehaviorNonBlocking
				decls[j], changed = &async, true
			}
		}
		if changed {
			with := *one
			with.FunctionDeclarations = decls
			marked[i] = &with
		}
	}
	return marked
}

func isAsync(traits tool.Capabilities) bool { return traits.Stream != nil || traits.Scheduling != "" }
