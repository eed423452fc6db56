package vertexstore

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"google.golang.org/genai"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// A RAGMemory is a [store.MemoryService] in a Vertex AI RAG corpus: a session's texts are a file,
// and searches find its chunks by meaning. Its files are those that adk-python
// memory/vertex_ai_rag_memory_service.py writes. Adding a session again adds a file, and a search
// returns each event in both files once.
type RAGMemory struct {
	client *client
	// similarityTopK is how many chunks, over all users, a search looks at, and distanceThreshold
	// the distance in meaning that they may have.
	similarityTopK    int
	distanceThreshold float64
}

var _ store.MemoryService = (*RAGMemory)(nil)

const ragParameters = "rag: URLs have the parameters similarity_top_k, an integer from 1 to 100, and vector_distance_threshold, a number from 0 to 10"

// OpenRAG returns the memories in a corpus, by a URL such as rag://123. Its parameters are the
// arguments that ADK's service has: similarity_top_k limits the chunks that a search looks at
// (default 100), vector_distance_threshold their distance. It reads from the corpus once, so that a
// wrong corpus, project or location, or a missing role, is an error.
func OpenRAG(ctx context.Context, rawURL string, o *Options) (*RAGMemory, error) {
	if o == nil {
		o = &Options{}
	}
	name, parameters, _ := strings.Cut(rawURL, "?")
	m := &RAGMemory{similarityTopK: maxTopK, distanceThreshold: maxDistance}
	if err := m.readParameters(parameters); err != nil {
		return nil, err
	}
	var err error
	if m.client, err = newClient(corpusKind, name, o); err != nil {
		return nil, err
	}
	return m, m.Ping(ctx)
}

func (m *RAGMemory) readParameters(text string) error {
	values, err := url.ParseQuery(text)
	if err != nil {
		return errors.New(ragParameters)
	}
	for name, all := range values {
		value := all[len(all)-1]
		n, err := strconv.ParseFloat(value, 64)
		switch {
		case err == nil && name == "similarity_top_k" && n == math.Trunc(n) && n >= 1 && n <= maxTopK:
			m.similarityTopK = int(n)
		case err == nil && name == "vector_distance_threshold" && n >= 0 && n <= maxDistance:
			m.distanceThreshold = n
		default:
			return fmt.Errorf("invalid parameter %s=%s: %s", name, value, ragParameters)
		}
	}
	return nil
}

// Ping checks that the corpus exists and can be read.
func (m *RAGMemory) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	_, err := m.client.sendOnce(ctx, &call{method: http.MethodGet, path: m.client.resourceName()}, nil, nil)
	return m.describeError(err)
}

// Close implements [store.MemoryService].
func (m *RAGMemory) Close() error {
	m.client.http.CloseIdleConnections()
	return nil
}

func (m *RAGMemory) describeError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("memories of %s: %w", m.client.resourceName(), err)
}

// displayPrefix begins file names, which have the app, the user and the session in base64.
const displayPrefix = "adk-memory-v1."

// maxDisplayName is the service's limit, in characters.
const maxDisplayName = 128

// newDisplayName returns the name for a session's files.
func newDisplayName(key session.Key) (string, error) {
	encode := base64.RawURLEncoding.EncodeToString
	name := displayPrefix + encode([]byte(key.App)) + "." + encode([]byte(key.User)) + "." + encode([]byte(key.ID))
	if len(name) > maxDisplayName {
		return "", fmt.Errorf("the app, user and session names are %d characters too long for a RAG corpus file: use shorter session ids: %w", len(name)-maxDisplayName, session.ErrInvalid)
	}
	return name, nil
}

// parseDisplayName returns a file's session. Earlier versions of ADK wrote its three names without
// base64.
func parseDisplayName(name string) (key session.Key, ok bool) {
	rest, isNew := strings.CutPrefix(name, displayPrefix)
	parts := strings.Split(rest, ".")
	if len(parts) != 3 {
		return session.Key{}, false
	}
	if isNew {
		for i, part := range parts {
			text, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(part, "="))
			if err != nil || !utf8.Valid(text) {
				return session.Key{}, false
			}
			parts[i] = string(text)
		}
	}
	return session.Key{App: parts[0], User: parts[1], ID: parts[2]}, true
}

// AddEvents uploads the events' texts, without thoughts, as a session file. It returns after the
// service has indexed the file.
func (m *RAGMemory) AddEvents(ctx context.Context, key session.Key, events []*session.Event) error {
	var lines []string
	for _, mem := range session.MemoriesOf(events) {
		lines = append(lines, encodeLine(mem))
	}
	if len(lines) == 0 {
		return nil
	}
	name, err := newDisplayName(key)
	if err != nil {
		return err
	}
	return m.describeError(m.uploadFile(ctx, name, strings.Join(lines, "\n")))
}

