package acpserver

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"google.golang.org/genai"

	"agenthost/internal/safe"
	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// The reasons why a prompt ends.
const (
	stopEndTurn   = "end_turn"
	stopTokens    = "max_tokens"
	stopRequests  = "max_turn_requests"
	stopRefusal   = "refusal"
	stopCancelled = "cancelled"
)

// maxRounds limits the runs in one prompt, each of which answers the last one's questions.
const maxRounds = 32

// A turn is a prompt in progress.
type turn struct {
	a       *agent
	key     session.Key
	mode    string
	content *genai.Content
	updates *updater
	// cancel ends the turn; isCancelled is set if the client has canceled it.
	cancel      context.CancelFunc
	isCancelled atomic.Bool
	// ended is closed after the end.
	ended chan struct{}
	// stop is why the prompt ends.
	stop  string
	usage usage
	// closed are the calls that the person was shown, and has not answered.
	closed map[string]bool
}

// cancelByClient ends the turn. The agent's mu is held.
func (t *turn) cancelByClient() {
	t.isCancelled.Store(true)
	t.cancel()
}

type promptParams struct {
	SessionID *string            `json:"sessionId"`
	Prompt    *[]json.RawMessage `json:"prompt"`
}

type promptResult struct {
	StopReason string         `json:"stopReason"`
	Meta       map[string]any `json:"_meta,omitempty"`
}

// beginPrompt reserves the session, so that a cancellation that follows finds the turn.
func (a *agent) beginPrompt(p *promptParams) (job, error) {
	switch {
	case p.SessionID == nil:
		return nil, newParamsError("sessionId is required")
	case p.Prompt == nil:
		return nil, newParamsError("prompt is required")
	}
	content, err := readPrompt(*p.Prompt)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.sessions[*p.SessionID]
	switch {
	case s == nil:
		return nil, newUnknownSession(*p.SessionID)
	case s.turn != nil:
		return nil, newWireError(codeInvalidRequest, "a prompt is in progress in session %q", protocol.TruncateText(*p.SessionID, maxShown))
	}
	ctx, cancel := context.WithCancel(context.Background())
	t := &turn{
		a: a, key: s.key, mode: s.mode, content: content, updates: a.newUpdater(s.key.ID, s.calls), cancel: cancel,
		ended: make(chan struct{}), stop: stopEndTurn, closed: map[string]bool{},
	}
	s.turn = t
	return func(request context.Context) (any, error) {
		defer context.AfterFunc(request, func() {
			defer safe.Recover(a.conn.logPanic)
			cancel()
		})()
		defer cancel()
		defer close(t.ended)
		defer func() {
			a.mu.Lock()
			s.turn = nil
			a.mu.Unlock()
		}()
		if err := t.runPrompt(ctx); err != nil && ctx.Err() == nil {
			return nil, err
		}
		if ctx.Err() != nil {
			t.stop = stopCancelled
		}
		return &promptResult{t.stop, t.usage.describeTokens()}, nil
	}, nil
}

// runPrompt runs the prompt to its end: the message, and then the answers to its questions.
func (t *turn) runPrompt(ctx context.Context) error {
	req, err := t.newRequest(ctx)
	if req == nil || err != nil {
		return err
	}
	for range maxRounds {
		if err := t.runRequest(ctx, req); err != nil {
			return err
		}
		if t.stop != stopEndTurn {
			return nil
		}
		answers, err := t.askPerson(ctx)
		if answers == nil || err != nil {
			return err
		}
		if err := t.updates.sendAnswers(ctx, answers); err != nil {
			return err
		}
		req.Message, req.StateDelta = answers, nil
	}
	t.stop = stopRequests
	return nil
}

// newRequest returns the run for the message; nil if the message does not answer a question that the
// client could show in words only, which is repeated.
func (t *turn) newRequest(ctx context.Context) (*runtime.RunRequest, error) {
	sess, err := t.a.findSession(ctx, t.key.ID)
	if err != nil {
		return nil, err
	}
	t.updates.addCosts(sess.Events())
	streaming := true
	req := &runtime.RunRequest{
		App: t.key.App, UserID: t.key.User, SessionID: t.key.ID, Message: t.content, Agent: t.findMode(ctx),
		Streaming: &streaming, Writer: session.WriterClient, Protocol: "acp",
	}
	text := readText(t.content)
	if questions := protocol.ListQuestions(sess.Events()); len(questions) > 0 {
		q := questions[0]
		response, err := q.ReadAnswer(ctx, text)
		isApproval := runtime.ReadApproval(q.Call) != nil
		switch {
		case err == nil && (isApproval || !t.canShow(q.Call)):
			req.Message = newAnswers(q.Call, response)
			return req, t.updates.sendAnswers(ctx, req.Message)
		case errors.Is(err, protocol.ErrNotAnAnswer) && !t.canShow(q.Call):
			return nil, t.updates.sendChunk(ctx, "", newTextBlock(q.Text), false)
		case err != nil && !errors.Is(err, protocol.ErrNotAnAnswer):
			return nil, err
		}
	}
	if title := protocol.NewTitle(readFirstText(t.content)); title != "" && protocol.ReadTitle(sess) == "" {
		req.StateDelta = protocol.WithTitle(sess, title)
		return req, t.updates.sendUpdate(ctx, &update{Kind: "session_info_update", Title: title, UpdatedAt: formatTime(t.a.Now())})
	}
	return req, nil
}

