package openaiserver

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// sessionHeader names the session, for clients that continue it elsewhere.
const sessionHeader = "X-Conversation-Id"

func (h *handlers) handleCompletions(w http.ResponseWriter, r *http.Request) error {
	c, s, err := h.openCompletion(w, r)
	if err != nil {
		return err
	}
	ctx, end, err := h.StartRun(r.Context(), s.model.app.Name(), s.user, false)
	if err != nil {
		return err
	}
	defer end()
	if c.place, err = h.openPlace(ctx, c.q.nameConversation(r), c.q, s); err != nil {
		return server.WithSessionKey(session.Key{App: s.model.app.Name(), User: s.user}, err)
	}
	if c.place.temporary {
		defer h.deleteTemporary(r, c.place)
	} else {
		w.Header().Set(sessionHeader, c.place.key.ID)
	}
	last := s.messages[len(s.messages)-1] // the run does not need the others
	return c.answerMessage(ctx, &last)
}

// openCompletion reads a request. The search finds its conversation.
func (h *handlers) openCompletion(w http.ResponseWriter, r *http.Request) (*completion, *search, error) {
	q, err := h.readCompletion(w, r)
	if err != nil {
		return nil, nil, err
	}
	m, user, err := h.openDoor(r, q.Model, q.User)
	if err != nil {
		return nil, nil, err
	}
	messages, instructions, err := readMessages(q.Messages)
	if err != nil {
		return nil, nil, err
	}
	q.Messages = nil // the run does not need the body
	tools, err := m.readTools(q.Tools, q.ToolChoice)
	if err != nil {
		return nil, nil, err
	}
	t := &turn{h: h, r: r, w: w, model: m, instructions: instructions, tools: tools, finish: finishStop}
	return &completion{turn: t, q: q, created: h.Now().Unix()}, &search{h: h, model: m, user: user, messages: messages, instructions: instructions}, nil
}

// openPlace finds or creates a conversation's session; id is the one that the request names.
func (h *handlers) openPlace(ctx context.Context, id string, q *completionRequest, s *search) (*place, error) {
	switch {
	case q.Store != nil && !*q.Store || isErrand(s.messages, s.instructions):
		return s.openTemporary(ctx)
	case id != "":
		return s.openNamed(ctx, id)
	}
	return s.openByTranscript(ctx)
}

// Open WebUI's and LibreChat's requests for themselves have fixed sentences. They begin the only message,
// or, for the choice of a tool, the instructions.
const (
	taskPrefix    = "### Task:\n"
	historyMark   = "<chat_history>"
	toolPrefix    = "Available Tools: "
	toolMark      = "Your task is to choose and return the correct tool(s) from the list of available tools based on the query."
	titleSentence = "5-word-or-less title for the conversation"
)

var errandPrefixes = []string{
	"Analyze this conversation and provide:\n1. The detected language of the conversation\n",
	"Your task is to reflect the speaker's likely facial expression through a fitting emoji.",
	"You have been provided with a set of responses from various models to the latest user query: ",
}

// isErrand reports whether a request is one that a chat client makes for itself, such as for a
// conversation's title or tags, which does not belong to the conversation.
func isErrand(messages []message, instructions string) bool {
	if len(messages) != 1 {
		return false
	}
	text := messages[0].text
	begins := func(prefix string) bool { return strings.HasPrefix(text, prefix) }
	return begins(taskPrefix) && strings.Contains(text, historyMark) || strings.Contains(text, titleSentence) ||
		slices.ContainsFunc(errandPrefixes, begins) || strings.HasPrefix(instructions, toolPrefix) && strings.Contains(instructions, toolMark)
}

func (h *handlers) deleteTemporary(r *http.Request, p *place) {
	if err := h.Host().DeleteSession(context.WithoutCancel(r.Context()), p.key); err != nil && !errors.Is(err, session.ErrNotFound) {
		h.Logger().WarnContext(r.Context(), "deleting a temporary session failed", "app", p.key.App, "session", p.key.ID, "error", err)
	}
}

