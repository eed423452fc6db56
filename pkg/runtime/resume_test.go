package runtime_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// TestResume truncates a reference conversation after each of its events, as a crash does, and
// resumes it on a new host. The resulting history must equal the uninterrupted conversation's.
// Messages that were not stored are sent again.
func TestResume(t *testing.T) {
	files, err := filepath.Glob("testdata/resume/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no conversations", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			c := readConversation(t, file)
			whole := c.replay(t, nil)
			want := c.formatEvents(t, whole)
			if !slices.ContainsFunc(whole, func(ev *session.Event) bool { return ev.Actions.EndOfAgent }) {
				t.Fatalf("the conversation never ended:\n%s", strings.Join(want, "\n"))
			}
			for cut := 1; cut <= len(whole); cut++ {
				got := c.replay(t, whole[:cut])
				if diff := cmp.Diff(want, c.formatEvents(t, got)); diff != "" {
					t.Fatalf("cut off after event %d of %d (-whole +resumed):\n%s\nwhole:\n%s", cut, len(whole), diff, strings.Join(want, "\n"))
				}
				c.service.checkKeys(t, got)
			}
		})
	}
}

type conversation struct {
	files map[string][]byte
	// inputs are the user's messages: text, or {"answer": TOOL, "response": …} for that tool's
	// pending call.
	inputs []string
	// unordered is a conversation with parallel branches.
	unordered bool
	service   *idempotencyServer
}

func readConversation(t *testing.T, file string) *conversation {
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := &conversation{files: map[string][]byte{}, service: newService(t), unordered: strings.Contains(file, "parallel")}
	for _, f := range ar.Files {
		if f.Name == "input" {
			c.inputs = strings.Split(strings.TrimSpace(string(f.Data)), "\n")
			continue
		}
		c.files[f.Name] = []byte(strings.ReplaceAll(string(f.Data), "SERVICE", c.service.URL))
	}
	return c
}

// replay runs the conversation on a new host, starting from earlier events, and
// returns all stored events.
func (c *conversation) replay(t *testing.T, before []*session.Event) []*session.Event {
	e := testenv.New(t, &testenv.Options{FirstID: 1000 * (len(before) + 1)})
	e.Load(t, testenv.Files(t, "app", c.files))
	key := e.Session(t, "app", "s", nil)
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	sent := 0
	for _, ev := range before {
		again := *ev
		again.Seq = 0
		if err := e.Store.Sessions.Append(t.Context(), sess, &again); err != nil {
			t.Fatal(err)
		}
		if ev.IsFromUser() {
			sent++
		}
	}
	if sent > 0 {
		c.run(t, e, &runtime.RunRequest{App: "app", UserID: key.User, SessionID: key.ID, InvocationID: before[len(before)-1].InvocationID})
	}
	for _, input := range c.inputs[sent:] {
		req := &runtime.RunRequest{App: "app", UserID: key.User, SessionID: key.ID}
		req.Message = model.UserText(input)
		if strings.HasPrefix(input, "{") {
			req.Message = answerOpenCall(t, e, key, input)
		}
		c.run(t, e, req)
	}
	sess, err = e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sess.Events()
}

func (c *conversation) run(t *testing.T, e *testenv.Env, req *runtime.RunRequest) {
	for _, err := range e.Host.Run(t.Context(), req) {
		if err != nil {
			t.Fatalf("running %q: %v", model.TextOf(req.Message), err)
		}
	}
}

// answerOpenCall returns an answer to a tool's pending call.
func answerOpenCall(t *testing.T, e *testenv.Env, key session.Key, input string) *genai.Content {
	var a struct {
		Answer   string
		Response map[string]any
	}
	if err := json.Unmarshal([]byte(input), &a); err != nil {
		t.Fatal(err)
	}
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range slices.Backward(sess.Events()) {
		for _, call := range ev.Calls() {
			if call.Name == a.Answer {
				return &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{
					ID: call.ID, Name: call.Name, Response: a.Response,
				}}}}
			}
		}
	}
	t.Fatalf("no call of %s found", a.Answer)
	return nil
}

// madeID matches call IDs that the runtime assigned.
var madeID = regexp.MustCompile(`adk-[0-9a-z-]+`)

// formatEvents formats events without IDs. Events on parallel branches are sorted, and workflow
// checkpoints, which depend on their order, are omitted.
func (c *conversation) formatEvents(t *testing.T, events []*session.Event) []string {
	var all []string
	for _, ev := range events {
		if c.unordered && ev.Actions.AgentState["tasks"] != nil {
			continue
		}
		all = append(all, madeID.ReplaceAllString(ev.NodePath+" "+testenv.Stable(t, ev), "ID"))
	}
	if c.unordered {
		slices.Sort(all)
	}
	return all
}

// An idempotencyServer answers every call and records idempotency keys.
type idempotencyServer struct {
	*httptest.Server
	mu   sync.Mutex
	keys map[string]int
}

func newService(t *testing.T) *idempotencyServer {
	s := &idempotencyServer{keys: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.keys[r.Header.Get("Idempotency-Key")]++
		s.mu.Unlock()
		fmt.Fprint(w, `{"found": true}`)
	}))
	t.Cleanup(s.Close)
	return s
}

// checkKeys checks that every call to the tool lookup reached the service with its key.
func (s *idempotencyServer) checkKeys(t *testing.T, events []*session.Event) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ev := range events {
		for _, call := range ev.Calls() {
			if key := ev.InvocationID + "/" + call.ID; call.Name == "lookup" && s.keys[key] == 0 {
				t.Errorf("the call %s never reached the service under its key", key)
			}
		}
	}
}