func newAnswers(c *genai.FunctionCall, response map[string]any) *genai.Content {
	return &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{ID: c.ID, Name: c.Name, Response: response}}}}
}

// findMode returns the agent that the client has chosen. After a reload without it, the client is
// notified that the root agent answers.
func (t *turn) findMode(ctx context.Context) string {
	if t.mode == "" {
		return ""
	}
	modes := t.a.describeModes(t.mode)
	if modes != nil && modes.Current == t.mode {
		return t.mode
	}
	t.a.mu.Lock()
	if s := t.a.sessions[t.key.ID]; s != nil && s.mode == t.mode {
		s.mode = ""
	}
	t.a.mu.Unlock()
	if app := t.a.Host().App(t.key.App); app != nil {
		_ = t.updates.sendUpdate(ctx, &update{Kind: "current_mode_update", ModeID: app.Root().Name()}) // a failure ends the run's first update, too
	}
	return ""
}

func readText(c *genai.Content) string {
	var all []string
	for _, p := range c.Parts {
		if p.Text != "" {
			all = append(all, p.Text)
		}
	}
	return strings.Join(all, "\n")
}

func readFirstText(c *genai.Content) string {
	for _, p := range c.Parts {
		if p.Text != "" {
			return p.Text
		}
	}
	return ""
}

// runRequest runs the agent once.
func (t *turn) runRequest(ctx context.Context, req *runtime.RunRequest) error {
	run, end, err := t.a.StartRun(ctx, t.key.App, t.key.User, false)
	if err != nil {
		return err
	}
	defer end()
	err = protocol.Run(run, t.a.Services, req, func(ev *session.Event) error { return t.readEvent(ctx, ev) })
	if failed := (*runtime.RunError)(nil); errors.As(err, &failed) && failed.Code == runtime.CodeLLMCallsLimit {
		t.stop = stopRequests
		return t.updates.sendChunk(ctx, "", newTextBlock(failed.Message), false)
	}
	return err
}

// readEvent sends an event, and reads how the turn ends.
func (t *turn) readEvent(ctx context.Context, ev *session.Event) error {
	if err := t.updates.sendEvent(ctx, ev); err != nil {
		return err
	}
	if ev.IsFromUser() || ev.Partial {
		return nil
	}
	t.usage.addEvent(ev)
	t.updates.addCosts([]*session.Event{ev})
	if err := t.updates.sendUsage(ctx, ev); err != nil {
		return err
	}
	t.stop = readStop(ev)
	if t.stop == stopEndTurn {
		return protocol.ReadFailure(ev)
	}
	if ev.ErrorMessage == "" {
		return nil
	}
	return t.updates.sendChunk(ctx, "", newTextBlock(ev.ErrorMessage), false)
}

// filterReasons are the finish reasons with which models refuse.
var filterReasons = []genai.FinishReason{
	genai.FinishReasonSafety, genai.FinishReasonRecitation, genai.FinishReasonBlocklist, genai.FinishReasonProhibitedContent, genai.FinishReasonSPII,
}

// readStop returns why an event ends the turn, if it is the last one.
func readStop(ev *session.Event) string {
	for _, reason := range []genai.FinishReason{ev.FinishReason, genai.FinishReason(ev.ErrorCode)} {
		switch {
		case reason == genai.FinishReasonMaxTokens:
			return stopTokens
		case slices.Contains(filterReasons, reason):
			return stopRefusal
		case string(reason) == runtime.CodeLLMCallsLimit:
			return stopRequests
		}
	}
	return stopEndTurn
}

// A usage counts a prompt's tokens.
type usage struct{ input, output, thoughts, cached int }

func (u *usage) addEvent(ev *session.Event) {
	if m := ev.UsageMetadata; m != nil {
		u.input += int(m.PromptTokenCount + m.ToolUsePromptTokenCount)
		u.output += int(m.CandidatesTokenCount + m.ThoughtsTokenCount)
		u.thoughts += int(m.ThoughtsTokenCount)
		u.cached += int(m.CachedContentTokenCount)
	}
}

// describeTokens returns the usage for the result; nil without.
func (u *usage) describeTokens() map[string]any {
	if *u == (usage{}) {
		return nil
	}
	return map[string]any{"agenthost/usage": map[string]any{
		"inputTokens": u.input, "outputTokens": u.output, "thoughtTokens": u.thoughts, "cachedReadTokens": u.cached, "totalTokens": u.input + u.output,
	}}
}