// A completion is an answer in progress.
type completion struct {
	*turn
	q *completionRequest
	// id has the turn's invocation.
	id      string
	created int64
	// sent and thoughts are what the client has, or gets with the answer.
	sent, thoughts strings.Builder
	// calls are those of the client's tools.
	calls []toolCall
	// audio is what the agents have spoken, for a client that accepts it.
	audio []*genai.Blob
	// breaks is set if a paragraph ends before the next text.
	breaks bool
	// hasBegun is set with the first chunk.
	hasBegun bool
}

// answerMessage runs the turn and writes its answer.
func (c *completion) answerMessage(ctx context.Context, m *message) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if c.q.Stream {
		c.stream = c.h.NewStream(c.w)
		defer c.stream.StartKeepAlive(stop)()
	}
	content, repeats, err := c.readAnswer(ctx, m)
	switch {
	case err != nil:
		return err
	case repeats != nil:
		c.id = newCompletionID(repeats.Call.ID)
		err = c.addTexts(repeats.Text, "")
	default:
		err = c.runTurn(ctx, content, c)
	}
	if err == nil && c.asks {
		err = c.addQuestion(ctx)
	}
	if err != nil {
		return c.failAnswer(err)
	}
	audio, err := c.buildAudio()
	if err != nil {
		return c.failAnswer(err)
	}
	return c.finishAnswer(audio)
}

func newCompletionID(id string) string { return "chatcmpl-" + id }

func (c *completion) beginTurn(invocation string) error {
	c.id = newCompletionID(invocation)
	return nil
}

func (c *completion) endMessage() error {
	c.breaks = c.sent.Len() > 0
	return nil
}

func (c *completion) addAudio(b *genai.Blob) {
	if c.q.acceptsAudio() {
		c.audio = append(c.audio, b)
	}
}

func (c *completion) addCall(call *genai.FunctionCall, arguments string) error {
	index := len(c.calls)
	c.calls = append(c.calls, toolCall{ID: call.ID, Type: "function", Function: callFunction{call.Name, arguments}})
	err := c.sendDelta(&delta{ToolCalls: []toolCall{{Index: &index, ID: call.ID, Type: "function", Function: callFunction{Name: call.Name}}}})
	if err != nil {
		return err
	}
	return c.sendDelta(&delta{ToolCalls: []toolCall{{Index: &index, Function: callFunction{Arguments: arguments}}}})
}

// addTexts sends what is new. Each message is a paragraph.
func (c *completion) addTexts(text, thoughts string) error {
	if thoughts != "" {
		c.thoughts.WriteString(thoughts)
		if err := c.sendDelta(&delta{Reasoning: thoughts}); err != nil {
			return err
		}
	}
	if text == "" {
		return nil
	}
	if c.breaks {
		text, c.breaks = "\n\n"+text, false
	}
	c.sent.WriteString(text)
	return c.sendDelta(&delta{Content: &text})
}

// addQuestion adds the first question that waits, as the answer's last words.
func (c *completion) addQuestion(ctx context.Context) error {
	all, err := c.listQuestions(ctx)
	if err != nil || len(all) == 0 {
		return err
	}
	c.breaks = c.sent.Len() > 0
	return c.addTexts(all[0].Text, "")
}

// A delta is what a chunk adds to the answer.
type delta struct {
	Role      string       `json:"role,omitempty"`
	Content   *string      `json:"content,omitempty"`
	Reasoning string       `json:"reasoning_content,omitempty"`
	ToolCalls []toolCall   `json:"tool_calls,omitempty"`
	Audio     *answerAudio `json:"audio,omitempty"`
}

type chunkChoice struct {
	Index    int     `json:"index"`
	Delta    *delta  `json:"delta"`
	Logprobs any     `json:"logprobs"`
	Finish   *string `json:"finish_reason"`
}

// A chunk is a stream's event. Its keys and their order are OpenAI's.
type chunk struct {
	ID      string        `json:"id"`
	Object  string        `json:"object"`
	Created int64         `json:"created"`
	Model   string        `json:"model"`
	Choices []chunkChoice `json:"choices"`
	Usage   *usage        `json:"usage,omitempty"`
}

func (c *completion) newChunk(choices ...chunkChoice) *chunk {
	return &chunk{ID: c.id, Object: "chat.completion.chunk", Created: c.created, Model: c.model.id, Choices: choices}
}

