package vertexstore

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/fake/fakevertex"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
)

const (
	bankURL   = testURL
	corpusURL = "rag://projects/p-1/locations/us-central1/ragCorpora/5"
)

func newMemoryFake() *fakevertex.Server {
	s := newFake()
	s.Corpora = []string{"5"}
	return s
}

// openMemories opens memories by a URL's parameters.
func openMemories(t testing.TB, s *fakevertex.Server, rawURL string) *store.Memories {
	t.Helper()
	b := memstore.NewBackends()
	var err error
	if strings.HasPrefix(rawURL, "rag:") {
		b.MemoryService, err = OpenRAG(t.Context(), rawURL, fakeOptions(s))
	} else {
		b.MemoryService, err = OpenMemoryBank(t.Context(), rawURL, fakeOptions(s))
	}
	if err != nil {
		t.Fatal(err)
	}
	st := store.New(b, nil)
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return st.Memories
}

func memoryEvent(id, author, text string, seconds float64) *session.Event {
	role := genai.RoleModel
	if author == session.UserAuthor {
		role = genai.RoleUser
	}
	return &session.Event{
		ID: id, Author: author, Timestamp: time.UnixMicro(int64(seconds * 1e6)).UTC(),
		Response: model.Response{Content: &genai.Content{Role: role, Parts: []*genai.Part{{Text: text}}}},
	}
}

// find returns each memory's author and text from a search.
func find(t testing.TB, all *store.Memories, key session.Key, q store.MemoryQuery) string {
	t.Helper()
	found, err := all.Search(t.Context(), key.App, key.User, q)
	if err != nil {
		return "error: " + err.Error()
	}
	var lines []string
	for _, m := range found {
		lines = append(lines, m.Author+": "+m.Text())
	}
	return strings.Join(lines, "\n")
}

func expectText(t testing.TB, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

var bob = session.Key{App: "app", User: "bob", ID: "s-1"}

// The Memory Bank extracts facts from events, each event once, and finds them only for the app's
// user. Both ways to add events have the same result.
func TestMemoryBankFindsFactsOnce(t *testing.T) {
	for _, add := range []string{"", "?add=generate"} {
		t.Run("add"+add, func(t *testing.T) {
			s := newMemoryFake()
			s.PollsUntilDone = 1
			all := openMemories(t, s, bankURL+add)
			events := []*session.Event{
				memoryEvent("e1", session.UserAuthor, "I like tea.", 1), memoryEvent("e2", "agent", "Noted.", 2),
				memoryEvent("e3", session.UserAuthor, "My cat is Tom.", 3),
			}
			for range 2 {
				if err := all.AddEvents(t.Context(), bob, events); err != nil {
					t.Fatal(err)
				}
			}
			expectText(t, find(t, all, bob, store.MemoryQuery{Text: "cat"}), "user: My cat is Tom.\nuser: I like tea.")
			expectText(t, find(t, all, bob, store.MemoryQuery{Text: "tea", Limit: 1}), "user: I like tea.")
			expectText(t, find(t, all, session.Key{App: "other", User: "bob"}, store.MemoryQuery{Text: "cat"}), "")
			expectText(t, find(t, all, session.Key{App: "app", User: "eve"}, store.MemoryQuery{Text: "cat"}), "")
			expectText(t, find(t, all, bob, store.MemoryQuery{Text: " "}), "")
		})
	}
}

// Facts are stored as they are, or merged by the service; metadata has the service's types.
func TestMemoryBankFacts(t *testing.T) {
	var bodies []string
	s := newMemoryFake()
	all := openMemories(t, s, bankURL)
	s.Fault = func(r *http.Request) *fakevertex.Fault {
		bodies = append(bodies, r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])
		return nil
	}
	facts := []*session.Memory{{Content: model.UserText("Likes tea."), CustomMetadata: map[string]any{"source": "form", "sure": true, "rank": 2.5}}}
	for i := range 6 {
		facts = append(facts, &session.Memory{Content: model.UserText(fmt.Sprintf("Fact %d.", i)), CustomMetadata: map[string]any{"enable_consolidation": true}})
	}
	if err := all.Add(t.Context(), "app", "bob", facts...); err != nil {
		t.Fatal(err)
	}
	expectText(t, strings.Join(bodies, " "), "memories memories:generate memories:generate")
	if got := strings.Count(find(t, all, bob, store.MemoryQuery{Text: "fact", Limit: 20}), "\n"); got != 6 {
		t.Errorf("found %d line ends, want 6", got)
	}
	err := all.Add(t.Context(), "app", "bob", &session.Memory{ID: "m", Content: model.UserText("x"), CustomMetadata: map[string]any{"enable_consolidation": "yes"}})
	expectText(t, fmt.Sprint(err), `enable_consolidation of memory "m" must be true or false: invalid`)
}

