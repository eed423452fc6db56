package chatpage

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/limit"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// A spoken conversation takes a WebSocket: the microphone's audio goes to the model, and frames as
// in a stream come back, with the answers' audio. Browsers can send no headers with it. So the
// page offers its token, or the guest's secret, as a subprotocol, and the server selects another one.

// Subprotocols in the handshake.
const (
	guestOffer  = "guest."
	bearerOffer = "bearer."
)

func (h *handlers) handleVoice(w http.ResponseWriter, r *http.Request) error {
	v, err := h.openDoor(readOffers(r))
	if err != nil {
		return err
	}
	if !v.chat.Voice {
		return errNotFound
	}
	if _, err := h.Host().Store().Sessions.Get(r.Context(), v.key, nil); err != nil {
		return h.plainError(r, v.key, err)
	}
	t := &talk{outlook: &outlook{chat: v.chat}, open: map[captionKind]string{}}
	return h.RunTalk(w, r, &server.Talk{
		Key: v.key, Protocol: "chat", WriteEvent: t.writeEvent, ExplainFrame: explainFrame, ExplainEnd: explainEnd,
		ReadFrame: func(ctx context.Context, text []byte) (*genai.Content, []byte, error) {
			return h.readTalkFrame(ctx, v, text)
		},
	})
}

// readOffers returns the request with the headers that the handshake's subprotocols have.
func readOffers(r *http.Request) *http.Request {
	r = r.Clone(r.Context())
	for _, line := range r.Header.Values("Sec-Websocket-Protocol") {
		for offer := range strings.SplitSeq(line, ",") {
			offer = strings.TrimSpace(offer)
			if secret, ok := strings.CutPrefix(offer, guestOffer); ok {
				r.Header.Set(guestHeader, secret)
			}
			if encoded, ok := strings.CutPrefix(offer, bearerOffer); ok {
				if token, err := base64.RawURLEncoding.DecodeString(encoded); err == nil {
					r.Header.Set("Authorization", "Bearer "+string(token))
				}
			}
		}
	}
	return r
}

// A talkFrame is a text frame from the page that is not a live request.
type talkFrame struct {
	Text   *string        `json:"text"`
	Answer *answerRequest `json:"answer"`
}

// takenFrame is the reply to an answer.
var takenFrame = []byte(`{"taken":true}`)

// readTalkFrame returns a message's or an answer's content, and the reply to it; nil for other frames.
func (h *handlers) readTalkFrame(ctx context.Context, v *visit, text []byte) (content *genai.Content, reply []byte, err error) {
	var f talkFrame
	if limit.LiveRequest.CheckValues(text) != nil || json.Unmarshal(text, &f) != nil {
		return nil, nil, errInvalidFrame
	}
	switch {
	case f.Text != nil:
		content, err = (&messageRequest{Text: *f.Text}).readMessage(v.chat)
		return content, nil, err
	case f.Answer != nil:
		sess, err := h.Host().Store().Sessions.Get(ctx, v.key, nil)
		if err != nil {
			return nil, nil, err
		}
		content, err = f.Answer.buildResponse(ctx, sess.Events())
		return content, takenFrame, err
	}
	return nil, nil, nil
}

var errInvalidFrame = server.NewError(http.StatusUnprocessableEntity, "a frame must be a JSON object")

// explainFrame returns the frame for a rejected one. The conversation continues.
func explainFrame(err error) []byte {
	kind := "answer"
	if own := (*server.Error)(nil); errors.As(err, &own) && own.Status != http.StatusUnprocessableEntity {
		kind = kindOf(own.Status)
	}
	if errors.Is(err, errAnswered) {
		kind = "closed"
	}
	text, _ := json.Marshal(map[string]string{"rejected": kind})
	return text
}

// explainEnd returns the failure kind for a conversation's end.
func explainEnd(err error) string {
	switch runtime.AsRunError(err).Code {
	case runtime.CodeSessionBusy:
		return failedBusy
	case runtime.CodeSessionNotFound:
		return failedMissing
	case runtime.CodeLiveLimit:
		return failedTime
	}
	if own := (*server.Error)(nil); errors.As(err, &own) {
		return kindOf(own.Status)
	}
	return failedOther
}

