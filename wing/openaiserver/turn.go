package openaiserver

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// instructionsKey is the state key for the clients' instructions during a turn.
const instructionsKey = session.TempPrefix + "client_instructions"

// A turn is a run for one request.
type turn struct {
	h            *handlers
	r            *http.Request
	w            http.ResponseWriter
	model        *model
	place        *place
	instructions string
	// tools are the client's.
	tools []tool.Tool
	// stream is nil for a complete answer.
	stream *server.Stream
	// partial is what partial events have brought, before the event that repeats it.
	partial struct{ text, thoughts strings.Builder }
	// hasRun is set with the first event, and asks if a call waits for a person.
	hasRun, asks bool
	usage        usage
	finish       string
	// endedAt is the time of the last event.
	endedAt time.Time
	// maxToolCalls limits the app's tool calls in the turn; 0 means unlimited.
	maxToolCalls int
	// hadTools is set for a stored turn whose client brought tools, and isBackground for one that continues
	// without its request.
	hadTools, isBackground bool
	// isFollowed is set for one in the background that is streamed.
	isFollowed bool
	// isNamed is set for a turn whose request named its conversation.
	isNamed bool
}

// An answerWriter writes a turn's answer.
type answerWriter interface {
	// beginTurn is called with the invocation, before anything else.
	beginTurn(invocation string) error
	// addTexts adds to the current message; either may be empty.
	addTexts(text, thoughts string) error
	// addAudio adds what an agent has spoken.
	addAudio(b *genai.Blob)
	// endMessage is called after each complete message.
	endMessage() error
	// addCall adds a call of a client's tool.
	addCall(c *genai.FunctionCall, arguments string) error
}

// readAnswer returns the content for the run: the message, or the answer that it is to a question.
// repeats is a question that it does not answer.
func (t *turn) readAnswer(ctx context.Context, m *message) (content *genai.Content, repeats *protocol.Question, err error) {
	content = &genai.Content{Role: genai.RoleUser, Parts: m.listParts()}
	answers := false
	for _, p := range m.listParts() {
		if f := p.FunctionResponse; f != nil {
			c := t.place.calls[f.ID]
			if c == nil || protocol.NewQuestion(c) != nil {
				return nil, nil, newClosedCall(f.ID)
			}
			f.Name, answers = c.Name, true
		}
	}
	if answers || len(t.place.questions) == 0 {
		return content, nil, nil
	}
	q := t.place.questions[0]
	response, err := q.ReadAnswer(ctx, strings.Clone(m.text))
	if errors.Is(err, protocol.ErrNotAnAnswer) {
		return nil, q, nil
	}
	content.Parts = []*genai.Part{{FunctionResponse: &genai.FunctionResponse{ID: q.Call.ID, Name: q.Call.Name, Response: response}}}
	return content, nil, err
}

// runTurn runs the turn to its end.
func (t *turn) runTurn(ctx context.Context, content *genai.Content, out answerWriter) error {
	return protocol.Run(ctx, t.h.Services, t.newRun(content), func(ev *session.Event) error { return t.readEvent(ev, out) })
}

func (t *turn) newRun(content *genai.Content) *runtime.RunRequest {
	streaming := t.stream != nil || t.isFollowed
	req := &runtime.RunRequest{
		App: t.place.key.App, UserID: t.place.key.User, SessionID: t.place.key.ID, Message: content, Agent: t.model.agent,
		Streaming: &streaming, Writer: session.WriterClient, Protocol: "openai", Tools: t.tools,
	}
	req.MaxToolCalls, req.CustomMetadata = t.maxToolCalls, t.describeTurn()
	if t.instructions != "" && t.model.settings.Instructions {
		req.StateDelta = map[string]any{instructionsKey: t.instructions}
	}
	return req
}

// turnKey is the key for what a request has set for its turn, in the metadata that its events have, so that
// every replica that reads or resumes the response has it.
const (
	turnKey        = "openai"
	toolLimitKey   = "max_tool_calls"
	clientToolsKey = "client_tools"
	backgroundKey  = "background"
	namedKey       = "conversation"
)

// describeTurn returns the metadata for the turn's events; nil for a usual one.
func (t *turn) describeTurn() map[string]any {
	set := map[string]any{}
	if t.maxToolCalls > 0 {
		set[toolLimitKey] = t.maxToolCalls
	}
	if len(t.tools) > 0 || t.hadTools {
		set[clientToolsKey] = true
	}
	if t.isBackground {
		set[backgroundKey] = true
	}
	if t.isNamed {
		set[namedKey] = true
	}
	if len(set) == 0 {
		return nil
	}
	return map[string]any{turnKey: set}
}

// readTurn reads what describeTurn has stored with an event.
func (t *turn) readTurn(ev *session.Event) {
	set, _ := ev.CustomMetadata[turnKey].(map[string]any)
	t.hadTools, t.isBackground, t.isNamed = set[clientToolsKey] == true, set[backgroundKey] == true, set[namedKey] == true
	switch n := set[toolLimitKey].(type) {
	case int:
		t.maxToolCalls = n
	case int64:
		t.maxToolCalls = int(n)
	case float64:
		t.maxToolCalls = int(n)
	}
}

// isOverLimit reports whether an error ended a turn at its limit on tool calls, which is its finish then.
func (t *turn) isOverLimit(err error) bool {
	failed := (*server.Error)(nil)
	if t.maxToolCalls == 0 || !errors.As(err, &failed) || failed.Code != runtime.CodeToolCallsLimit {
		return false
	}
	t.finish = finishToolLimit
	return true
}

