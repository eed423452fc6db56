package openaiserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"google.golang.org/genai"

	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// A conversation without an ID is found by its messages. The session that a request creates
// has an ID that follows from the request's messages. A later request in the conversation begins
// with the same messages, so that the ID can be computed from each beginning, on any replica
// and without an index:
//
//	[hello]                         creates chat-h(hello)
//	[hello, hi, weather?]           continues chat-h(hello), whose transcript is hello, hi
//	[hello, hi, news?]              an edit: forks chat-h(hello) after hi
//	[hello]                         again: another session, chat-h(hello)-1
//
// If no session has the transcript, the messages become a new one's history. Invariant: the
// model reads the conversation that the client has sent, no message twice, and nothing else.

// A place is the session that a request continues.
type place struct {
	key session.Key
	// questions wait in the session for an answer, the oldest first.
	questions []*protocol.Question
	// calls are the open ones by their IDs.
	calls map[string]*genai.FunctionCall
	// invocation is the session's last one; empty for a new session.
	invocation string
	// temporary sessions are deleted after the turn.
	temporary bool
}

func newPlace(sess *session.Session) *place {
	p := &place{key: sess.Key}
	events := sess.Events()
	for _, ev := range slices.Backward(events) {
		if !ev.IsFromUser() || ev.Content != nil { // not only a change of the state
			p.invocation = ev.InvocationID
			break
		}
	}
	waits := func(ev *session.Event) bool { return len(ev.LongRunningToolIDs) > 0 }
	if !slices.ContainsFunc(events, waits) {
		return p
	}
	p.calls = map[string]*genai.FunctionCall{}
	for _, waiting := range runtime.Pending(session.Recorded(events)) {
		for _, c := range waiting.Calls {
			p.calls[c.ID] = c
			if q := protocol.NewQuestion(c); q != nil {
				p.questions = append(p.questions, q)
			}
		}
	}
	return p
}

const (
	idPrefix = "chat-"
	// sessionDigest is the length of the digest that follows the prefix, in bytes.
	sessionDigest = 16
	// maxNamesakes limits the sessions whose conversations begin with the same messages and that are
	// compared.
	maxNamesakes = 8
	// maxBeginnings limits the beginnings whose sessions are searched, and maxCompared the sessions that
	// a request reads.
	maxBeginnings = 16
	maxCompared   = 20
)

// conversationHeaders name a conversation's session.
var conversationHeaders = []string{"X-Conversation-Id", "X-Session-Id", "X-OpenWebUI-Chat-Id"}

// nameConversation returns the session ID that a request names; empty without one.
func (q *completionRequest) nameConversation(r *http.Request) string {
	for _, name := range conversationHeaders {
		if id := strings.TrimSpace(r.Header.Get(name)); id != "" {
			return id
		}
	}
	id, _ := q.Metadata["session_id"].(string)
	return strings.TrimSpace(id)
}

// A search finds a conversation's session.
type search struct {
	h        *handlers
	model    *model
	user     string
	messages []message
	// instructions are the client's.
	instructions string
	// compared counts the sessions that were read.
	compared int
}

// openNamed returns the session with an ID, which is created if it does not exist. If the messages
// are an earlier part, the user has edited a message or expects another answer: the rest
// is undone. Other messages, such as only the last one, change nothing.
func (s *search) openNamed(ctx context.Context, id string) (*place, error) {
	key := s.newKey(id)
	sessions := s.h.Host().Store().Sessions
	sess, err := sessions.Get(ctx, key, nil)
	if errors.Is(err, session.ErrNotFound) {
		return s.createSession(ctx, key)
	}
	if err != nil {
		return nil, err
	}
	req := s.findEdit(sess)
	if req == nil {
		return newPlace(sess), nil
	}
	req.App, req.UserID, req.SessionID, req.Writer = key.App, key.User, key.ID, session.WriterClient
	for _, err := range s.h.Host().Rewind(ctx, req) {
		if err != nil {
			return nil, err
		}
	}
	if sess, err = sessions.Get(ctx, key, nil); err != nil {
		return nil, err
	}
	return newPlace(sess), nil
}

