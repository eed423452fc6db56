package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"
)

const (
	// livePatience is how long a user waits for an answer before repeating the turn.
	livePatience = 3 * time.Second
	// liveSocketPause is the time between two sockets of a client.
	liveSocketPause = 50 * time.Millisecond
	// liveTalkLimit bounds one conversation.
	liveTalkLimit = time.Minute
)

// A liveTalk is a conversation of a client with the agent. After the end of a socket the
// client opens another one, reads the session, and continues.
type liveTalk struct {
	*client   // for the REST routes
	socketURL string
	turns     []*liveTurn

	// more adds a turn after the last one; nil ends the conversation. naive repeats a turn on
	// each socket without reading the session, as a control.
	more  func() bool
	naive bool

	received  []string // IDs that must be stored
	sockets   int
	spoken    int // turns that the user repeated by voice
	typed     int // turns that the user repeated as text
	next      int // the turn's index
	printLine func(format string, values ...any)
}

// errTalkBroken is the end of a socket.
var errTalkBroken = errors.New("the socket has ended")

// createSession creates the session, whose instruction has its name.
func (t *liveTalk) createSession(ctx context.Context) error {
	body, err := t.sendRequest(ctx, http.MethodPost, "/apps/"+t.app+"/users/"+t.user+"/sessions/"+t.session, map[string]any{"conversation": t.session})
	if err != nil {
		return err
	}
	return body.Close()
}

// runTalk holds the conversation until all turns are answered.
func (t *liveTalk) runTalk(ctx context.Context) error {
	if t.more == nil {
		limited, cancel := context.WithTimeout(ctx, liveTalkLimit)
		defer cancel()
		ctx = limited
	}
	var err error
	for t.hasNext() {
		if err = t.useSocket(ctx); err != nil && ctx.Err() != nil {
			return fmt.Errorf("%s %s: %w", t.app, t.session, err)
		}
		if t.next < len(t.turns) && waitFor(ctx, liveSocketPause) != nil {
			return fmt.Errorf("%s %s: no answer to turn %d: %w", t.app, t.session, t.next, err)
		}
	}
	return nil
}

// hasNext reports whether a turn is left.
func (t *liveTalk) hasNext() bool {
	return t.next < len(t.turns) || t.more != nil && t.more() && t.next < len(t.turns)
}

// A liveSocketEvent is an event, or reports that the socket has ended.
type liveSocketEvent struct {
	event liveEvent
	err   error
}

// useSocket continues the conversation on a new socket.
func (t *liveTalk) useSocket(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	query := url.Values{"app_name": {t.app}, "user_id": {t.user}, "session_id": {t.session}, "session_resumption_handle": {"latest"}}
	socket, _, err := websocket.Dial(ctx, t.socketURL+"/run_live?"+query.Encode(), nil)
	if err != nil {
		return fmt.Errorf("%w: %w", errTalkBroken, err)
	}
	t.sockets++
	socket.SetReadLimit(maxProxiedFrame)
	events := make(chan liveSocketEvent, 64)
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		readLiveEvents(ctx, socket, events)
	}()
	defer func() { <-reading }()
	defer cancel()
	s := &liveSession{liveTalk: t, socket: socket, events: events}
	if err := s.continueTurns(ctx); err != nil {
		_ = socket.CloseNow()
		return err
	}
	return socket.Close(websocket.StatusNormalClosure, "")
}