// readEvent writes what an event has for the client.
func (t *turn) readEvent(ev *session.Event, out answerWriter) error {
	if ev.IsFromUser() {
		return nil
	}
	if !t.hasRun {
		t.hasRun = true
		if err := out.beginTurn(ev.InvocationID); err != nil {
			return err
		}
	}
	if err := protocol.ReadFailure(ev); err != nil {
		return err
	}
	text, thoughts := t.readTexts(ev)
	if ev.Partial {
		t.partial.text.WriteString(text)
		t.partial.thoughts.WriteString(thoughts)
		return out.addTexts(text, thoughts)
	}
	t.asks, t.endedAt = t.asks || len(ev.LongRunningToolIDs) > 0, ev.Timestamp
	t.usage.addEvent(ev)
	if t.finish != finishCalls { // results of the app's own tools may follow the calls
		t.finish = readFinish(ev)
	}
	text, thoughts = strings.TrimPrefix(text, t.partial.text.String()), strings.TrimPrefix(thoughts, t.partial.thoughts.String())
	t.partial.text.Reset()
	t.partial.thoughts.Reset()
	if err := out.addTexts(text, thoughts); err != nil {
		return err
	}
	for _, b := range listAudio(ev) {
		out.addAudio(b)
	}
	if err := out.endMessage(); err != nil {
		return err
	}
	return t.readCalls(ev, out)
}

// readCalls writes the calls of the client's tools.
func (t *turn) readCalls(ev *session.Event, out answerWriter) error {
	for _, c := range ev.Calls() {
		if !t.isClientCall(ev, c) {
			continue
		}
		args, err := server.EncodeJSON(c.Args)
		if err != nil {
			return err
		}
		if c.Args == nil {
			args = []byte("{}")
		}
		t.finish = finishCalls
		if err := out.addCall(c, string(args)); err != nil {
			return err
		}
	}
	return nil
}

// isClientCall reports whether an event's call is for a client's tool. A stored turn has only the calls:
// those that wait, and that neither a person answers nor the agent's own tools.
func (t *turn) isClientCall(ev *session.Event, c *genai.FunctionCall) bool {
	isNamed := func(one tool.Tool) bool { return one.Declaration().Name == c.Name }
	switch {
	case ev.Provenance.Imported:
		return true
	case !slices.Contains(ev.LongRunningToolIDs, c.ID):
		return false
	case len(t.tools) > 0 || !t.hadTools:
		return slices.ContainsFunc(t.tools, isNamed)
	}
	agent := t.model.app.AgentInfo().Find(ev.Author)
	isOwn := func(one runtime.ToolInfo) bool { return one.Declaration != nil && one.Declaration.Name == c.Name }
	return protocol.NewQuestion(c) == nil && agent != nil && !slices.ContainsFunc(agent.Tools, isOwn) && t.model.app.Agent(c.Name) == nil
}

// readTexts returns an event's text, and its thoughts if the app sends them.
func (t *turn) readTexts(ev *session.Event) (text, thoughts string) {
	if ev.IsPlainResult() {
		return ev.ResultText(), ""
	}
	if ev.Content == nil {
		return "", ""
	}
	var words, thought strings.Builder
	for _, p := range ev.Content.Parts {
		switch {
		case p == nil:
		case p.Thought && t.model.settings.Reasoning:
			thought.WriteString(p.Text)
		case !p.Thought:
			words.WriteString(p.Text)
		}
	}
	return words.String(), thought.String()
}

// listQuestions returns the questions that wait after the turn.
func (t *turn) listQuestions(ctx context.Context) ([]*protocol.Question, error) {
	sess, err := t.h.Host().Store().Sessions.Get(ctx, t.place.key, nil)
	if err != nil {
		return nil, server.WithSessionKey(t.place.key, err)
	}
	return protocol.ListQuestions(sess.Events()), nil
}

// The reasons why an answer ends.
const (
	finishStop   = "stop"
	finishLength = "length"
	finishFilter = "content_filter"
	finishCalls  = "tool_calls"
	// finishToolLimit is the reason of an incomplete response, and in no completion.
	finishToolLimit = "max_tool_calls"
)

func readFinish(ev *session.Event) string {
	switch ev.FinishReason {
	case genai.FinishReasonMaxTokens:
		return finishLength
	case genai.FinishReasonSafety, genai.FinishReasonRecitation, genai.FinishReasonBlocklist, genai.FinishReasonProhibitedContent, genai.FinishReasonSPII:
		return finishFilter
	}
	return finishStop
}

// A usage counts a turn's tokens.
type usage struct {
	Prompt           int           `json:"prompt_tokens"`
	Completion       int           `json:"completion_tokens"`
	Total            int           `json:"total_tokens"`
	PromptDetail     promptDetail  `json:"prompt_tokens_details"`
	CompletionDetail completionSum `json:"completion_tokens_details"`
}

type promptDetail struct {
	Cached int `json:"cached_tokens"`
}

type completionSum struct {
	Reasoning int `json:"reasoning_tokens"`
}

func (u *usage) addEvent(ev *session.Event) {
	m := ev.UsageMetadata
	if m == nil {
		return
	}
	u.Prompt += int(m.PromptTokenCount + m.ToolUsePromptTokenCount)
	u.Completion += int(m.CandidatesTokenCount + m.ThoughtsTokenCount)
	u.PromptDetail.Cached += int(m.CachedContentTokenCount)
	u.CompletionDetail.Reasoning += int(m.ThoughtsTokenCount)
	u.Total = u.Prompt + u.Completion
}
