package testenv

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/genai"

	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

var update = flag.Bool("update", false, "update the transcripts with the actual output")

// IsUpdating reports whether the test has the flag -update: it writes its golden files.
func IsUpdating() bool { return *update }

// Transcripts runs every transcript in a folder. A transcript is a txtar file with a comment that
// names the tested rule, the app's files, and these sections: input, with a line for each turn
// (plain text, or JSON {"message", "parts", "stateDelta", "streaming", "state", "session", "stop",
// "rewindBefore", "rewindAfter"}, with call names in braces instead of call IDs); events, with each
// turn's events, the last session's stored authors and its final state; and optionally spans, with
// the host's spans, and trace, with the last session's stored events in order (formatTrace). IDs,
// times and empty fields are omitted.
func Transcripts(t *testing.T, dir string, opts func() *loader.Options) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts in %s: %v", dir, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			runTranscript(t, file, opts())
		})
	}
}

func runTranscript(t *testing.T, file string, opts *loader.Options) {
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(bytes.TrimSpace(ar.Comment)) == 0 {
		t.Error("the transcript has no comment; hint: name the tested rule")
	}
	parts := map[string][]byte{}
	app := map[string][]byte{}
	for _, f := range ar.Files {
		if slices.Contains([]string{"input", "events", "spans", "trace"}, f.Name) {
			parts[f.Name] = f.Data
		} else {
			app[f.Name] = f.Data
		}
	}
	env, ended := &Options{}, tracetest.NewSpanRecorder()
	if parts["spans"] != nil {
		env = NewTracing(ended)
	}
	env.Loader = opts
	g := golden{file, ar}
	got, sess := runInput(t, Files(t, "app", app), string(parts["input"]), env)
	if parts["trace"] != nil {
		g.compareSection(t, "trace", formatTrace(sess.Events()))
	} else {
		g.compareSection(t, "events", got)
	}
	if parts["spans"] != nil {
		g.compareSection(t, "spans", renderSpans(t, ended.Ended()))
	}
}

// golden is a transcript file with expected sections.
type golden struct {
	file string
	*txtar.Archive
}