// findEdit returns what undoes the lines that the messages do not have; nil unless the messages are an earlier
// part of the session.
func (s *search) findEdit(sess *session.Session) *runtime.RewindRequest {
	earlier, last := s.splitMessages()
	if len(earlier) == 0 && countMessages(sess.Events()) != 1 {
		return nil
	}
	t := newTranscript(sess.Events())
	event, isBeginning := t.matchMessages(earlier)
	next, hasMore := t.readLine()
	switch {
	case !isBeginning || !hasMore:
		return nil
	case len(earlier) > 0:
		return &runtime.RewindRequest{AfterEventID: event}
	}
	_, hasAnswer := t.readLine()
	_, isLonger := t.readLine()
	if !hasAnswer || isLonger || !isSameText(next.text, last.text) {
		return nil
	}
	return &runtime.RewindRequest{BeforeInvocationID: next.invocation}
}

// splitMessages returns the messages before the last one, and the last one.
func (s *search) splitMessages() (earlier []message, last *message) {
	n := len(s.messages) - 1
	return s.messages[:n], &s.messages[n]
}

// countMessages counts the user's messages.
func countMessages(events []*session.Event) (n int) {
	for _, ev := range events {
		if ev.IsFromUser() && ev.Content != nil {
			n++
		}
	}
	return n
}

func (s *search) newKey(id string) session.Key {
	return session.Key{App: s.model.app.Name(), User: s.user, ID: id}
}

// openTemporary creates a session for one turn.
func (s *search) openTemporary(ctx context.Context) (*place, error) {
	p, err := s.createSession(ctx, s.newKey(idPrefix+uuid.NewString()))
	if err == nil {
		p.temporary = true
	}
	return p, err
}

// openByTranscript returns the session whose transcript is the messages before the last one.
func (s *search) openByTranscript(ctx context.Context) (*place, error) {
	earlier, _ := s.splitMessages()
	if first := slices.IndexFunc(earlier, func(m message) bool { return m.role == roleUser }); first >= 0 {
		// Most conversations are in the session of their first message.
		p, err := s.tryNamesakes(ctx, hashBeginnings(earlier[:first+1])[0])
		if p != nil || err != nil {
			return p, err
		}
	}
	for _, beginning := range slices.Backward(listLatest(hashBeginnings(earlier))) { // after an edit, the latest have most messages
		p, err := s.tryNamesakes(ctx, beginning)
		if p != nil || err != nil {
			return p, err
		}
	}
	id := s.nameWhole()
	for i := range maxNamesakes {
		p, err := s.createSession(ctx, s.newKey(nameNumber(id, i)))
		if !errors.Is(err, session.ErrExists) {
			return p, err
		}
	}
	return s.createSession(ctx, s.newKey(id+"-"+uuid.NewString()))
}

// listLatest returns the latest beginnings after the first one.
func listLatest(all []beginning) []beginning {
	return all[min(len(all), max(1, len(all)-maxBeginnings+2)):]
}

func nameNumber(id string, i int) string {
	if i == 0 {
		return id
	}
	return fmt.Sprintf("%s-%d", id, i)
}

// A beginning is the digest of a conversation's messages up to one of the user's.
type beginning [sessionDigest]byte

// nameSession returns the ID that the session of a conversation with the messages has.
func (b *beginning) nameSession() string { return idPrefix + hex.EncodeToString(b[:]) }

// nameWhole returns the session ID for the conversation with all its messages.
func (s *search) nameWhole() string {
	all := hashBeginnings(s.messages)
	return all[len(all)-1].nameSession()
}

// hashBeginnings returns the beginnings that end with each of the user's messages.
func hashBeginnings(messages []message) []beginning {
	sum := sha256.New()
	var all []beginning
	var text []byte
	var digest [sha256.Size]byte
	for i := range messages {
		m := &messages[i]
		text = append(append(strconv.AppendInt(text[:0], int64(len(m.role)), 10), ':'), m.role...)
		text = append(append(strconv.AppendInt(text, int64(len(m.text)), 10), ':'), normalizeText(m.text)...)
		sum.Write(append(text, digestFiles(m.parts)...))
		if m.role == roleUser {
			all = append(all, beginning(sum.Sum(digest[:0])))
		}
	}
	return all
}

