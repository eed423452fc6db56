package openaiserver

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

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
	c := &completion{turn: &turn{h: h, r: r, w: w, model: m, place: p, instructions: instructions, finish: finishStop}, q: q, created: h.Now().Unix()}
	return c.answerMessage(ctx, messages[len(messages)-1])
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
	*turn
	q *completionRequest
	// id has the turn's invocation.
	id      string
	created int64
	// sent and thoughts are what the client has, or gets with the answer.
	sent, thoughts strings.Builder
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
	return c.finishAnswer()
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

// addTexts sends what is new. What different agents write are paragraphs.
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
