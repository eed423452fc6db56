package gemini_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakegemini"
	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/wing/gemini"
)

// clock is a clock that the test advances.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// conversation is a conversation with a model that caches. Like the runtime, it keeps each answer's
// cache metadata for the next request.
type conversation struct {
	llm    model.LLM
	fake   *fakegemini.Server
	clock  *clock
	log    bytes.Buffer
	config model.CacheConfig
	// instruction and tokens belong to the next request and answer.
	instruction string
	tokens      int32
	stream      bool

	contents []*genai.Content
	metadata *model.CacheMetadata
	prompt   int
	shown    int
}

// newConversation connects to the fake with the given options.
func newConversation(t *testing.T, reach func(*fakegemini.Server) *gemini.Options) *conversation {
	t.Helper()
	k := &conversation{
		fake: modeltest.NewFake(t), clock: &clock{now: time.Unix(1_800_000_000, 0)}, instruction: "Answer.", tokens: 5000,
		config: model.CacheConfig{TTL: time.Hour, Intervals: 10},
	}
	k.fake.SetClock(k.clock.read)
	opts := reach(k.fake)
	opts.Clock = k.clock.read
	opts.Logger = slog.New(slog.NewTextHandler(&k.log, nil))
	k.llm = gemini.New("gemini-x", opts)
	return k
}

// ask makes the conversation's next request. The answer is the fake's next reply, or an echo.
func (k *conversation) ask(t *testing.T) (*model.Response, error) {
	t.Helper()
	k.contents = append(k.contents, model.UserText(fmt.Sprint("question ", len(k.contents))))
	req := &model.Request{
		Contents: k.contents, Stream: k.stream,
		Config: &genai.GenerateContentConfig{
			SystemInstruction: &genai.Content{Parts: []*genai.Part{{Text: k.instruction}}},
			Tools:             []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{Name: "f"}}}},
		},
		Cache: &model.CacheRequest{CacheConfig: k.config, Metadata: k.metadata, PromptTokens: k.prompt},
	}
	if k.metadata.Active() {
		again := *k.metadata
		again.Used++
		req.Cache.Metadata = &again
	}
	answers, err := modeltest.Collect(k.llm.Generate(t.Context(), req))
	if err != nil {
		return nil, err
	}
	for _, r := range answers[:len(answers)-1] {
		if r.CacheMetadata != nil {
			t.Errorf("a partial response has cache metadata: %v", r.CacheMetadata)
		}
	}
	whole := answers[len(answers)-1]
	k.contents = append(k.contents, whole.Content)
	k.metadata, k.prompt = whole.CacheMetadata, int(k.tokens)
	return whole, nil
}

// turn makes the next request and returns an outline: the requests that the service received, and
// the answer's cache metadata.
func (k *conversation) turn(t *testing.T) string {
	t.Helper()
	_, err := k.ask(t)
	var b strings.Builder
	reqs := k.fake.Requests()
	for _, r := range reqs[k.shown:] {
		b.WriteString(requestOutline(r) + ", ")
	}
	k.shown = len(reqs)
	switch {
	case err != nil:
		b.WriteString(err.Error())
	case k.metadata.Active():
		fmt.Fprintf(&b, "%s holds %d, use %d", k.metadata.Name, k.metadata.Contents, k.metadata.Used)
	default:
		fmt.Fprintf(&b, "fingerprint of %d", k.metadata.Contents)
	}
	return b.String()
}

func requestOutline(r fakegemini.Request) string {
	contents, _ := r.Body["contents"].([]any)
	switch r.Action {
	case "cachedContents POST":
		return fmt.Sprint("keep ", len(contents))
	case "cachedContents DELETE":
		return "delete " + r.Path[strings.LastIndex(r.Path, "/")+1:]
	}
	if name, ok := r.Body["cachedContent"].(string); ok {
		return fmt.Sprintf("send %d after %s", len(contents), name[strings.LastIndex(name, "/")+1:])
	}
	return fmt.Sprint("send ", len(contents))
}