// tryNamesakes returns the place after the earlier messages in the sessions of a beginning; nil if none
// has them.
func (s *search) tryNamesakes(ctx context.Context, b beginning) (*place, error) {
	earlier, _ := s.splitMessages()
	id := b.nameSession()
	for i := range maxNamesakes {
		if s.compared++; s.compared > maxCompared {
			return nil, nil
		}
		key := s.newKey(nameNumber(id, i))
		sess, err := s.h.Host().Store().Sessions.Get(ctx, key, nil)
		if errors.Is(err, session.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		t := newTranscript(sess.Events())
		last, isBeginning := t.matchMessages(earlier)
		if !isBeginning {
			continue
		}
		if _, hasMore := t.readLine(); hasMore {
			return s.forkSession(ctx, key, last, s.nameWhole())
		}
		return newPlace(sess), nil
	}
	return nil, nil
}

// forkSession continues a conversation at an earlier place, in another session; id is the first one to
// try for it.
func (s *search) forkSession(ctx context.Context, from session.Key, event, id string) (*place, error) {
	req := &runtime.ForkRequest{App: from.App, UserID: from.User, SessionID: from.ID, AfterEventID: event, Writer: session.WriterClient}
	for i := range maxNamesakes + 1 {
		req.NewSessionID = nameNumber(id, i)
		if i == maxNamesakes {
			req.NewSessionID = id + "-" + uuid.NewString()
		}
		fork, err := s.h.Host().Fork(ctx, req)
		if err == nil {
			return newPlace(fork), nil
		}
		if !errors.Is(err, session.ErrExists) {
			return nil, server.WithSessionKey(from, err)
		}
	}
	return nil, server.WithSessionKey(from, session.ErrExists)
}

// createSession creates a session whose history is the earlier messages. They are imported: models read
// them, and nothing else relies on them. It fails with ErrExists if the ID is in use.
func (s *search) createSession(ctx context.Context, key session.Key) (*place, error) {
	sessions := s.h.Host().Store().Sessions
	earlier, last := s.splitMessages()
	if id := last.answeredCall(); id != "" { // only a session has open calls
		return nil, newClosedCall(id)
	}
	history, err := readHistory(earlier)
	if err == nil {
		err = protocol.CreateSession(ctx, sessions, key, s.model.app.Root().Name(), history)
	}
	if err != nil {
		return nil, err
	}
	return &place{key: key}, nil
}

// readHistory returns messages as contents.
func readHistory(messages []message) ([]*genai.Content, error) {
	history := make([]*genai.Content, len(messages))
	for i := range messages {
		m := &messages[i]
		if len(m.listParts()) == 0 {
			return nil, newRefusal("messages", "audio id %q is not that of an answer in a stored conversation", protocol.TruncateText(m.audio, maxShown))
		}
		history[i] = &genai.Content{Role: genai.RoleUser, Parts: m.parts}
		if m.role == roleAssistant {
			history[i].Role = genai.RoleModel
		}
	}
	err := protocol.NameResponses(history)
	if closed := (*protocol.ClosedCallError)(nil); errors.As(err, &closed) {
		return nil, newClosedCall(closed.ID)
	}
	return history, err
}

// A line is what one side has written in a session.
type line struct {
	role, text string
	// files are the digests of what came with the text.
	files string
	// results are those of clients' tools by their calls.
	results map[string]map[string]any
	// isAnswer marks a user's line that answers a question: its words are not kept.
	isAnswer bool
	// question is the one that the line ends with.
	question string
	// event is the line's last event, and invocation its first one's.
	event, invocation string
}

// A transcript reads what a client has seen in a session, line by line.
type transcript struct {
	// events are those that it has not read.
	events []*session.Event
	// open are the questions without an answer, the oldest first. A turn ends with the first one.
	open []*protocol.Question
}

func newTranscript(events []*session.Event) *transcript {
	return &transcript{events: session.WithoutRewound(events)}
}

// readLine returns the next line, which has the events of one side that follow each other; false after the
// last one.
func (t *transcript) readLine() (l line, ok bool) {
	for ; len(t.events) > 0; t.events = t.events[1:] {
		ev := t.events[0]
		switch {
		case ev.Partial || ev.Actions.Compaction != nil:
		case !ev.IsFromUser():
			isVisible := ev.ResultText() != "" || len(ev.LongRunningToolIDs) > 0 || len(listAudio(ev)) > 0
			if isVisible && l.role == roleUser {
				return l, true
			}
			t.addQuestions(ev)
			if isVisible || l.role == roleAssistant {
				l.addEvent(roleAssistant, ev.ResultText(), ev)
			}
		case ev.Content != nil:
			if l.role == roleAssistant {
				t.endTurn(&l)
				return l, true
			}
			t.addMessage(&l, ev)
		}
	}
	t.endTurn(&l)
	return l, l.role != ""
}

func (t *transcript) addQuestions(ev *session.Event) {
	for _, c := range ev.Calls() {
		if q := protocol.NewQuestion(c); q != nil {
			t.open = append(t.open, q)
		}
	}
}

// addMessage adds a user's event to a line.
func (t *transcript) addMessage(l *line, ev *session.Event) {
	responses := ev.Responses()
	if len(responses) == 0 {
		l.addEvent(roleUser, ev.Text(), ev)
		l.files += digestFiles(ev.Content.Parts)
		return
	}
	l.addEvent(roleUser, "", ev)
	l.isAnswer, l.results = true, map[string]map[string]any{}
	for _, f := range responses {
		l.results[f.ID] = f.Response
		t.open = slices.DeleteFunc(t.open, func(q *protocol.Question) bool { return q.Call.ID == f.ID })
	}
}

// endTurn adds the question that the turn ends with to its line.
func (t *transcript) endTurn(l *line) {
	if l.role == roleAssistant && len(t.open) > 0 {
		l.question = t.open[0].Text
		l.text = strings.TrimSpace(l.text + "\n\n" + l.question)
	}
}

func (l *line) addEvent(role, text string, ev *session.Event) {
	if l.role == "" {
		l.role, l.invocation = role, ev.InvocationID
	}
	if l.text != "" {
		text = l.text + "\n\n" + text
	}
	l.text, l.event = strings.TrimSpace(text), ev.ID
}

// matchMessages reads the lines that messages repeat, and returns the last one's event; false if the
// messages are not the beginning. A question that was repeated, because the answer did not fit, is in the
// messages only.
func (t *transcript) matchMessages(messages []message) (event string, isBeginning bool) {
	var last line
	for i := 0; i < len(messages); i++ {
		if last.isRepeated(messages[i:]) && !t.isAfterNext(&messages[i+1]) {
			i++
			continue
		}
		l, ok := t.readLine()
		if !ok || !l.matchesMessage(&messages[i]) {
			return "", false
		}
		last = l
	}
	return last.event, true
}

func (l *line) matchesMessage(m *message) bool {
	switch {
	case l.role != m.role:
		return false
	case l.isAnswer:
		return !slices.ContainsFunc(m.parts, func(p *genai.Part) bool {
			f := p.FunctionResponse
			return f != nil && !reflect.DeepEqual(l.results[f.ID], f.Response)
		})
	case m.audio != "" && m.text == "":
		return newAudioID(l.text) == m.audio
	case l.role == roleUser && l.files != digestFiles(m.parts):
		return false
	}
	return isSameText(l.text, m.text)
}

// isRepeated reports whether messages begin with an answer and the question that a line ends with.
func (l *line) isRepeated(messages []message) bool {
	return l.question != "" && len(messages) > 1 && messages[0].role == roleUser && messages[1].role == roleAssistant &&
		isSameText(messages[1].text, l.question)
}

// isAfterNext reports whether the session has a message after the next line. It reads no line.
func (t *transcript) isAfterNext(m *message) bool {
	ahead := transcript{t.events, slices.Clone(t.open)}
	ahead.readLine()
	l, ok := ahead.readLine()
	return ok && l.matchesMessage(m)
}

// digestFiles returns the digests of the files in a message.
func digestFiles(parts []*genai.Part) string {
	digests := ""
	for _, p := range parts {
		if p != nil && p.InlineData != nil {
			sum := sha256.Sum256(p.InlineData.Data)
			digests += string(sum[:])
		}
	}
	return digests
}

func isSameText(a, b string) bool { return a == b || normalizeText(a) == normalizeText(b) }

// normalizeText makes texts comparable: clients trim and wrap them.
func normalizeText(text string) string {
	isPlain := !strings.ContainsAny(text, "\t\n\v\f\r") && !strings.Contains(text, "  ") &&
		!strings.HasPrefix(text, " ") && !strings.HasSuffix(text, " ")
	if isPlain && isASCII(text) {
		return text
	}
	return strings.Join(strings.Fields(text), " ")
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