func readLiveEvents(ctx context.Context, socket *websocket.Conn, events chan<- liveSocketEvent) {
	for {
		var e liveSocketEvent
		_, text, err := socket.Read(ctx)
		if err == nil {
			err = json.Unmarshal(text, &e.event)
		}
		e.err = err
		select {
		case events <- e:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// A liveSession is a conversation on one socket.
type liveSession struct {
	*liveTalk
	socket *websocket.Conn
	events <-chan liveSocketEvent
	// answered and completed report that the current turn has its answer, and its end;
	// begun that the model speaks.
	answered, completed, begun bool
}

// continueTurns waits until the run reads requests, finds out what the session has, and
// takes the remaining turns.
func (s *liveSession) continueTurns(ctx context.Context) error {
	if err := s.awaitRun(ctx); err != nil {
		return err
	}
	stored, err := s.readLiveEvents(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errTalkBroken, err)
	}
	waits := false
	for ; s.next < len(s.turns); s.next++ {
		t := s.turns[s.next]
		if !t.isOver(stored) {
			waits = t.isStored(stored) && !s.naive
			break
		}
	}
	for s.hasNext() {
		if err := s.runTurn(ctx, s.turns[s.next], waits); err != nil {
			return err
		}
		waits = false
		s.next++
	}
	return nil
}

// isOver reports whether nothing is left to do for a turn.
func (t *liveTurn) isOver(events []liveEvent) bool {
	for _, tag := range t.listTags() {
		for i := range events {
			if events[i].isAnswer(tag) || t.kind == turnWait && events[i].isInput(t.kind, tag) {
				return true
			}
		}
	}
	return false
}

// isStored reports whether the turn's last attempt is stored.
func (t *liveTurn) isStored(events []liveEvent) bool {
	if t.attempts == 0 {
		return false
	}
	for i := range events {
		if events[i].isInput(t.kind, t.lastTag()) {
			return true
		}
	}
	return false
}

func (t *liveTurn) lastTag() string { return fmt.Sprintf("%s.%d", t.name, t.attempts) }

// awaitRun sends a state and waits until it is stored: then the run has the session.
func (s *liveSession) awaitRun(ctx context.Context) error {
	if err := s.sendRequestFrame(ctx, map[string]any{"state_delta": map[string]any{"socket": s.sockets}}); err != nil {
		return err
	}
	deadline := time.Now().Add(livePatience)
	for time.Now().Before(deadline) {
		if err := s.receivePending(); err != nil {
			return err
		}
		var session struct{ State struct{ Socket int } }
		if err := s.getJSON(ctx, "/apps/"+s.app+"/users/"+s.user+"/sessions/"+s.session, &session); err != nil {
			return fmt.Errorf("%w: %w", errTalkBroken, err)
		}
		if session.State.Socket == s.sockets {
			return nil
		}
		if err := waitFor(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: the run reads no requests", errTalkBroken)
}

// receivePending handles the events that have arrived.
func (s *liveSession) receivePending() error {
	for {
		select {
		case e := <-s.events:
			if err := s.receiveEvent(e); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (s *liveSession) receiveEvent(e liveSocketEvent) error {
	if e.err != nil {
		return fmt.Errorf("%w: %w", errTalkBroken, e.err)
	}
	ev := &e.event
	if ev.ErrorCode != "" {
		return fmt.Errorf("%w: %s: %s", errTalkBroken, ev.ErrorCode, ev.ErrorMessage)
	}
	if ev.isStored() {
		s.received = append(s.received, ev.ID)
	}
	if s.next >= len(s.turns) {
		return nil
	}
	for _, tag := range s.turns[s.next].listTags() {
		s.answered = s.answered || ev.isAnswer(tag)
		s.begun = s.begun || strings.Contains(ev.OutputTranscription.Text, tag)
	}
	s.completed = s.answered && (s.completed || ev.TurnComplete)
	return nil
}

// runTurn sends the next turn, unless it is stored already, and waits for the answer. A user without an
// answer repeats the turn.
func (s *liveSession) runTurn(ctx context.Context, t *liveTurn, stored bool) error {
	s.answered, s.completed, s.begun = false, false, false
	if !stored {
		// Text that is not stored was lost on its way; of audio, a part may have arrived.
		if t.kind == turnAudio || t.attempts == 0 {
			t.attempts++
		}
		if err := s.sendTurn(ctx, t); err != nil {
			return err
		}
	}
	patience := time.NewTimer(livePatience)
	defer patience.Stop()
	for {
		if s.completed || t.kind == turnWait && s.begun {
			return nil
		}
		select {
		case e := <-s.events:
			if err := s.receiveEvent(e); err != nil {
				return err
			}
		case <-patience.C:
			if s.answered {
				return nil
			}
			s.countRepeated(t)
			t.attempts++
			if err := s.sendTurn(ctx, t); err != nil {
				return err
			}
			patience.Reset(livePatience)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// countRepeated counts a turn that has no answer.
func (s *liveSession) countRepeated(t *liveTurn) {
	if t.kind == turnAudio {
		s.spoken++
		return
	}
	s.typed++
	s.printLine("%s %s: no answer to %s %s", s.app, s.session, t.kind, t.lastTag())
}

// sendTurn sends a turn's last attempt.
func (s *liveSession) sendTurn(ctx context.Context, t *liveTurn) error {
	if t.kind != turnAudio {
		return s.sendRequestFrame(ctx, map[string]any{"content": map[string]any{"role": "user", "parts": []any{map[string]any{"text": t.kind + " " + t.lastTag()}}}})
	}
	// The tag comes in two chunks, each with whole samples.
	audio := fmt.Sprintf("%-64s", t.lastTag())
	for _, chunk := range []string{audio[:8], audio[8:]} {
		data := base64.StdEncoding.EncodeToString([]byte(chunk))
		if err := s.sendRequestFrame(ctx, map[string]any{"blob": map[string]any{"mime_type": "audio/pcm;rate=16000", "data": data}}); err != nil {
			return err
		}
	}
	return s.sendRequestFrame(ctx, map[string]any{"audio_stream_end": true})
}

func (s *liveSession) sendRequestFrame(ctx context.Context, request any) error {
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if err := s.socket.Write(ctx, websocket.MessageText, text); err != nil {
		return fmt.Errorf("%w: %w", errTalkBroken, err)
	}
	return nil
}

// readLiveEvents reads the session's stored events.
func (t *liveTalk) readLiveEvents(ctx context.Context) ([]liveEvent, error) {
	var s struct{ Events []liveEvent }
	err := t.getJSON(ctx, "/apps/"+t.app+"/users/"+t.user+"/sessions/"+t.session, &s)
	return s.Events, err
}
