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
	p := &place{key: sess.Key, calls: map[string]*genai.FunctionCall{}}
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
	messages []*message
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
	earlier, last := s.messages[:len(s.messages)-1], s.messages[len(s.messages)-1]
	if len(earlier) == 0 && countMessages(sess.Events()) != 1 {
		return newPlace(sess), nil
	}
	lines := readTranscript(sess.Events())
	req := &runtime.RewindRequest{App: key.App, UserID: key.User, SessionID: key.ID, Writer: session.WriterClient}
	switch at := matchTranscript(lines, earlier); {
	case at > 0 && at < len(lines):
		req.AfterEventID = lines[at-1].event
	case at == 0 && len(lines) == 2 && normalizeText(lines[0].text) == normalizeText(last.text):
		req.BeforeInvocationID = lines[0].invocation
	default:
		return newPlace(sess), nil
	}
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
	beginnings, whole := s.listBeginnings()
	id := whole.nameSession()
	for _, beginning := range beginnings {
		p, err := s.tryNamesakes(ctx, beginning.nameSession(), id)
		if p != nil || err != nil {
			return p, err
		}
	}
	for i := range maxNamesakes {
		p, err := s.createSession(ctx, s.newKey(nameNumber(id, i)))
		if !errors.Is(err, session.ErrExists) {
			return p, err
		}
	}
	return s.createSession(ctx, s.newKey(id+"-"+uuid.NewString()))
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

// listBeginnings returns the beginnings whose sessions may have the conversation, and the whole conversation.
// The first beginning is where most conversations began, and the latest ones follow.
func (s *search) listBeginnings() (beginnings []beginning, whole beginning) {
	sum := sha256.New()
	var all []beginning
	var text []byte
	var digest [sha256.Size]byte
	for _, m := range s.messages {
		text = append(append(strconv.AppendInt(text[:0], int64(len(m.role)), 10), ':'), m.role...)
		text = append(append(strconv.AppendInt(text, int64(len(m.text)), 10), ':'), normalizeText(m.text)...)
		sum.Write(append(text, digestFiles(m.parts)...))
		if m.role == roleUser {
			all = append(all, beginning(sum.Sum(digest[:0])))
		}
	}
	earlier, whole := all[:len(all)-1], all[len(all)-1]
	if len(earlier) >= maxBeginnings {
		earlier = slices.Delete(earlier, 1, len(earlier)-maxBeginnings+2)
	}
	if len(earlier) > 1 { // the latest beginnings first: after an edit, they have most messages
		slices.Reverse(earlier[1:])
	}
	return earlier, whole
}

// tryNamesakes returns the place after the earlier messages in the sessions of a beginning; nil if none
// has them. A fork gets the ID of the whole conversation.
func (s *search) tryNamesakes(ctx context.Context, beginning, whole string) (*place, error) {
	earlier := s.messages[:len(s.messages)-1]
	for i := range maxNamesakes {
		if s.compared++; s.compared > maxCompared {
			return nil, nil
		}
		key := s.newKey(nameNumber(beginning, i))
		sess, err := s.h.Host().Store().Sessions.Get(ctx, key, nil)
		if errors.Is(err, session.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		lines := readTranscript(sess.Events())
		switch last := matchTranscript(lines, earlier); {
		case last < 0:
		case last == len(lines):
			return newPlace(sess), nil
		default:
			return s.forkSession(ctx, key, lines[last-1].event, whole)
		}
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
	earlier, last := s.messages[:len(s.messages)-1], s.messages[len(s.messages)-1]
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
func readHistory(messages []*message) ([]*genai.Content, error) {
	history := make([]*genai.Content, len(messages))
	for i, m := range messages {
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

// A transcript is what a client has seen.
type transcript struct {
	lines []*line
	// all are the lines' values, with room for one for each event.
	all []line
	// open are the questions without an answer, the oldest first. A turn ends with the first one.
	open []*protocol.Question
}

func readTranscript(events []*session.Event) []*line {
	events = session.WithoutRewound(events)
	t := &transcript{lines: make([]*line, 0, len(events)), all: make([]line, 0, len(events))}
	for _, ev := range events {
		switch {
		case ev.Partial || ev.Actions.Compaction != nil:
		case !ev.IsFromUser():
			t.readAnswer(ev)
		case len(ev.Responses()) > 0:
			t.endTurn()
			l := t.addLine(roleUser, "", ev)
			l.isAnswer, l.results = true, map[string]map[string]any{}
			for _, f := range ev.Responses() {
				l.results[f.ID] = f.Response
				t.open = slices.DeleteFunc(t.open, func(q *protocol.Question) bool { return q.Call.ID == f.ID })
			}
		case ev.Content != nil:
			t.endTurn()
			l := t.addLine(roleUser, ev.Text(), ev)
			l.files += digestFiles(ev.Content.Parts)
		}
	}
	t.endTurn()
	return t.lines
}

func (t *transcript) addLine(role, text string, ev *session.Event) *line {
	if n := len(t.lines); n == 0 || t.lines[n-1].role != role {
		t.all = append(t.all, line{role: role, invocation: ev.InvocationID})
		t.lines = append(t.lines, &t.all[len(t.all)-1])
	}
	l := t.lines[len(t.lines)-1]
	if l.text != "" {
		text = l.text + "\n\n" + text
	}
	l.text, l.event = strings.TrimSpace(text), ev.ID
	return l
}

func (t *transcript) readAnswer(ev *session.Event) {
	for _, c := range ev.Calls() {
		if q := protocol.NewQuestion(c); q != nil {
			t.open = append(t.open, q)
		}
	}
	if n := len(t.lines); ev.ResultText() != "" || len(listAudio(ev)) > 0 || len(ev.LongRunningToolIDs) > 0 || n > 0 && t.lines[n-1].role == roleAssistant {
		t.addLine(roleAssistant, ev.ResultText(), ev)
	}
}

// endTurn adds the question that the turn ends with.
func (t *transcript) endTurn() {
	if n := len(t.lines); n > 0 && len(t.open) > 0 && t.lines[n-1].role == roleAssistant {
		l := t.lines[n-1]
		l.question = t.open[0].Text
		l.text = strings.TrimSpace(l.text + "\n\n" + l.question)
	}
}

// matchTranscript returns how many of a session's lines the messages are; -1 if they are not its
// beginning. A question that was repeated, because the answer did not fit, is in the messages only.
func matchTranscript(lines []*line, messages []*message) int {
	at := 0
	for i := 0; i < len(messages); {
		if at > 0 && isRepeat(lines[at-1], messages[i:]) && !isNext(lines[at:], messages[i+1]) {
			i += 2
			continue
		}
		if at == len(lines) || !lines[at].matchesMessage(messages[i]) {
			return -1
		}
		at++
		i++
	}
	return at
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
	return normalizeText(l.text) == normalizeText(m.text)
}

// isRepeat reports whether messages begin with an answer and the question that a line ends with.
func isRepeat(l *line, messages []*message) bool {
	return l.question != "" && len(messages) > 1 && messages[0].role == roleUser && messages[1].role == roleAssistant &&
		normalizeText(messages[1].text) == normalizeText(l.question)
}

// isNext reports whether the session has a message after the next line.
func isNext(lines []*line, m *message) bool { return len(lines) > 1 && lines[1].matchesMessage(m) }

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
