package runtime_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/fake/fakebucket"
	"agenthost/internal/fake/fakevertex"
	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// googleClients is how many users talk at the same time, googleTurns how many turns each has.
const (
	googleClients = 64
	googleTurns   = 3
)

// maxVertexCalls is how many requests a turn with one model call makes at most, as in ADK: two to
// read the session, one for each of its two events, one search and one upload.
const maxVertexCalls = 6

// A slow turn appends its events so long after reading the session that each append first looks for
// other processes' events.
const (
	slowTurn     = 2 * time.Second
	looksPerTurn = 2
)

// TestGoogleServices: sessions in Agent Engine, artifacts in a bucket and memories in a RAG
// corpus, all at once under 64 clients: no turn fails, and each user has the own events, files
// and memories.
func TestGoogleServices(t *testing.T) {
	for _, memory := range []string{"rag://5", "agentengine://77"} {
		t.Run(memory, func(t *testing.T) { testGoogleServices(t, memory) })
	}
}

func testGoogleServices(t *testing.T, memory string) {
	var requests atomic.Int64
	fake := &fakevertex.Server{Project: "p", Number: "1", Location: "l", Engines: []string{"77"}, Corpora: []string{"5"}, PollsUntilDone: 1}
	fake.Fault = func(*http.Request) *fakevertex.Fault { requests.Add(1); return nil }
	vertex, bucket := httptest.NewServer(fake), httptest.NewServer(&fakebucket.GCS{})
	defer vertex.Close()
	defer bucket.Close()
	env := map[string]string{"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "l", "GOOGLE_VERTEX_BASE_URL": vertex.URL, "STORAGE_EMULATOR_HOST": bucket.URL}
	e := testenv.New(t, &testenv.Options{
		URL: "agentengine://77", Artifacts: "gs://files/p", Memory: memory, Revisions: "memory:",
		Env: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
	})
	dir := filepath.Join(t.TempDir(), "keeper")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"app.yaml":         "models:\n  demo: {provider: scripted, script: demo.script.yaml}\nplugins: [add_to_memory]\nrun_config: {save_input_blobs_as_artifacts: true}\n",
		"demo.script.yaml": "- text: \"answer {user}\"\n",
		"root_agent.yaml":  "name: keeper\nmodel: demo\ninstruction: Answer.\ntools: [{name: preload_memory}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	app := e.Load(t, dir).Name()
	keys := make([]session.Key, googleClients)
	var clients sync.WaitGroup
	for i := range keys {
		keys[i] = session.Key{App: app, User: fmt.Sprintf("user%d", i), ID: fmt.Sprintf("s%d", i)}
		clients.Go(func() {
			if _, err := e.Store.Sessions.Create(t.Context(), keys[i], nil); err != nil {
				t.Error(err)
			}
		})
	}
	clients.Wait()
	requests.Store(0)
	var slowTurns atomic.Int64
	for _, key := range keys {
		clients.Go(func() { slowTurns.Add(talkToGoogle(t, e, key)) })
	}
	clients.Wait()
	limit := googleClients*googleTurns*maxVertexCalls + looksPerTurn*slowTurns.Load()
	if n := requests.Load(); n > limit {
		t.Errorf("%d requests to Vertex AI, want at most %d: %d turns, %d of them slow", n, limit, googleClients*googleTurns, slowTurns.Load())
	}
	for _, key := range keys {
		checkGoogle(t, e, key)
	}
	if n := fake.CountRepeatedEvents(); n != 0 {
		t.Errorf("%d events are stored twice", n)
	}
}

// talkToGoogle holds a user's conversation. It returns how many turns were slow.
func talkToGoogle(t *testing.T, e *testenv.Env, key session.Key) (slowTurns int64) {
	for turn := range googleTurns {
		start := time.Now()
		message := model.UserText(fmt.Sprintf("fact %d of %s", turn, key.User))
		message.Parts = append(message.Parts, &genai.Part{InlineData: &genai.Blob{MIMEType: "image/png", Data: []byte(key.User)}})
		for _, err := range e.Host.Run(t.Context(), &runtime.RunRequest{App: key.App, UserID: key.User, SessionID: key.ID, Message: message}) {
			if err != nil {
				t.Errorf("turn %d of %s: %v", turn, key.User, err)
			}
		}
		if time.Since(start) >= slowTurn {
			slowTurns++
		}
	}
	return slowTurns
}

// checkGoogle checks what is stored from the conversation.
func checkGoogle(t *testing.T, e *testenv.Env, key session.Key) {
	stored, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil || len(stored.Events()) != 2*googleTurns {
		t.Errorf("%s: %v, want %d events", key.User, err, 2*googleTurns)
	}
	files, err := e.Store.Artifacts.Keys(t.Context(), key)
	if err != nil || len(files) != googleTurns {
		t.Errorf("%s: artifacts %v, %v", key.User, files, err)
	}
	found, err := e.Store.Memories.Search(t.Context(), key.App, key.User, store.MemoryQuery{Text: "fact of " + key.User, Limit: 50})
	facts := 0
	for _, m := range found {
		if text := m.Text(); strings.Contains(text, " of "+key.User) && strings.HasPrefix(text, "fact ") {
			facts++
		}
	}
	if err != nil || facts != googleTurns {
		t.Errorf("%s: %d facts, %v", key.User, facts, err)
	}
}
