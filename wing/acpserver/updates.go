package acpserver

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// An update is a session/update; without empty fields.
type update struct {
	Kind       string         `json:"sessionUpdate"`
	Content    any            `json:"content,omitempty"`
	MessageID  string         `json:"messageId,omitempty"`
	ToolCallID string         `json:"toolCallId,omitempty"`
	Title      string         `json:"title,omitempty"`
	Name       string         `json:"name,omitempty"`
	ToolKind   string         `json:"kind,omitempty"`
	Status     string         `json:"status,omitempty"`
	RawInput   any            `json:"rawInput,omitempty"`
	RawOutput  map[string]any `json:"rawOutput,omitempty"`
	UpdatedAt  string         `json:"updatedAt,omitempty"`
	ModeID     string         `json:"currentModeId,omitempty"`
	Used       *int           `json:"used,omitempty"`
	Size       int            `json:"size,omitempty"`
	Cost       *cost          `json:"cost,omitempty"`
}

// A cost is what a session has cost so far.
type cost struct {
	Amount   float64 `json:"amount"`
	Currency string  `json:"currency"`
}

// The states of a tool call.
const (
	statusPending    = "pending"
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusFailed     = "failed"
)

// toolKinds are the kinds of the host's own tools, by which a client chooses an icon.
var toolKinds = map[string]string{
	"transfer_to_agent": "switch_mode",
	"google_search":     "search",
	"load_memory":       "search",
	"load_web_page":     "fetch",
	"url_context":       "fetch",
	"load_artifacts":    "read",
	"execute_bash":      "execute",
}

// An updater sends events as updates.
type updater struct {
	conn *connection
	id   string
	// texts are what partial events have brought, before the event that repeats it, by its ID.
	texts map[string]*partialText
	calls *sentCalls
	// app returns the app that serves, or nil.
	app func() *runtime.App
	// cost is the session's so far, or nil.
	cost *cost
}

// sentCalls are the tool calls in a session that the client has.
type sentCalls struct {
	mu  sync.Mutex
	ids map[string]bool
}

// hasCall reports whether the client has a call.
func (s *sentCalls) hasCall(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[id]
}

func (s *sentCalls) addCall(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids[id] = true
}

type partialText struct{ text, thoughts strings.Builder }

func (a *agent) newUpdater(id string, calls *sentCalls) *updater {
	app := func() *runtime.App { return a.Host().App(a.opts.App) }
	return &updater{conn: a.conn, id: id, texts: map[string]*partialText{}, calls: calls, app: app}
}

// replayHistory sends a session's history as updates, and the size of its last prompt.
func (u *updater) replayHistory(ctx context.Context, sess *session.Session) error {
	var last *session.Event
	for _, ev := range session.WithoutRewound(sess.Events()) {
		if err := u.replayEvent(ctx, ev); err != nil {
			return err
		}
		if ev.UsageMetadata != nil {
			last = ev
		}
	}
	if last == nil {
		return nil
	}
	u.addCosts(sess.Events())
	return u.sendUsage(ctx, last)
}

// addCosts adds what model calls have cost, also those that were rewound.
func (u *updater) addCosts(events []*session.Event) {
	for _, ev := range events {
		if usd, ok := model.CostOf(&ev.Response); ok {
			if u.cost == nil {
				u.cost = &cost{Currency: "USD"}
			}
			u.cost.Amount += usd
		}
	}
}

// sendUsage sends how much of the model's context the conversation fills after a response, if the size of the
// context is known.
func (u *updater) sendUsage(ctx context.Context, ev *session.Event) error {
	app := u.app()
	if ev.UsageMetadata == nil || app == nil {
		return nil
	}
	size := app.ContextSize(ev.Author)
	if size == 0 {
		return nil
	}
	input, _, output := model.CountTokens(ev.UsageMetadata)
	used := input + output
	return u.sendUpdate(ctx, &update{Kind: "usage_update", Used: &used, Size: size, Cost: u.cost})
}

func (u *updater) replayEvent(ctx context.Context, ev *session.Event) error {
	if !ev.IsFromUser() {
		return u.sendEvent(ctx, ev)
	}
	if ev.Content != nil {
		for _, p := range ev.Content.Parts {
			if b := newBlock(p); b != nil {
				if err := u.sendUpdate(ctx, &update{Kind: "user_message_chunk", Content: b, MessageID: ev.ID}); err != nil {
					return err
				}
			}
		}
	}
	return u.sendResults(ctx, ev)
}

// sendEvent sends what an agent's event has for the client.
func (u *updater) sendEvent(ctx context.Context, ev *session.Event) error {
	if ev.IsFromUser() {
		return nil
	}
	if err := u.sendMessage(ctx, ev); err != nil || ev.Partial {
		return err
	}
	for _, c := range ev.Calls() {
		if runtime.IsRequest(ev, c) {
			continue
		}
		status := statusInProgress
		if slices.Contains(ev.LongRunningToolIDs, c.ID) {
			status = statusPending
		}
		if err := u.sendCall(ctx, c, status); err != nil {
			return err
		}
	}
	return u.sendResults(ctx, ev)
}