func TestCacheLife(t *testing.T) {
	refused := fakegemini.Failure(429, "no room")
	tests := []struct {
		name string
		// before acts ahead of a turn, by its number from 1.
		before map[int]func(k *conversation)
		want   []string
	}{
		{"fingerprint, then a cache, then its use", nil, []string{
			"send 1, fingerprint of 1",
			"keep 1, send 2 after 1, cachedContents/1 holds 1, use 1",
			"send 4 after 1, cachedContents/1 holds 1, use 2",
			"send 6 after 1, cachedContents/1 holds 1, use 3",
		}},
		{"used often enough", map[int]func(*conversation){1: func(k *conversation) { k.config.Intervals = 2 }}, []string{
			"send 1, fingerprint of 1",
			"keep 1, send 2 after 1, cachedContents/1 holds 1, use 1",
			"send 4 after 1, cachedContents/1 holds 1, use 2",
			"delete 1, keep 1, send 6 after 2, cachedContents/2 holds 1, use 1",
		}},
		{"its time is over", map[int]func(*conversation){3: func(k *conversation) { k.clock.pass(time.Hour) }}, []string{
			"send 1, fingerprint of 1",
			"keep 1, send 2 after 1, cachedContents/1 holds 1, use 1",
			"delete 1, keep 1, send 4 after 2, cachedContents/2 holds 1, use 1",
		}},
		{"its time is nearly over", map[int]func(*conversation){3: func(k *conversation) { k.clock.pass(time.Hour - 1) }}, []string{
			"send 1, fingerprint of 1",
			"keep 1, send 2 after 1, cachedContents/1 holds 1, use 1",
			"send 4 after 1, cachedContents/1 holds 1, use 2",
		}},
		{"another instruction", map[int]func(*conversation){3: func(k *conversation) { k.instruction = "Sing." }}, []string{
			"send 1, fingerprint of 1",
			"keep 1, send 2 after 1, cachedContents/1 holds 1, use 1",
			"delete 1, send 5, fingerprint of 5",
			"keep 5, send 2 after 2, cachedContents/2 holds 5, use 1",
		}},
		{"another conversation", map[int]func(*conversation){2: func(k *conversation) { k.contents = []*genai.Content{model.UserText("another topic")} }}, []string{
			"send 1, fingerprint of 1",
			"send 2, fingerprint of 2",
		}},
		{"nothing after what is kept", map[int]func(*conversation){3: func(k *conversation) { k.contents = nil }}, []string{
			"send 1, fingerprint of 1",
			"keep 1, send 2 after 1, cachedContents/1 holds 1, use 1",
			"delete 1, send 1, fingerprint of 1",
		}},
		{"a small prompt", map[int]func(*conversation){
			1: func(k *conversation) { k.tokens = 4095 }, 2: func(k *conversation) { k.tokens = 4096 },
		}, []string{
			"send 1, fingerprint of 1",
			"send 3, fingerprint of 1",
			"keep 1, send 4 after 1, cachedContents/1 holds 1, use 1",
		}},
		{"smaller than asked", map[int]func(*conversation){1: func(k *conversation) { k.config.MinTokens = 5001 }}, []string{
			"send 1, fingerprint of 1", "send 3, fingerprint of 1",
		}},
		{"size not known", map[int]func(*conversation){1: func(k *conversation) { k.tokens = 0 }}, []string{
			"send 1, fingerprint of 1", "send 3, fingerprint of 1",
		}},
		{"the service keeps nothing", map[int]func(*conversation){
			2: func(k *conversation) { k.fake.RefuseCaches("POST", &refused) }, 4: func(k *conversation) { k.fake.RefuseCaches("POST", nil) },
		}, []string{
			"send 1, fingerprint of 1",
			"keep 1, send 3, fingerprint of 1",
			"keep 1, send 5, fingerprint of 1",
			"keep 1, send 6 after 1, cachedContents/1 holds 1, use 1",
		}},
		{"the service deletes nothing", map[int]func(*conversation){3: func(k *conversation) {
			k.fake.RefuseCaches("DELETE", &refused)
			k.instruction = "Sing."
		}}, []string{
			"send 1, fingerprint of 1",
			"keep 1, send 2 after 1, cachedContents/1 holds 1, use 1",
			"delete 1, send 5, fingerprint of 5",
		}},
		{"deleted by another client", map[int]func(*conversation){3: func(k *conversation) { k.fake.DropCaches() }}, []string{
			"send 1, fingerprint of 1",
			"keep 1, send 2 after 1, cachedContents/1 holds 1, use 1",
			"send 4 after 1, send 5, fingerprint of 1",
			"keep 1, send 6 after 2, cachedContents/2 holds 1, use 1",
		}},
		{"the request is at fault", map[int]func(*conversation){3: func(k *conversation) {
			k.fake.Enqueue(fakegemini.Failure(400, "bad image"), fakegemini.Failure(400, "bad image"))
		}}, []string{
			"send 1, fingerprint of 1",
			"keep 1, send 2 after 1, cachedContents/1 holds 1, use 1",
			"send 4 after 1, send 5, model: 400 INVALID_ARGUMENT: bad image",
		}},
		{"the service is at fault", map[int]func(*conversation){3: func(k *conversation) {
			k.fake.Enqueue(fakegemini.Failure(503, "overloaded"))
		}}, []string{
			"send 1, fingerprint of 1",
			"keep 1, send 2 after 1, cachedContents/1 holds 1, use 1",
			"send 4 after 1, model: 503 UNAVAILABLE: overloaded",
		}},
	}
	for _, tt := range tests {
		for _, stream := range []bool{false, true} {
			t.Run(tt.name+"/"+modeltest.Mode(stream), func(t *testing.T) {
				k := newConversation(t, modeltest.FakeOptions)
				k.stream = stream
				var got []string
				for i := range tt.want {
					if act := tt.before[i+1]; act != nil {
						act(k)
					}
					got = append(got, k.turn(t))
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("the turns (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// Cache errors are only logged.
func TestCacheLog(t *testing.T) {
	k := newConversation(t, modeltest.FakeOptions)
	refused := fakegemini.Failure(429, "no room")
	k.fake.RefuseCaches("POST", &refused)
	k.turn(t)
	k.turn(t)
	k.fake.RefuseCaches("POST", nil)
	k.turn(t)
	k.fake.RefuseCaches("DELETE", &refused)
	k.instruction = "Sing."
	k.turn(t)
	k.fake.RefuseCaches("DELETE", nil)
	k.turn(t)
	k.fake.DropCaches()
	k.turn(t)
	k.turn(t)
	k.clock.pass(time.Hour) // what has ended need not be deleted: nothing is logged
	k.turn(t)
	want := []string{
		`level=WARN msg="creating context cache failed, sending all contents" model=gemini-x error="model: 429 RESOURCE_EXHAUSTED: no room"`,
		`level=WARN msg="deleting context cache failed" model=gemini-x cache=cachedContents/1 error="model: 429 RESOURCE_EXHAUSTED: no room"`,
		`level=WARN msg="cached contents unusable, sending all contents" model=gemini-x cache=cachedContents/2 ` +
			`error="model: 403 PERMISSION_DENIED: CachedContent not found (or permission denied)"`,
	}
	var got []string
	for line := range strings.Lines(k.log.String()) {
		_, record, _ := strings.Cut(strings.TrimSpace(line), " ")
		got = append(got, record)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// A cache contains the settings that its requests omit, but no display names: the Gemini API
// rejects them.
func TestCacheBodies(t *testing.T) {
	k := newConversation(t, modeltest.FakeOptions)
	k.contents = []*genai.Content{{Role: genai.RoleUser, Parts: []*genai.Part{
		{InlineData: &genai.Blob{DisplayName: "cat.png", MIMEType: "image/png", Data: []byte{1}}},
	}}}
	k.turn(t)
	k.turn(t)
	got := []any{k.fake.Requests()[1].Body, k.fake.Requests()[2].Body}
	const want = `[
		{
			"model": "models/gemini-x", "ttl": "3600s", "displayName": "adk-cache-1800000000-2contents",
			"contents": [
				{"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "AQ=="}}]},
				{"role": "user", "parts": [{"text": "question 1"}]}
			],
			"systemInstruction": {"parts": [{"text": "Answer."}]},
			"tools": [{"functionDeclarations": [{"name": "f"}]}]
		},
		{
			"cachedContent": "cachedContents/1", "generationConfig": {},
			"contents": [{"role": "model", "parts": [{"text": "question 1"}]}, {"role": "user", "parts": [{"text": "question 3"}]}]
		}
	]`
	var wanted []any
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("bodies (-want +got):\n%s", diff)
	}
	m := &model.CacheMetadata{
		Name: "cachedContents/1", Expires: k.clock.read().Add(time.Hour), Used: 1, Contents: 2, Created: k.clock.read(),
		Fingerprint: k.metadata.Fingerprint,
	}
	if diff := cmp.Diff(m, k.metadata); diff != "" || len(m.Fingerprint) != 16 {
		t.Errorf("metadata with a fingerprint of 16 digits (-want +got):\n%s", diff)
	}
}

// On Vertex AI, cache names include the project's path.
func TestCacheVertex(t *testing.T) {
	k := newConversation(t, modeltest.VertexOptions)
	const name = "projects/p/locations/global/cachedContents/1"
	want := []string{
		"send 1, fingerprint of 1",
		"keep 1, send 2 after 1, " + name + " holds 1, use 1",
		"send 4 after 1, " + name + " holds 1, use 2",
	}
	got := []string{k.turn(t), k.turn(t), k.turn(t)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the turns (-want +got):\n%s", diff)
	}
}

// A retried call uses the cache that was created for it.
func TestCacheRetry(t *testing.T) {
	var waited modeltest.Waits
	k := newConversation(t, func(fake *fakegemini.Server) *gemini.Options {
		opts := modeltest.FakeOptions(fake)
		opts.Retry = provider.RetryOptions{Wait: waited.Wait}
		return opts
	})
	k.turn(t)
	k.fake.Enqueue(fakegemini.Failure(503, "overloaded"))
	const want = "keep 1, send 2 after 1, send 2 after 1, cachedContents/1 holds 1, use 1"
	if got := k.turn(t); got != want {
		t.Errorf("the turn is %s, want %s", got, want)
	}
}

// Parallel conversations have separate caches.
func TestCacheParallel(t *testing.T) {
	first := newConversation(t, modeltest.FakeOptions)
	var group sync.WaitGroup
	for i := range 8 {
		k := *first
		k.instruction = fmt.Sprint("Agent ", i)
		group.Go(func() {
			for range 4 {
				if _, err := k.ask(t); err != nil {
					t.Errorf("conversation %d: %v", i, err)
					return
				}
			}
			if !k.metadata.Active() || k.metadata.Used != 3 || k.metadata.Contents != 1 {
				t.Errorf("conversation %d ends with %+v, want a cache of one content, used 3 times", i, k.metadata)
			}
		})
	}
	group.Wait()
	if n := len(first.fake.Caches()); n != 8 {
		t.Errorf("the service keeps %d caches, want 8", n)
	}
}

// Without Cache, responses have no cache metadata.
func TestCacheNotRequested(t *testing.T) {
	fake := modeltest.NewFake(t)
	got, err := modeltest.Ask(t, gemini.New("gemini-x", modeltest.FakeOptions(fake)), false)
	if err != nil || got[0].CacheMetadata != nil {
		t.Errorf("Generate() = %+v, %v, want no metadata", got, err)
	}
}

func TestCanCache(t *testing.T) {
	gemini, scripted := gemini.New("gemini-x", nil), provider.NewScripted(modeltest.Script(t, "- text: ok"), nil)
	for llm, want := range map[model.LLM]bool{gemini: true, scripted: false, nil: false} {
		if got := model.CanCache(llm); got != want {
			t.Errorf("CanCache(%T) = %v, want %v", llm, got, want)
		}
	}
}

func TestCacheActive(t *testing.T) {
	for _, m := range []*model.CacheMetadata{nil, {}, {Name: "c"}, {Name: "c", Used: 1}, {Used: 1, Expires: time.Unix(1, 0)}} {
		if m.Active() {
			t.Errorf("%+v is active: it describes only half of a cache", m)
		}
	}
}
