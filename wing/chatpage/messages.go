package chatpage

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/terminal"
	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// Messages are built field by field: a browser receives nothing but what this file copies from an
// event. A function's response, state, a route, an agent's name and an error's text
// are never copied. A function's arguments are copied from one event only: a request that
// asks this user to approve the call.

// A message is one event for the user.
type message struct {
	// ID is the event's.
	ID string `json:"id"`
	// From is user or app.
	From string `json:"from"`
	// Time is in milliseconds since 1970.
	Time int64  `json:"time"`
	Text string `json:"text,omitempty"`
	// Thoughts are the model's, if the app shows them.
	Thoughts  string      `json:"thoughts,omitempty"`
	Files     []file      `json:"files,omitempty"`
	Questions []*question `json:"questions,omitempty"`
	// Score is the user's rating of the answer: 1 is good, -1 is bad.
	Score int `json:"score,omitempty"`
	// Failed is the failure kind that the event records.
	Failed string `json:"failed,omitempty"`
}

func (m *message) isEmpty() bool {
	return m.Text == "" && m.Thoughts == "" && len(m.Files) == 0 && len(m.Questions) == 0 && m.Failed == ""
}

// A file is in a message, or is an artifact that an answer has saved.
type file struct {
	Name string `json:"name"`
	Type string `json:"type,omitempty"`
	// Size is in bytes; 0 is unknown.
	Size int `json:"size,omitempty"`
	// Path is the file's address below the conversation; empty if it cannot be loaded.
	Path string `json:"path,omitempty"`
}

const (
	fromUser = "user"
	fromApp  = "app"
	// maxName limits the names of files, tools and titles.
	maxName = 200
)

// An outlook has what decides how events appear: the app's options, and which questions are open.
type outlook struct {
	chat *Settings
	// pending are the IDs of open calls, and answers are those to others; nil in a stream,
	// where each new question is open.
	pending map[string]bool
	answers map[string]*genai.FunctionResponse
	// scores are the user's ratings by invocation.
	scores map[string]int
}

// newOutlook reads the questions and answers in a session's effective events.
func newOutlook(chat *Settings, events []*session.Event) *outlook {
	o := &outlook{chat: chat, pending: map[string]bool{}, answers: map[string]*genai.FunctionResponse{}}
	for _, w := range runtime.Pending(events) {
		for _, c := range w.Calls {
			o.pending[c.ID] = true
		}
	}
	for _, ev := range events {
		if !ev.IsFromUser() {
			continue
		}
		for _, f := range ev.Responses() {
			o.answers[f.ID] = f
		}
	}
	return o
}

// listMessages returns the messages in events.
func (o *outlook) listMessages(events []*session.Event) []*message {
	var all []*message
	for _, ev := range events {
		if m := o.readEvent(ev); m != nil {
			all = append(all, m)
		}
	}
	return all
}

// readEvent returns an event's message; nil for an event that is not for the user.
func (o *outlook) readEvent(ev *session.Event) *message {
	if ev.Actions.Compaction != nil || ev.Actions.RewindBeforeInvocationID != "" {
		return nil
	}
	m := &message{ID: ev.ID, From: fromApp, Time: ev.Timestamp.UnixMilli()}
	if ev.Author == session.UserAuthor {
		m.From = fromUser
	}
	switch {
	case ev.InputTranscription != nil && ev.InputTranscription.Text != "":
		m.From, m.Text = fromUser, ev.InputTranscription.Text
	case ev.OutputTranscription != nil:
		m.Text = ev.OutputTranscription.Text
	case m.From == fromApp && ev.IsPlainResult():
		m.Text = ev.ResultText()
	default:
		o.readParts(m, ev)
	}
	if m.From == fromApp {
		m.Files = append(m.Files, listArtifacts(ev)...)
		o.readQuestions(m, ev)
		if ev.ErrorCode != "" || ev.ErrorMessage != "" {
			m.Failed = failedOther
			if ev.ErrorCode == runtime.CodeAborted {
				m.Failed = failedStopped
			}
		}
	}
	if m.isEmpty() {
		return nil
	}
	if m.From == fromApp {
		m.Score = o.scores[ev.InvocationID]
	}
	return m
}

// failedStopped is the failure of a turn that the user has stopped.
const failedStopped = "stopped"

func (o *outlook) readParts(m *message, ev *session.Event) {
	if ev.Content == nil {
		return
	}
	var text, thoughts strings.Builder
	for i, p := range ev.Content.Parts {
		switch {
		case p == nil:
		case p.Thought:
			thoughts.WriteString(p.Text)
		case p.Text != "":
			text.WriteString(p.Text)
		case p.InlineData != nil:
			m.Files = append(m.Files, file{
				Name: cmp.Or(cleanName(p.InlineData.DisplayName), nameOfType(p.InlineData.MIMEType)), Type: p.InlineData.MIMEType,
				Size: len(p.InlineData.Data), Path: fmt.Sprintf("files/%s/%d", url.PathEscape(ev.ID), i),
			})
		case p.FileData != nil:
			m.Files = append(m.Files, readReference(p.FileData))
		}
	}
	m.Text = text.String()
	if o.chat.ShowThoughts {
		m.Thoughts = thoughts.String()
	}
}

var artifactURI = regexp.MustCompile(`^artifact://apps/[^/]+/users/[^/]+(?:/sessions/[^/]+)?/artifacts/(.+)/versions/(\d+)$`)

