package openaiserver

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// instructionsKey is the state key for the clients' instructions during a turn.
const instructionsKey = session.TempPrefix + "client_instructions"

// sessionHeader names the session, for clients that continue it elsewhere.
const sessionHeader = "X-Conversation-Id"

func (h *handlers) handleCompletions(w http.ResponseWriter, r *http.Request) error {
	q, err := h.readCompletion(w, r)
	if err != nil {
		return err
	}
	m, user, err := h.openDoor(r, q.Model, q.User)
	if err != nil {
		return err
	}
	messages, instructions, err := readMessages(q.Messages)
	if err != nil {
		return err
	}
	ctx, end, err := h.StartRun(r.Context(), m.app.Name(), user, false)
	if err != nil {
		return err
	}
	defer end()
	p, err := h.openPlace(ctx, q.nameConversation(r), q, &search{h, m, user, messages})
	if err != nil {
		return server.WithSessionKey(session.Key{App: m.app.Name(), User: user}, err)
	}
	if p.temporary {
		defer h.deleteTemporary(r, p)
	} else {
		w.Header().Set(sessionHeader, p.key.ID)
	}
	c := &completion{h: h, r: r, w: w, q: q, model: m, place: p, created: h.Now().Unix()}
	return c.runTurn(ctx, messages[len(messages)-1], instructions)
}

// openPlace finds or creates a conversation's session; id is the one that the request names.
func (h *handlers) openPlace(ctx context.Context, id string, q *completionRequest, s *search) (*place, error) {
	switch {
	case q.Store != nil && !*q.Store || isErrand(s.messages):
		return s.openTemporary(ctx)
	case id != "":
		return s.openNamed(ctx, id)
	}
	return s.openByTranscript(ctx)
}

// isErrand reports whether a request is one that a chat client makes for itself, such as for a
// conversation's title or tags, which does not belong to the conversation. Open WebUI marks them, and
// LibreChat has a fixed sentence.
func isErrand(messages []*message) bool {
	text := messages[len(messages)-1].text
	return len(messages) == 1 && (strings.HasPrefix(text, "### Task:\n") && strings.Contains(text, "<chat_history>") ||
		strings.Contains(text, "5-word-or-less title for the conversation"))
}

func (h *handlers) deleteTemporary(r *http.Request, p *place) {
	if err := h.Host().Store().Delete(context.WithoutCancel(r.Context()), p.key); err != nil && !errors.Is(err, session.ErrNotFound) {
		h.Logger().WarnContext(r.Context(), "deleting a temporary session failed", "app", p.key.App, "session", p.key.ID, "error", err)
	}
}

// A completion is an answer in progress.
type completion struct {
	h     *handlers
	r     *http.Request
	w     http.ResponseWriter
	q     *completionRequest
	model *model
	place *place
	// id has the turn's invocation.
	id      string
	created int64

	// stream is nil for a complete answer; hasBegun is set with its first chunk.
	stream   *server.Stream
	hasBegun bool
	// sent is the text and the thoughts that the client has, or gets with the answer.
	sent, thoughts strings.Builder
	// streamed is the text in the current message's partial events.
	streamed chunks
	// hasRun is set with the first event, and asks if a call waits for a person.
	hasRun, asks bool
	usage        usage
	finish       string
}

// chunks are what partial events have brought, before the event that repeats it.
type chunks struct{ text, thoughts strings.Builder }

// runTurn runs the turn and writes its answer.
func (c *completion) runTurn(ctx context.Context, m *message, instructions string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if c.q.Stream {
		c.stream = c.h.NewStream(c.w)
		defer c.stream.StartKeepAlive(stop)()
	}
	c.finish = finishStop
	req, repeats, err := c.newRun(ctx, m, instructions)
	switch {
	case err != nil:
		return err
	case repeats != nil:
		c.id = newCompletionID(repeats.Call.ID)
		err = c.addParagraph(repeats.Text)
	default:
		err = protocol.Run(ctx, c.h.Services, req, c.readEvent)
	}
	if err == nil && c.asks {
		err = c.addQuestion(ctx)
	}
	if err != nil {
		return c.failAnswer(err)
	}
	return c.finishAnswer()
}