// compareSection compares a section with the actual output, or updates it.
func (g golden) compareSection(t *testing.T, part, got string) {
	t.Helper()
	i := slices.IndexFunc(g.Files, func(f txtar.File) bool { return f.Name == part })
	if i < 0 {
		i, g.Files = len(g.Files), append(g.Files, txtar.File{Name: part})
	}
	if !*update {
		if diff := gocmp.Diff(string(g.Files[i].Data), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", part, diff)
		}
		return
	}
	g.Files[i].Data = []byte(got)
	if err := os.WriteFile(g.file, txtar.Format(g.Archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

// turn is an input line.
type turn struct {
	Message    string            `json:"message"`
	Parts      []json.RawMessage `json:"parts"`
	StateDelta map[string]any    `json:"stateDelta"`
	Streaming  *bool             `json:"streaming"`
	// State is a session's initial state.
	State map[string]any `json:"state"`
	// Session continues in a new session with this ID and State.
	Session string `json:"session"`
	// Stop stops reading the events after this number.
	Stop int `json:"stop"`
	// RewindBefore rewinds to before the invocation that has the event with this number,
	// RewindAfter to after the event. Then the message is sent.
	RewindBefore int `json:"rewindBefore"`
	RewindAfter  int `json:"rewindAfter"`
}

func parseTurn(t *testing.T, line string) turn {
	tu := turn{Message: line}
	if strings.HasPrefix(line, "{") {
		tu.Message = ""
		dec := json.NewDecoder(strings.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&tu); err != nil {
			t.Fatalf("input %s: %v", line, err)
		}
	}
	return tu
}

func (tu turn) userContent(t *testing.T) *genai.Content {
	if len(tu.Parts) == 0 {
		return model.UserText(tu.Message)
	}
	c := &genai.Content{Role: genai.RoleUser}
	for _, raw := range tu.Parts {
		p, err := session.DecodePart(raw)
		if err != nil {
			t.Fatal(err)
		}
		c.Parts = append(c.Parts, p)
	}
	return c
}

// runInput returns what the turns yield, and the last session.
func runInput(t *testing.T, dir, input string, opts *Options) (string, *session.Session) {
	e := New(t, opts)
	e.Load(t, dir)
	var out strings.Builder
	var key session.Key
	for line := range strings.Lines(input) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		tu := parseTurn(t, line)
		if id := cmp.Or(tu.Session, "s"); key.ID == "" || tu.Session != "" {
			key = e.Session(t, "app", id, tu.State)
		}
		fmt.Fprintf(&out, "> %s\n", line)
		e.runTurn(t, key, parseTurn(t, e.resolveCallIDs(t, key, line)), &out)
	}
	sess := e.writeSession(t, key, &out)
	return out.String(), sess
}

func (e *Env) runTurn(t *testing.T, key session.Key, tu turn, out *strings.Builder) {
	req := &runtime.RunRequest{
		App: key.App, UserID: key.User, SessionID: key.ID,
		Message: tu.userContent(t), StateDelta: tu.StateDelta, Streaming: tu.Streaming,
	}
	var lines []string
	var all []*session.Event
	n := 0
	for ev, err := range e.runOrRewind(t, req, tu) {
		if err != nil {
			re := runtime.AsRunError(err)
			lines = append(lines, fmt.Sprintf("error %s: %s", re.Code, re.Message))
			break
		}
		all = append(all, ev)
		lines = append(lines, Stable(t, ev))
		if n++; n == tu.Stop {
			break
		}
	}
	if hasParallel(all) {
		slices.Sort(lines)
	}
	for _, l := range lines {
		fmt.Fprintln(out, strings.ReplaceAll(l, os.TempDir(), "TMP"))
	}
}

// runOrRewind runs a turn or a rewind, which needs no message.
func (e *Env) runOrRewind(t *testing.T, req *runtime.RunRequest, tu turn) runtime.Events {
	if tu.RewindBefore == 0 && tu.RewindAfter == 0 {
		return e.Host.Run(t.Context(), req)
	}
	rewind := &runtime.RewindRequest{App: req.App, UserID: req.UserID, SessionID: req.SessionID, Message: req.Message, Streaming: req.Streaming}
	if tu.Message == "" && len(tu.Parts) == 0 {
		rewind.Message = nil
	}
	sess, err := e.Store.Sessions.Get(t.Context(), session.Key{App: req.App, User: req.UserID, ID: req.SessionID}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if tu.RewindBefore > 0 {
		rewind.BeforeInvocationID = sess.Events()[tu.RewindBefore-1].InvocationID
	} else {
		rewind.AfterEventID = sess.Events()[tu.RewindAfter-1].ID
	}
	return e.Host.Rewind(t.Context(), rewind)
}

// numberedRun matches the branches of a workflow's nodes that run concurrently.
var numberedRun = regexp.MustCompile(`@[0-9]+(\.|$)`)

// hasParallel reports whether the event order depends on goroutines: with parallel agents, and with
// sub-agents that one response calls together (name@call).
func hasParallel(events []*session.Event) bool {
	delegated, several := false, false
	for _, ev := range events {
		if ev.Branch != "" && (!strings.Contains(ev.Branch, "@") || numberedRun.MatchString(ev.Branch)) {
			return true
		}
		delegated = delegated || ev.Branch != "" && ev.IsolationScope == "" // tasks run in order
		several = several || len(ev.Calls()) > 1
	}
	return delegated && several
}

func (e *Env) writeSession(t *testing.T, key session.Key, out *strings.Builder) *session.Session {
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	authors := make([]string, 0, len(sess.Events()))
	for _, ev := range sess.Events() {
		authors = append(authors, ev.Author)
	}
	if hasParallel(sess.Events()) {
		slices.Sort(authors)
	}
	fmt.Fprintf(out, "stored: %s\n", strings.Join(authors, " "))
	state := sess.State.All()
	for _, k := range slices.Sorted(maps.Keys(state)) {
		b, err := json.Marshal(state[k])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(out, "state %s = %s\n", k, b)
	}
	return sess
}

// Stable returns an event as a JSON line, without fields that differ between runs and without empty
// fields.
func Stable(t testing.TB, ev *session.Event) string {
	t.Helper()
	b, err := json.Marshal(ev)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"id", "invocationId", "timestamp", "nodeInfo", "modelVersion"} {
		delete(m, k)
	}
	// Omit the revision: it is the hash over the transcript's own files.
	if ev.Provenance.Skipped != "" {
		m["provenance"] = map[string]any{"skipped": ev.Provenance.Skipped}
	}
	if actions, ok := m["actions"].(map[string]any); ok {
		for k, v := range actions {
			if inner, ok := v.(map[string]any); ok && len(inner) == 0 {
				delete(actions, k)
			}
		}
		if len(actions) == 0 {
			delete(m, "actions")
		}
	}
	if ids, ok := m["longRunningToolIds"].([]any); ok && len(ids) == 0 {
		delete(m, "longRunningToolIds")
	}
	var line strings.Builder
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line.String())
}