// readReference returns a file reference. An address outside the session's artifacts is not for the
// browser.
func readReference(d *genai.FileData) file {
	f := file{Name: cleanName(d.DisplayName), Type: d.MIMEType}
	if m := artifactURI.FindStringSubmatch(d.FileURI); m != nil {
		f.Name, f.Path = cmp.Or(f.Name, cleanName(path.Base(m[1]))), artifactPath(m[1], m[2])
	}
	f.Name = cmp.Or(f.Name, nameOfType(d.MIMEType))
	return f
}

func artifactPath(name, version string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "artifacts/" + version + "/" + strings.Join(parts, "/")
}

// internalArtifacts begins the names of files that ADK and the host keep for themselves.
const internalArtifacts = "_adk"

// listArtifacts returns the files that an event has saved, by name.
func listArtifacts(ev *session.Event) []file {
	var all []file
	for _, name := range slices.Sorted(maps.Keys(ev.Actions.ArtifactDelta)) {
		plain := strings.TrimPrefix(name, session.UserPrefix)
		if !strings.HasPrefix(plain, internalArtifacts) {
			all = append(all, file{Name: cleanName(path.Base(plain)), Type: typeOfName(plain), Path: artifactPath(name, strconv.Itoa(ev.Actions.ArtifactDelta[name]))})
		}
	}
	return all
}

// shownTypes are the types that the page shows, by file name extension.
var shownTypes = map[string]string{".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp", ".pdf": "application/pdf"}

func typeOfName(name string) string { return shownTypes[strings.ToLower(path.Ext(name))] }

func nameOfType(mediaType string) string {
	kind, _, _ := strings.Cut(mediaType, "/")
	return cmp.Or(kind, "file")
}

// cleanName returns a name on one line, without control and direction characters.
func cleanName(name string) string {
	return protocol.TruncateText(strings.TrimSpace(terminal.CleanLine(name)), maxName)
}

// A frame is one event of a stream. Exactly one of Delta, Thought, Message, Working and Failed is
// set, or none in a frame that only has a position.
type frame struct {
	// At is the ID of the last stored event, for a later follow request.
	At string `json:"at,omitempty"`
	// ID is the message that Delta and Thought continue.
	ID      string   `json:"id,omitempty"`
	Delta   string   `json:"delta,omitempty"`
	Thought string   `json:"thought,omitempty"`
	Message *message `json:"message,omitempty"`
	// Working reports that something runs before the next text. Tool is its name, if the app shows
	// them.
	Working bool   `json:"working,omitempty"`
	Tool    string `json:"tool,omitempty"`
	// Failed is the failure kind that ended the turn.
	Failed string `json:"failed,omitempty"`
	// Refused reports that the host has not taken the message, so that the page keeps it.
	Refused bool `json:"refused,omitempty"`
}

// readFrames returns the frames of an event in a stream.
func (o *outlook) readFrames(ev *session.Event) []frame {
	if ev.Partial {
		return o.readChunk(ev)
	}
	frames := []frame{}
	if m := o.readEvent(ev); m != nil {
		frames = append(frames, frame{At: ev.ID, Message: m})
	}
	if calls := ev.Calls(); len(calls) > 0 && len(ev.LongRunningToolIDs) < len(calls) {
		f := frame{At: ev.ID, Working: true}
		if o.chat.ShowTools {
			f.Tool = writePhrase(calls[0].Name)
		}
		frames = append(frames, f)
	}
	if len(frames) == 0 {
		frames = append(frames, frame{At: ev.ID})
	}
	return frames
}

func (o *outlook) readChunk(ev *session.Event) []frame {
	if ev.Content == nil || ev.Author == session.UserAuthor {
		return nil
	}
	var text, thoughts strings.Builder
	for _, p := range ev.Content.Parts {
		switch {
		case p == nil:
		case p.Thought:
			thoughts.WriteString(p.Text)
		default:
			text.WriteString(p.Text)
		}
	}
	var frames []frame
	if thoughts.Len() > 0 && o.chat.ShowThoughts {
		frames = append(frames, frame{ID: ev.ID, Thought: thoughts.String()})
	}
	if text.Len() > 0 {
		frames = append(frames, frame{ID: ev.ID, Delta: text.String()})
	}
	return frames
}

// failedInterrupted is the failure of a turn that has no end, such as after a restart of the server.
const failedInterrupted = "interrupted"

// findFailure returns why the last turn of effective events can be repeated: it failed, or it was
// interrupted. It is empty for a turn that has ended, or that waits for an answer. The caller has
// checked that no turn is running.
func (o *outlook) findFailure(app *runtime.App, events []*session.Event) string {
	for _, ev := range slices.Backward(events) {
		hasFailed := ev.ErrorCode != "" || ev.ErrorMessage != ""
		if ev.Actions.Compaction != nil || !hasFailed && ev.Output == nil && (ev.Content == nil || len(ev.Content.Parts) == 0) {
			continue
		}
		switch {
		case ev.LiveSessionID != "" || ev.InputTranscription != nil || ev.OutputTranscription != nil:
			return "" // a spoken turn ends when the user stops to talk
		case ev.ErrorCode == runtime.CodeAborted:
			return failedStopped
		case hasFailed:
			return failedOther
		case len(o.pending) > 0:
			return ""
		case ev.IsFromUser() || !ev.IsFinal() && !ev.Actions.Escalate:
			return failedInterrupted
		case app.Resumable() && runtime.ResumableInvocation(events) != "":
			return failedInterrupted
		}
		return ""
	}
	return ""
}