func newCompletionID(id string) string { return "chatcmpl-" + id }

// newRun returns the turn's request: the message, or the answer that it is to a question. repeats is
// a question that it does not answer.
func (c *completion) newRun(ctx context.Context, m *message, instructions string) (req *runtime.RunRequest, repeats *protocol.Question, err error) {
	content := &genai.Content{Role: genai.RoleUser, Parts: m.parts}
	if len(c.place.questions) > 0 {
		q := c.place.questions[0]
		response, err := q.ReadAnswer(ctx, m.text)
		if errors.Is(err, protocol.ErrNotAnAnswer) {
			return nil, q, nil
		}
		if err != nil {
			return nil, nil, err
		}
		content.Parts = []*genai.Part{{FunctionResponse: &genai.FunctionResponse{ID: q.Call.ID, Name: q.Call.Name, Response: response}}}
	}
	req = &runtime.RunRequest{
		App: c.place.key.App, UserID: c.place.key.User, SessionID: c.place.key.ID, Message: content, Agent: c.model.agent,
		Streaming: &c.q.Stream, Writer: session.WriterClient, Protocol: "openai",
	}
	if instructions != "" && c.model.settings.Instructions {
		req.StateDelta = map[string]any{instructionsKey: instructions}
	}
	return req, nil, nil
}

// readEvent adds what an event has for the client.
func (c *completion) readEvent(ev *session.Event) error {
	if ev.IsFromUser() {
		return nil
	}
	c.hasRun, c.id = true, newCompletionID(ev.InvocationID)
	if err := protocol.ReadFailure(ev); err != nil {
		return err
	}
	text, thoughts := readTexts(ev)
	if ev.Partial {
		c.streamed.text.WriteString(text)
		c.streamed.thoughts.WriteString(thoughts)
		return c.addTexts(text, thoughts)
	}
	c.asks = c.asks || len(ev.LongRunningToolIDs) > 0
	c.usage.addEvent(ev)
	c.finish = readFinish(ev)
	// The event repeats what its partial events have brought.
	text, thoughts = strings.TrimPrefix(text, c.streamed.text.String()), strings.TrimPrefix(thoughts, c.streamed.thoughts.String())
	c.streamed = chunks{}
	return c.addTexts(text, thoughts)
}

// readTexts returns an event's text and thoughts.
func readTexts(ev *session.Event) (text, thoughts string) {
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
		case p.Thought:
			thought.WriteString(p.Text)
		default:
			words.WriteString(p.Text)
		}
	}
	return words.String(), thought.String()
}

// addTexts sends what is new.
func (c *completion) addTexts(text, thoughts string) error {
	if thoughts != "" && c.model.settings.Reasoning {
		c.thoughts.WriteString(thoughts)
		if err := c.sendDelta(&delta{Reasoning: thoughts}); err != nil {
			return err
		}
	}
	if text == "" {
		return nil
	}
	c.sent.WriteString(text)
	return c.sendDelta(&delta{Content: &text})
}

// addParagraph adds text after what the agents have written.
func (c *completion) addParagraph(text string) error {
	if c.sent.Len() > 0 {
		text = "\n\n" + text
	}
	return c.addTexts(text, "")
}

// addQuestion adds the first question that waits, as the answer's last words.
func (c *completion) addQuestion(ctx context.Context) error {
	sess, err := c.h.Host().Store().Sessions.Get(ctx, c.place.key, nil)
	if err != nil {
		return server.WithSessionKey(c.place.key, err)
	}
	if all := protocol.ListQuestions(sess.Events()); len(all) > 0 {
		return c.addParagraph(all[0].Text)
	}
	return nil
}