// adk-go writes memories whose scope is only the user; scope=user finds them as well.
func TestMemoryBankUserScope(t *testing.T) {
	s := newMemoryFake()
	own := openMemories(t, s, bankURL)
	if err := own.AddEvents(t.Context(), bob, []*session.Event{memoryEvent("e1", session.UserAuthor, "I like tea.", 1)}); err != nil {
		t.Fatal(err)
	}
	postMemory(t, s, `{"fact": "Drinks green tea.", "scope": {"user_id": "bob"}}`)
	expectText(t, find(t, own, bob, store.MemoryQuery{Text: "green tea"}), "user: I like tea.")
	expectText(t, find(t, openMemories(t, s, bankURL+"?scope=user"), bob, store.MemoryQuery{Text: "green tea"}), "user: Drinks green tea.\nuser: I like tea.")
}

func postMemory(t testing.TB, s *fakevertex.Server, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://x/v1beta1/projects/p-1/locations/us-central1/reasoningEngines/77/memories", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer t-1")
	res, err := s.RoundTrip(r)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res, err)
	}
}

// A user's memories can be deleted, a session's cannot.
func TestMemoryBankDelete(t *testing.T) {
	s := newMemoryFake()
	all := openMemories(t, s, bankURL)
	var events []*session.Event
	for i := range 150 {
		events = append(events, memoryEvent(fmt.Sprint("e", i), session.UserAuthor, fmt.Sprintf("Fact %d.", i), float64(i)))
	}
	if err := all.AddEvents(t.Context(), bob, events); err != nil {
		t.Fatal(err)
	}
	expectText(t, fmt.Sprint(all.Delete(t.Context(), bob)), "the Memory Bank merges session memories: delete all the user's memories: invalid")
	if err := all.DeleteAll(t.Context(), "app", "bob"); err != nil {
		t.Fatal(err)
	}
	expectText(t, find(t, all, bob, store.MemoryQuery{Text: "fact"}), "")
}

// Requests for credentials never reach the Memory Bank, and * is not allowed in a scope.
func TestMemoryBankRejects(t *testing.T) {
	s := newMemoryFake()
	all := openMemories(t, s, bankURL)
	before := s.Requests()
	secret := &session.Event{ID: "e", Author: "agent", Response: model.Response{Content: &genai.Content{Parts: []*genai.Part{
		{FunctionCall: &genai.FunctionCall{Name: "adk_request_credential", Args: map[string]any{"secret": "x"}}},
	}}}}
	if err := all.AddEvents(t.Context(), bob, []*session.Event{secret}); err != nil || s.Requests() != before {
		t.Errorf("AddEvents() = %v with %d requests", err, s.Requests()-before)
	}
	err := all.AddEvents(t.Context(), session.Key{App: "app", User: "b*b"}, []*session.Event{memoryEvent("e", "user", "x", 1)})
	expectText(t, fmt.Sprint(err), `"b*b" contains *, which the Memory Bank does not allow in app and user names: invalid`)
}