// sendMessage sends an event's text, thoughts and media, without what partial events have brought.
func (u *updater) sendMessage(ctx context.Context, ev *session.Event) error {
	sent := u.texts[ev.ID]
	if sent == nil {
		sent = &partialText{}
	}
	if ev.IsPlainResult() {
		return u.sendChunk(ctx, ev.ID, newTextBlock(ev.ResultText()), false)
	}
	if ev.Content == nil {
		return nil
	}
	text, thoughts := sent.text.String(), sent.thoughts.String()
	for _, p := range ev.Content.Parts {
		b := newBlock(p)
		if b == nil {
			continue
		}
		if b.Type == "text" && !ev.Partial {
			rest := &text
			if p.Thought {
				rest = &thoughts
			}
			if b = skipSent(b, rest); b == nil {
				continue
			}
		}
		if err := u.sendChunk(ctx, ev.ID, b, p.Thought); err != nil {
			return err
		}
		if ev.Partial && p.Thought {
			sent.thoughts.WriteString(p.Text)
		} else if ev.Partial {
			sent.text.WriteString(p.Text)
		}
	}
	if ev.Partial {
		u.texts[ev.ID] = sent
	} else {
		delete(u.texts, ev.ID)
	}
	return nil
}

// skipSent returns a block without the text that the client has; nil if it has all of it.
func skipSent(b *contentBlock, sent *string) *contentBlock {
	text := *b.Text
	if rest, ok := strings.CutPrefix(*sent, text); ok {
		*sent = rest
		return nil
	}
	rest := strings.TrimPrefix(text, *sent)
	*sent = ""
	return newTextBlock(rest)
}

func (u *updater) sendChunk(ctx context.Context, message string, b *contentBlock, isThought bool) error {
	kind := "agent_message_chunk"
	if isThought {
		kind = "agent_thought_chunk"
	}
	return u.sendUpdate(ctx, &update{Kind: kind, Content: b, MessageID: message})
}

func (u *updater) sendCall(ctx context.Context, c *genai.FunctionCall, status string) error {
	u.calls.addCall(c.ID)
	up := &update{Kind: "tool_call", ToolCallID: c.ID, Title: c.Name, Name: c.Name, ToolKind: toolKinds[c.Name], Status: status}
	if c.Args != nil {
		up.RawInput = c.Args
	}
	return u.sendUpdate(ctx, up)
}

// sendAnswers sends a person's answers as the results of the calls that the client has.
func (u *updater) sendAnswers(ctx context.Context, message *genai.Content) error {
	ev := &session.Event{Author: session.UserAuthor}
	ev.Content = message
	return u.sendResults(ctx, ev)
}

// sendResults sends an event's results. A person's answer to a runtime request is none: the call that
// it is about has its own.
func (u *updater) sendResults(ctx context.Context, ev *session.Event) error {
	for _, f := range ev.Responses() {
		if !u.calls.hasCall(f.ID) {
			if ev.IsFromUser() {
				continue
			}
			if err := u.sendCall(ctx, &genai.FunctionCall{ID: f.ID, Name: f.Name}, statusInProgress); err != nil {
				return err
			}
		}
		result := &update{Kind: "tool_call_update", ToolCallID: f.ID, Status: statusCompleted, RawOutput: f.Response}
		switch {
		case ev.Actions.RequestedToolConfirmations[f.ID] != nil || ev.Actions.RequestedAuthConfigs[f.ID] != nil:
			result.Status, result.RawOutput = statusPending, nil // the result only reports that the call waits
		case f.Response["isError"] == true || len(f.Response) == 1 && f.Response["error"] != nil:
			result.Status = statusFailed
		}
		if text := describeResult(result.RawOutput); text != "" {
			result.Content = []any{map[string]any{"type": "content", "content": newTextBlock(text)}}
		}
		if err := u.sendUpdate(ctx, result); err != nil {
			return err
		}
	}
	return nil
}

// describeResult returns a result for people: its only value if that is text, otherwise JSON.
func describeResult(response map[string]any) string {
	if len(response) == 0 {
		return ""
	}
	if len(response) == 1 {
		for value := range maps.Values(response) {
			if text, ok := value.(string); ok {
				return text
			}
		}
	}
	text, err := server.EncodeJSON(response)
	if err != nil {
		return ""
	}
	return string(text)
}

func (u *updater) sendUpdate(ctx context.Context, up *update) error {
	return u.conn.sendNotification(ctx, "session/update", map[string]any{"sessionId": u.id, "update": up})
}