// A spokenFrame is a frame in a spoken conversation.
type spokenFrame struct {
	frame
	// From is the speaker of Delta: user or app.
	From string `json:"from,omitempty"`
	// Audio is a chunk to play.
	Audio *sound `json:"audio,omitempty"`
	// Interrupted reports that the user speaks, and TurnComplete that an answer has ended.
	Interrupted  bool `json:"interrupted,omitempty"`
	TurnComplete bool `json:"turnComplete,omitempty"`
}

// A sound is audio in a frame.
type sound struct {
	Type string `json:"mimeType"`
	// Data is base64 in JSON.
	Data []byte `json:"data"`
}

// A captionKind is what grows with its chunks, each of which has an ID of its own.
type captionKind string

const (
	captionUser   captionKind = "user"
	captionAnswer captionKind = "answer"
	captionText   captionKind = "text"
)

// A talk writes a spoken conversation's frames. open has the IDs under which captions have begun.
type talk struct {
	*outlook
	open map[captionKind]string
}

// writeEvent returns an event's frames as JSON.
func (t *talk) writeEvent(ev *session.Event) [][]byte {
	var all [][]byte
	for _, f := range t.listFrames(ev) {
		if text, err := json.Marshal(f); err == nil { // strings, numbers and bytes: it has no error
			all = append(all, text)
		}
	}
	return all
}

func (t *talk) listFrames(ev *session.Event) []spokenFrame {
	all, ev := splitSounds(ev)
	kind := kindOfCaption(ev)
	switch {
	case ev.Partial && ev.ErrorMessage != "": // a request was rejected, and the conversation continues
	case ev.Partial:
		all = append(all, t.listChunks(ev, kind)...)
	default:
		for _, f := range t.readFrames(ev) {
			if f.Message != nil && kind != "" {
				f.ID = t.open[kind]
				delete(t.open, kind)
			}
			if f != (frame{At: f.At}) {
				all = append(all, spokenFrame{frame: f})
			}
		}
	}
	if ev.Interrupted || ev.TurnComplete {
		all = append(all, spokenFrame{Interrupted: ev.Interrupted, TurnComplete: ev.TurnComplete})
	}
	return all
}

// splitSounds returns the frames for the audio in an event, and the event without it: audio is
// played, and not stored.
func splitSounds(ev *session.Event) ([]spokenFrame, *session.Event) {
	if ev.Content == nil {
		return nil, ev
	}
	var sounds []spokenFrame
	silent := *ev.Content
	silent.Parts = nil
	for _, p := range ev.Content.Parts {
		if p != nil && p.InlineData != nil && strings.HasPrefix(p.InlineData.MIMEType, "audio/") {
			sounds = append(sounds, spokenFrame{Audio: &sound{p.InlineData.MIMEType, p.InlineData.Data}})
			continue
		}
		silent.Parts = append(silent.Parts, p)
	}
	if sounds == nil {
		return nil, ev
	}
	rest := *ev
	rest.Content = &silent
	return sounds, &rest
}

func kindOfCaption(ev *session.Event) captionKind {
	switch {
	case ev.InputTranscription != nil:
		return captionUser
	case ev.OutputTranscription != nil:
		return captionAnswer
	case ev.Text() != "":
		return captionText
	}
	return ""
}

// listChunks returns the frames for a partial event: a caption's or an answer's next words.
func (t *talk) listChunks(ev *session.Event, kind captionKind) []spokenFrame {
	from, words := fromApp, ""
	switch kind {
	case captionUser:
		from, words = fromUser, ev.InputTranscription.Text
	case captionAnswer:
		words = ev.OutputTranscription.Text
	}
	var all []spokenFrame
	if words != "" {
		all = append(all, spokenFrame{frame: frame{ID: ev.ID, Delta: words}, From: from})
	} else {
		for _, f := range t.readChunk(ev) {
			all = append(all, spokenFrame{frame: f, From: fromApp})
		}
	}
	for i := range all {
		if all[i].Delta != "" {
			t.open[kind] = cmp.Or(t.open[kind], ev.ID)
			all[i].ID = t.open[kind]
		}
	}
	return all
}