// encodeLine returns an event as Python's json.dumps writes it.
func encodeLine(mem *session.Memory) string {
	var texts []string
	for _, p := range mem.Content.Parts {
		texts = append(texts, strings.ReplaceAll(p.Text, "\n", " "))
	}
	seconds := float64(mem.Timestamp.UnixMicro()) / 1e6
	stamp := strconv.FormatFloat(seconds, 'f', -1, 64)
	if seconds == math.Trunc(seconds) {
		stamp += ".0"
	}
	return `{"author": ` + quoteASCII(mem.Author) + `, "timestamp": ` + stamp + `, "text": ` + quoteASCII(strings.Join(texts, ".")) + `}`
}

// quoteASCII returns an ASCII JSON string.
func quoteASCII(text string) string {
	b := []byte{'"'}
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\b':
			b = append(b, `\b`...)
		case c == '\f':
			b = append(b, `\f`...)
		case ' ' <= c && c <= '~' || c == 0x7f:
			b = append(b, byte(c))
		case c > 0xffff:
			high, low := utf16.EncodeRune(c)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		default:
			b = fmt.Appendf(b, `\u%04x`, c)
		}
	}
	return string(append(b, '"'))
}

// uploadFile adds a file to the corpus. A success response may have an error.
func (m *RAGMemory) uploadFile(ctx context.Context, name, text string) error {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	metadata, err := json.Marshal(map[string]any{"ragFile": map[string]any{"displayName": name}})
	if err == nil {
		err = form.WriteField("metadata", string(metadata))
	}
	if err != nil {
		return err
	}
	file, err := form.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="file"; filename="session.txt"`}, "Content-Type": {"text/plain"},
	})
	if err == nil {
		_, err = file.Write([]byte(text))
	}
	if err = errors.Join(err, form.Close()); err != nil {
		return err
	}
	var answer struct{ RagFile *struct{ Name string } }
	err = m.client.sendCall(ctx, &call{
		method: http.MethodPost, path: m.client.resourceName() + "/ragFiles:upload",
		upload: body.Bytes(), contentType: form.FormDataContentType(), once: true,
	}, &answer)
	if err == nil && answer.RagFile == nil {
		err = errors.New("the response to an upload has no file")
	}
	return err
}

// AddMemories always fails: a corpus's files are sessions.
func (m *RAGMemory) AddMemories(context.Context, store.UserKey, []*session.Memory) error {
	return fmt.Errorf("a RAG corpus stores only session memories: add a session: %w", session.ErrInvalid)
}

// maxDistance is ADK's default: the service returns only nearer chunks.
const maxDistance = 10

// maxFoundEvents bounds a search result. A file's chunk has many events.
const maxFoundEvents = 1000

// A ragEvent is an event in a file's chunk.
type ragEvent struct {
	Author    string  `json:"author"`
	Timestamp float64 `json:"timestamp"`
	Text      string  `json:"text"`
}

// A ragSession has the chunks of a session, in result order.
type ragSession struct {
	key    session.Key
	chunks [][]ragEvent
}

// FindMemories returns the events in the chunks that are nearest in meaning; the limit counts
// chunks. The service looks at the nearest over all users. A session's chunks that share events are
// merged.
func (m *RAGMemory) FindMemories(ctx context.Context, who store.UserKey, q store.MemoryQuery) ([]*session.Memory, error) {
	body := map[string]any{
		"vertexRagStore": map[string]any{
			"ragResources": []any{map[string]any{"ragCorpus": m.client.resourceName()}}, "vectorDistanceThreshold": m.distanceThreshold,
		},
		"query": map[string]any{"text": q.Text, "similarityTopK": m.similarityTopK}, // over all users
	}
	var answer struct {
		Contexts struct {
			Contexts []struct{ SourceDisplayName, Text string }
		}
	}
	if err := m.client.sendCall(ctx, &call{method: http.MethodPost, path: m.client.locationName() + ":retrieveContexts", body: body}, &answer); err != nil {
		return nil, m.describeError(err)
	}
	var sessions []*ragSession
	left := q.Limit
	for _, c := range answer.Contexts.Contexts {
		key, ok := parseDisplayName(c.SourceDisplayName)
		if !ok || key.App != who.App || key.User != who.User || q.NotSession != "" && key.ID == q.NotSession {
			continue
		}
		i := slices.IndexFunc(sessions, func(s *ragSession) bool { return s.key == key })
		if i < 0 {
			i = len(sessions)
			sessions = append(sessions, &ragSession{key: key})
		}
		if chunk := decodeChunk(c.Text); len(chunk) > 0 && left > 0 {
			sessions[i].chunks = append(sessions[i].chunks, chunk)
			left--
		}
	}
	var found []*session.Memory
	for _, s := range sessions {
		for _, chunk := range mergeChunks(s.chunks) {
			for _, ev := range chunk {
				if len(found) < maxFoundEvents {
					found = append(found, ev.asMemory())
				}
			}
		}
	}
	return found, nil
}

// decodeChunk returns a chunk's events. Its first and last lines may be cut.
func decodeChunk(text string) []ragEvent {
	var events []ragEvent
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		var ev ragEvent
		if line == "" || json.Unmarshal([]byte(line), &ev) != nil || ev.Text == "" || math.Abs(ev.Timestamp) > 1e11 {
			continue
		}
		events = append(events, ev)
	}
	return events
}

// mergeChunks merges the chunks that share a timestamp, and sorts each chunk's events.
func mergeChunks(chunks [][]ragEvent) [][]ragEvent {
	var merged [][]ragEvent
	for len(chunks) > 0 {
		current, rest := chunks[0], chunks[1:]
		times := map[float64]bool{}
		for _, ev := range current {
			times[ev.Timestamp] = true
		}
		for grown := true; grown; {
			grown = false
			rest = slices.DeleteFunc(rest, func(other []ragEvent) bool {
				if !slices.ContainsFunc(other, func(ev ragEvent) bool { return times[ev.Timestamp] }) {
					return false
				}
				current, grown = addNewEvents(current, other, times), true
				return true
			})
		}
		slices.SortStableFunc(current, func(x, y ragEvent) int { return int(math.Copysign(1, x.Timestamp-y.Timestamp)) })
		merged, chunks = append(merged, current), rest
	}
	return merged
}

// addNewEvents appends the events whose time is not among the times, and adds theirs.
func addNewEvents(events, more []ragEvent, times map[float64]bool) []ragEvent {
	var added []ragEvent
	for _, ev := range more {
		if !times[ev.Timestamp] {
			added = append(added, ev)
		}
	}
	for _, ev := range added {
		times[ev.Timestamp] = true
	}
	return append(events, added...)
}

func (e ragEvent) asMemory() *session.Memory {
	role := genai.RoleModel
	if e.Author == session.UserAuthor {
		role = genai.RoleUser
	}
	return &session.Memory{
		Content: &genai.Content{Role: role, Parts: []*genai.Part{{Text: e.Text}}}, Author: e.Author,
		Timestamp: time.UnixMicro(int64(math.Round(e.Timestamp * 1e6))).UTC(),
	}
}

// DeleteSession deletes a session's files.
func (m *RAGMemory) DeleteSession(ctx context.Context, key session.Key) error {
	return m.deleteFiles(ctx, func(file session.Key) bool { return file == key })
}

// DeleteUser deletes a user's files in an app.
func (m *RAGMemory) DeleteUser(ctx context.Context, who store.UserKey) error {
	return m.deleteFiles(ctx, func(file session.Key) bool { return file.App == who.App && file.User == who.User })
}

// deleteFiles lists all files, and deletes those that match.
func (m *RAGMemory) deleteFiles(ctx context.Context, matches func(session.Key) bool) error {
	var ids []string
	files := m.client.resourceName() + "/ragFiles"
	err := m.client.listPages(ctx, files, url.Values{"pageSize": {"100"}}, func(page json.RawMessage) (bool, error) {
		var list struct {
			RagFiles []struct{ Name, DisplayName string }
		}
		if err := json.Unmarshal(page, &list); err != nil {
			return false, err
		}
		for _, f := range list.RagFiles {
			key, ok := parseDisplayName(f.DisplayName)
			if !ok || !matches(key) {
				continue
			}
			id := path.Base(f.Name)
			if !resourceToken.MatchString(id) {
				return false, fmt.Errorf("a file has the invalid name %q", f.Name)
			}
			ids = append(ids, id)
		}
		return true, nil
	})
	for _, id := range ids {
		if err != nil {
			break
		}
		var op operation
		if err = m.client.sendCall(ctx, &call{method: http.MethodDelete, path: files + "/" + id}, &op); err == nil {
			err = m.client.waitOperation(ctx, &op)
		}
		if hasCode(err, http.StatusNotFound) {
			err = nil // deleted by another host
		}
	}
	return m.describeError(err)
}