// A corpus's files are adk-python's, byte by byte.
func TestRAGFile(t *testing.T) {
	s := newMemoryFake()
	all := openMemories(t, s, corpusURL)
	thought := memoryEvent("e3", "agent", "secret plan", 3)
	thought.Content.Parts[0].Thought = true
	err := all.AddEvents(t.Context(), bob, []*session.Event{
		memoryEvent("e1", session.UserAuthor, "I like \"Käse\" 🧀\nand tea.\\", 1700000000.25), memoryEvent("e2", "agent", "Noted.", 1700000001), thought,
	})
	if err != nil {
		t.Fatal(err)
	}
	expectText(t, strings.Join(s.RAGFiles("5"), "\n"), "adk-memory-v1.YXBw.Ym9i.cy0x\n"+
		`{"author": "user", "timestamp": 1700000000.25, "text": "I like \"K\u00e4se\" \ud83e\uddc0 and tea.\\"}`+"\n"+
		`{"author": "agent", "timestamp": 1700000001.0, "text": "Noted."}`)
	expectText(t, find(t, all, bob, store.MemoryQuery{Text: "tea"}), "user: I like \"Käse\" 🧀 and tea.\\\nagent: Noted.")
}

// Chunks that share events are merged, and cut lines are left out; each event is found once, also
// when its session was added twice.
func TestRAGMerge(t *testing.T) {
	s := newMemoryFake()
	all := openMemories(t, s, corpusURL)
	var events []*session.Event
	var want []string
	for i := range 7 {
		text := fmt.Sprintf("tea number %d", i)
		events, want = append(events, memoryEvent(fmt.Sprint(i), session.UserAuthor, text, float64(100+i))), append(want, "user: "+text)
	}
	for range 2 {
		if err := all.AddEvents(t.Context(), bob, events); err != nil {
			t.Fatal(err)
		}
	}
	other := bob
	other.ID = "s-2"
	if err := all.AddEvents(t.Context(), other, []*session.Event{memoryEvent("x", session.UserAuthor, "coffee and tea", 50)}); err != nil {
		t.Fatal(err)
	}
	expectText(t, find(t, all, bob, store.MemoryQuery{Text: "tea", NotSession: "s-2"}), strings.Join(want, "\n"))
	expectText(t, find(t, all, bob, store.MemoryQuery{Text: "coffee", NotSession: "s-1"}), "user: coffee and tea")
	expectText(t, find(t, all, session.Key{App: "app", User: "eve"}, store.MemoryQuery{Text: "tea"}), "")
	if err := all.Delete(t.Context(), bob); err != nil {
		t.Fatal(err)
	}
	expectText(t, find(t, all, bob, store.MemoryQuery{Text: "tea"}), "user: coffee and tea")
	if err := all.DeleteAll(t.Context(), "app", "bob"); err != nil {
		t.Fatal(err)
	}
	if left := s.RAGFiles("5"); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

// TestRAGParameters: similarity_top_k limits the chunks that a search looks at, over all users, and
// vector_distance_threshold limits their distance.
func TestRAGParameters(t *testing.T) {
	s := newMemoryFake()
	all := openMemories(t, s, corpusURL)
	for i, text := range []string{"tea", "tea with milk", "green tea with milk and sugar"} {
		key := bob
		key.ID = fmt.Sprint(i)
		if err := all.AddEvents(t.Context(), key, []*session.Event{memoryEvent(text, session.UserAuthor, text, 1)}); err != nil {
			t.Fatal(err)
		}
	}
	for parameters, want := range map[string]int{
		"":                               3,
		"?similarity_top_k=2":            2,
		"?vector_distance_threshold=0.5": 2,
		"?vector_distance_threshold=0":   1,
		"?similarity_top_k=1&vector_distance_threshold=0.5": 1,
	} {
		found := strings.Split(find(t, openMemories(t, s, corpusURL+parameters), bob, store.MemoryQuery{Text: "milk sugar tea"}), "\n")
		if len(found) != want {
			t.Errorf("%s: %q, want %d", parameters, found, want)
		}
	}
}

// TestMergeChunks: a chunk that joins two others merges all three; an event with a time that is
// there is left out.
func TestMergeChunks(t *testing.T) {
	at := func(times ...float64) (chunk []ragEvent) {
		for _, time := range times {
			chunk = append(chunk, ragEvent{"a", time, fmt.Sprint(time)})
		}
		return chunk
	}
	got := mergeChunks([][]ragEvent{at(5, 6), at(9), at(1, 2), at(2, 5)})
	if want := [][]ragEvent{at(1, 2, 5, 6), at(9)}; !slices.EqualFunc(got, want, slices.Equal[[]ragEvent]) {
		t.Errorf("mergeChunks() = %v, want %v", got, want)
	}
}

// Earlier versions of ADK wrote file names without base64; other files are not sessions.
func TestDisplayName(t *testing.T) {
	for name, want := range map[string]string{
		"adk-memory-v1.YXBw.Ym9i.cy0x": "app/bob/s-1", "app.bob.s-1": "app/bob/s-1",
		"adk-memory-v1.YXBw.Ym9i": "", "adk-memory-v1.!.Ym9i.cy0x": "", "app.bob": "", "report.pdf": "", "a.b.c.d": "",
	} {
		key, ok := parseDisplayName(name)
		if got := strings.Trim(key.App+"/"+key.User+"/"+key.ID, "/"); got != want || ok != (want != "") {
			t.Errorf("parseDisplayName(%q) = %q, %v", name, got, ok)
		}
	}
	long := session.Key{App: "app", User: strings.Repeat("u", 60), ID: strings.Repeat("s", 60)}
	_, err := newDisplayName(long)
	expectText(t, fmt.Sprint(err), "the app, user and session names are 52 characters too long for a RAG corpus file: use shorter session ids: invalid")
}

func TestOpenMemoryErrors(t *testing.T) {
	for rawURL, want := range map[string]string{
		bankURL + "?x=1":  "unknown parameter x=1: agentengine: memory URLs have the parameters add=generate and scope=user",
		"agentengine://x": "GOOGLE_CLOUD_PROJECT or GOOGLE_CLOUD_LOCATION is not set: set both, or write the full name of the reasoning engine",
		strings.Replace(bankURL, "/77", "/78", 1): "memories of projects/p-1/locations/us-central1/reasoningEngines/78: 404 NOT_FOUND: The ReasoningEngine projects/4711/locations/us-central1/reasoningEngines/78 does not exist.; " +
			"hint: check that projects/p-1/locations/us-central1/reasoningEngines/78 exists in project p-1, and that its location is us-central1",
		corpusURL + "?top_k=5":                       "invalid parameter top_k=5: " + ragParameters,
		corpusURL + "?similarity_top_k=":             "invalid parameter similarity_top_k=: " + ragParameters,
		corpusURL + "?similarity_top_k=0":            "invalid parameter similarity_top_k=0: " + ragParameters,
		corpusURL + "?similarity_top_k=101":          "invalid parameter similarity_top_k=101: " + ragParameters,
		corpusURL + "?similarity_top_k=1.5":          "invalid parameter similarity_top_k=1.5: " + ragParameters,
		corpusURL + "?vector_distance_threshold=x":   "invalid parameter vector_distance_threshold=x: " + ragParameters,
		corpusURL + "?vector_distance_threshold=-1":  "invalid parameter vector_distance_threshold=-1: " + ragParameters,
		corpusURL + "?vector_distance_threshold=NaN": "invalid parameter vector_distance_threshold=NaN: " + ragParameters,
		corpusURL + "?%zz":                           ragParameters,
		corpusURL + "#x":                             "rag: URLs have no parameters and no user: write rag://CORPUS or rag://projects/PROJECT/locations/LOCATION/ragCorpora/CORPUS",
		"rag://":                                     "a RAG corpus is required: write rag://CORPUS or rag://projects/PROJECT/locations/LOCATION/ragCorpora/CORPUS",
		corpusURL + "0":                              "memories of projects/p-1/locations/us-central1/ragCorpora/50: 404 NOT_FOUND: RagCorpus projects/4711/locations/us-central1/ragCorpora/50 not found.; hint: check that projects/p-1/locations/us-central1/ragCorpora/50 exists in project p-1, and that its location is us-central1",
		strings.Replace(corpusURL, "p-1", "p-2", 1): "memories of projects/p-2/locations/us-central1/ragCorpora/5: 403 PERMISSION_DENIED: Permission denied on resource project p-2.; " +
			"hint: check that the project exists, and grant the host's account the role roles/aiplatform.user on it, for projects/p-2/locations/us-central1/ragCorpora/5",
	} {
		var err error
		if strings.HasPrefix(rawURL, "rag:") {
			_, err = OpenRAG(t.Context(), rawURL, fakeOptions(newMemoryFake()))
		} else {
			_, err = OpenMemoryBank(t.Context(), rawURL, fakeOptions(newMemoryFake()))
		}
		expectText(t, fmt.Sprint(err), want)
	}
}

// Temporary failures are retried. An upload is not, because it may have added the file; an error
// in a successful response is an error.
func TestMemoryFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemoryFake()
		bank, rag := openMemories(t, s, bankURL), openMemories(t, s, corpusURL)
		events := []*session.Event{memoryEvent("e1", session.UserAuthor, "I like tea.", 1)}
		failures := 0
		s.Fault = func(r *http.Request) *fakevertex.Fault {
			if failures++; failures > 2 {
				return nil
			}
			return &fakevertex.Fault{Code: 503, Status: "UNAVAILABLE", Late: true}
		}
		if err := bank.AddEvents(t.Context(), bob, events); err != nil {
			t.Error(err)
		}
		s.Fault = func(*http.Request) *fakevertex.Fault {
			return &fakevertex.Fault{Code: 200, Status: "INTERNAL", Message: "indexing failed"}
		}
		err := rag.AddEvents(t.Context(), bob, events)
		expectText(t, fmt.Sprint(err), "memories of projects/p-1/locations/us-central1/ragCorpora/5: 500 INTERNAL: indexing failed")
		s.Fault = func(*http.Request) *fakevertex.Fault { return &fakevertex.Fault{Code: 401, Status: "UNAUTHENTICATED"} }
		_, err = bank.Search(t.Context(), "app", "bob", store.MemoryQuery{Text: "tea"})
		expectText(t, fmt.Sprint(err), "memories of projects/p-1/locations/us-central1/reasoningEngines/77: 401 UNAUTHENTICATED; hint: renew the host's credentials: GOOGLE_APPLICATION_CREDENTIALS, or gcloud auth application-default login")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err = rag.Search(ctx, "app", "bob", store.MemoryQuery{Text: "tea"}); err == nil {
			t.Error("a search with a canceled context has a result")
		}
	})
}

// The Memory Bank has user profiles; other stores have none.
func TestLoadProfiles(t *testing.T) {
	s := newMemoryFake()
	s.Profiles = map[string]any{"guest": map[string]any{"schemaId": "guest", "profile": map[string]any{"diet": "vegan", "seats": 2, "card": json.Number("9007199254740993")}}}
	got, err := openMemories(t, s, bankURL).LoadProfiles(t.Context(), "app", "bob")
	expectText(t, fmt.Sprint(got, err), "map[guest:map[card:9007199254740993 diet:vegan seats:2]] <nil>")
	_, err = openMemories(t, s, corpusURL).LoadProfiles(t.Context(), "app", "bob")
	expectText(t, fmt.Sprint(err), "the memory store has no profiles: they require the Memory Bank of Vertex AI (--memory agentengine://ENGINE): invalid")
}