// sendDelta streams a chunk; the first one has the role. A complete answer sends nothing.
func (c *completion) sendDelta(d *delta) error {
	if c.stream == nil {
		return nil
	}
	if !c.hasBegun {
		c.hasBegun = true
		empty := ""
		if err := c.stream.SendJSON(c.newChunk(chunkChoice{Delta: &delta{Role: roleAssistant, Content: &empty}})); err != nil {
			return err
		}
	}
	return c.stream.SendJSON(c.newChunk(chunkChoice{Delta: d}))
}

type answerMessage struct {
	Role      string       `json:"role"`
	Content   *string      `json:"content"`
	Refusal   any          `json:"refusal"`
	Reasoning string       `json:"reasoning_content,omitempty"`
	ToolCalls []toolCall   `json:"tool_calls,omitempty"`
	Audio     *answerAudio `json:"audio,omitempty"`
}

type answerChoice struct {
	Index    int           `json:"index"`
	Message  answerMessage `json:"message"`
	Logprobs any           `json:"logprobs"`
	Finish   string        `json:"finish_reason"`
}

// An answerObject is a complete answer.
type answerObject struct {
	ID      string         `json:"id"`
	Object  string         `json:"object"`
	Created int64          `json:"created"`
	Model   string         `json:"model"`
	Choices []answerChoice `json:"choices"`
	Usage   usage          `json:"usage"`
}

// unlimitedAudio is how long audio can be referred to in a session that does not expire.
const unlimitedAudio = 365 * 24 * time.Hour

// buildAudio returns the answer's audio; nil without.
func (c *completion) buildAudio() (*answerAudio, error) {
	if len(c.audio) == 0 {
		return nil, nil
	}
	data, err := encodeAudio(c.audio, c.q.Audio.Format)
	if err != nil {
		return nil, err
	}
	kept := c.model.app.Retention()
	if kept == 0 {
		kept = unlimitedAudio
	}
	words := c.sent.String()
	return &answerAudio{newAudioID(words), base64.StdEncoding.EncodeToString(data), c.h.Now().Add(kept).Unix(), words}, nil
}

// finishAnswer completes the answer.
func (c *completion) finishAnswer(audio *answerAudio) error {
	if c.stream == nil {
		m := answerMessage{Role: roleAssistant, Reasoning: c.thoughts.String(), ToolCalls: c.calls, Audio: audio}
		if text := c.sent.String(); text != "" || len(c.calls) == 0 {
			m.Content = &text
		}
		return server.WriteJSON(c.w, &answerObject{
			ID: c.id, Object: "chat.completion", Created: c.created, Model: c.model.id, Usage: c.usage,
			Choices: []answerChoice{{Message: m, Finish: c.finish}},
		})
	}
	if audio != nil && c.sendDelta(&delta{Audio: audio}) != nil {
		return nil // the client has disconnected
	}
	last := chunkChoice{Delta: &delta{}, Finish: &c.finish}
	if !c.hasBegun {
		empty := ""
		last.Delta = &delta{Role: roleAssistant, Content: &empty}
	}
	if c.stream.SendJSON(c.newChunk(last)) != nil {
		return nil // the client has disconnected
	}
	if c.q.StreamOptions != nil && c.q.StreamOptions.IncludeUsage {
		sum := c.newChunk()
		sum.Choices, sum.Usage = []chunkChoice{}, &c.usage
		_ = c.stream.SendJSON(sum)
	}
	_ = c.stream.SendText("", []byte("[DONE]"))
	return nil
}

// retryHeader stops OpenAI's clients from repeating a request that has failed: it would be another
// turn.
const retryHeader = "X-Should-Retry"

// failAnswer ends the answer with an error: the response, if nothing was streamed, or the last event.
func (c *completion) failAnswer(err error) error {
	if c.hasRun {
		c.w.Header().Set(retryHeader, "false")
	}
	if c.stream == nil || !c.stream.HasStarted() {
		return err
	}
	body, _ := c.h.describeError(c.r, err)
	_ = c.stream.SendJSON(body)
	return nil
}
