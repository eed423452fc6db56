package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// eventAtMinute returns a text event at a minute of the day.
func eventAtMinute(id, author, text string, minute int) *session.Event {
	ev := textEvent(author, text)
	ev.ID, ev.Timestamp = id, time.Date(2026, 11, 21, 10, minute, 0, 0, time.UTC)
	return ev
}

func newSession(key session.Key, events ...*session.Event) *session.Session {
	return &session.Session{Key: key, History: session.NewHistory(events), State: session.NewState(nil)}
}

func addToMemory(t testing.TB, s *testStore, sess *session.Session) {
	t.Helper()
	if err := s.Memories.AddSession(t.Context(), sess); err != nil {
		t.Fatalf("AddSession(%v) = %v", sess.Key, err)
	}
}

func addEvents(t testing.TB, s *testStore, key session.Key, events ...*session.Event) {
	t.Helper()
	if err := s.Memories.AddEvents(t.Context(), key, events); err != nil {
		t.Fatalf("AddEvents(%v) = %v", key, err)
	}
}

// searchText are the texts that a query finds, joined by bars.
func searchText(t testing.TB, s *testStore, key session.Key, query string) string {
	t.Helper()
	return searchSessions(t, s, key, store.MemoryQuery{Text: query})
}

func searchSessions(t testing.TB, s *testStore, key session.Key, q store.MemoryQuery) string {
	t.Helper()
	ms, err := s.Memories.Search(t.Context(), key.App, key.User, q)
	if err != nil {
		t.Fatalf("Search(%q) = %v", q.Text, err)
	}
	var texts []string
	for _, m := range ms {
		texts = append(texts, m.Text())
	}
	return strings.Join(texts, "|")
}

// A memorySuite tests user memories.
type memorySuite struct{ *Suite }

func (su memorySuite) listTests() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"MemoryRoundTrip":       su.testMemoryRoundTrip,
		"MemoryAdd":             su.testMemoryAdd,
		"MemoryWithoutSession":  su.testMemoryWithoutSession,
		"MemoryRanking":         su.testMemoryRanking,
		"MemoryCommonWords":     su.testMemoryCommonWords,
		"MemoryVeryCommonWords": su.testMemoryVeryCommonWords,
		"MemoryLanguages":       su.testMemoryLanguages,
		"MemoryScopes":          su.testMemoryScopes,
		"MemoryDelete":          su.testMemoryDelete,
		"MemoryExcludeSession":  su.testMemoryExcludeSession,
		"MemoryRewound":         su.testMemoryRewound,
		"MemoryInvalid":         su.testMemoryInvalid,
		"MemoryClosed":          su.testMemoryClosed,
		"MemoryConcurrent":      su.testMemoryConcurrent,
	}
}

func (su memorySuite) testMemoryRoundTrip(t *testing.T) {
	s := su.open(t, nil)
	addToMemory(t, s, newSession(alice, eventAtMinute("e1", "user", "My cat is Milo <3", 1)))
	ms, err := s.Memories.Search(t.Context(), "app", "alice", store.MemoryQuery{Text: "cat?"})
	want := []*session.Memory{{
		Content: &genai.Content{Role: "user", Parts: []*genai.Part{{Text: "My cat is Milo <3"}}},
		Author:  "user", ID: "e1", Timestamp: time.Date(2026, 11, 21, 10, 1, 0, 0, time.UTC),
	}}
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "memories", want, ms)
	ms[0].Content.Parts[0].Text = "changed"
	diff(t, "after a change by the caller", "My cat is Milo <3", searchText(t, s, alice, "cat"))
}

// Adding a session replaces its memories; adding events adds the new ones.
func (su memorySuite) testMemoryAdd(t *testing.T) {
	s := su.open(t, nil)
	addToMemory(t, s, newSession(alice, eventAtMinute("a", "user", "word one", 1), eventAtMinute("b", "agent", "word two", 2)))
	other := session.Key{App: "app", User: "alice", ID: "other"}
	addToMemory(t, s, newSession(other, eventAtMinute("a", "user", "word other", 3)))
	diff(t, "two sessions", "word other|word two|word one", searchText(t, s, alice, "word"))

	addToMemory(t, s, newSession(alice, eventAtMinute("b", "agent", "word changed", 2), eventAtMinute("c", "user", "word new", 4)))
	diff(t, "added again", "word new|word other|word changed", searchText(t, s, alice, "word"))
	diff(t, "what was replaced", "", searchText(t, s, alice, "two"))

	addEvents(t, s, alice, eventAtMinute("c", "user", "word other than before", 5), eventAtMinute("d", "user", "word last", 6))
	diff(t, "events", "word last|word new|word other|word changed", searchText(t, s, alice, "word"))
	addEvents(t, s, alice)
	addToMemory(t, s, newSession(alice))
	diff(t, "an empty session", "word other", searchText(t, s, alice, "word"))

	addEvents(t, s, session.Key{App: "app", User: "alice"}, eventAtMinute("a", "user", "word of no session", 7))
	diff(t, "of no session", "word of no session|word other", searchText(t, s, alice, "word"))
}

func (su memorySuite) testMemoryWithoutSession(t *testing.T) {
	clock := func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 123456789, time.UTC) }
	s := su.open(t, &store.Options{Clock: clock, NewID: func() string { return "new" }})
	given := &session.Memory{Content: model.UserText("likes tea"), Author: "user", CustomMetadata: map[string]any{"from": "form", "n": 1}}
	if err := s.Memories.Add(t.Context(), "app", "alice", given); err != nil {
		t.Fatal(err)
	}
	ms, err := s.Memories.Search(t.Context(), "app", "alice", store.MemoryQuery{Text: "tea"})
	if err != nil {
		t.Fatal(err)
	}
	want := []*session.Memory{{
		Content: model.UserText("likes tea"), Author: "user", ID: "new", Timestamp: clock().Truncate(time.Microsecond),
		CustomMetadata: map[string]any{"from": "form", "n": int64(1)},
	}}
	diff(t, "memories", want, ms)
	if given.ID != "" || !given.Timestamp.IsZero() {
		t.Errorf("what was given has changed: %+v", given)
	}
	again := &session.Memory{ID: "new", Content: model.UserText("likes coffee")}
	if err := s.Memories.Add(t.Context(), "app", "alice", again); err != nil {
		t.Fatal(err)
	}
	diff(t, "the same id", "likes coffee", searchText(t, s, alice, "likes tea coffee"))
}

// More words, rarer words, and later ones come first.
func (su memorySuite) testMemoryRanking(t *testing.T) {
	s := su.open(t, nil)
	addEvents(t, s, alice,
		eventAtMinute("1", "user", "red car", 1), eventAtMinute("2", "user", "red house", 2), eventAtMinute("3", "user", "red roof", 3),
		eventAtMinute("4", "user", "blue house", 4), eventAtMinute("5", "user", "blue car", 1), eventAtMinute("6", "user", "nothing of it", 9))
	for _, tt := range []struct{ query, want string }{
		{"red house", "red house|blue house|red roof|red car"},
		{"roof red", "red roof|red house|red car"},
		{"CAR", "blue car|red car"}, // with one time: the later added
		{"green", ""},
		{"", ""},
		{"?!", ""},
		{"house house house roof", "red roof|blue house|red house"},
		{`"roof" OR NOT * red:`, "red roof|red house|red car"},
		{"'; DROP TABLE memories; -- roof", "red roof"},
	} {
		diff(t, tt.query, tt.want, searchText(t, s, alice, tt.query))
	}
	diff(t, "limit", "red house|blue house", searchSessions(t, s, alice, store.MemoryQuery{Text: "red house", Limit: 2}))
}

// Terms that occur in nearly all memories are ignored unless the query has no other.
func (su memorySuite) testMemoryCommonWords(t *testing.T) {
	s := su.open(t, nil)
	var events []*session.Event
	for i := range 20 {
		events = append(events, eventAtMinute(fmt.Sprint(i), "user", fmt.Sprintf("the n%d", i), i))
	}
	addEvents(t, s, alice, events...)
	diff(t, "with a rare word", "the n7", searchText(t, s, alice, "the n7"))
	diff(t, "alone", "the n19|the n18", searchSessions(t, s, alice, store.MemoryQuery{Text: "the", Limit: 2}))
	ms, err := s.Memories.Search(t.Context(), "app", "alice", store.MemoryQuery{Text: "the"})
	if err != nil || len(ms) != 10 {
		t.Errorf("without a limit: %d memories, %v", len(ms), err)
	}
}

// A word in very many memories counts as common, however many there are.
func (su memorySuite) testMemoryVeryCommonWords(t *testing.T) {
	s := su.open(t, nil)
	var events []*session.Event
	for i := range 2*store.ManyMemories + 2 {
		text := fmt.Sprintf("often n%d", i)
		if i > store.ManyMemories+1 {
			text = fmt.Sprintf("seldom n%d", i)
		}
		events = append(events, eventAtMinute(fmt.Sprint(i), "user", text, i))
	}
	addEvents(t, s, alice, events...)
	diff(t, "with a rarer word", "often n7", searchText(t, s, alice, "often n7"))
	diff(t, "alone", "often n1001", searchSessions(t, s, alice, store.MemoryQuery{Text: "often", Limit: 1}))
	diff(t, "at the bound", "often n7|seldom n2001", searchSessions(t, s, alice, store.MemoryQuery{Text: "seldom n7", Limit: 2}))
}

func (su memorySuite) testMemoryLanguages(t *testing.T) {
	s := su.open(t, nil)
	texts := []string{
		"Meu irmão João mora em São Paulo", "明日の天気は雨です", "寿司が好きです", "我的猫叫小黑", "ฉันชอบกินข้าวผัด",
		"우리 집에 고양이가 있어요", "Der Weg zur Straße", "мой пёс Рекс", "ｶﾀｶﾅ",
	}
	for i, text := range texts {
		addEvents(t, s, alice, eventAtMinute(fmt.Sprint(i), "user", text, i))
	}
	for _, tt := range []struct {
		query string
		want  int
	}{
		{"irmao joao", 0},
		{"SÃO", 0},
		{"天気", 1},
		{"寿司", 2},
		{"猫的名字", 3},
		{"ข้าวผัด", 4},
		{"고양이", 5},
		{"집", 5},
		{"STRASSE", 6},
		{"Пес", 7},
		{"カタカナ", 8},
	} {
		diff(t, tt.query, texts[tt.want], searchSessions(t, s, alice, store.MemoryQuery{Text: tt.query, Limit: 1}))
	}
}

// Users see only their own memories, for any ID form.
func (su memorySuite) testMemoryScopes(t *testing.T) {
	keys := []session.Key{
		{App: "app", User: "u", ID: "s"},
		{App: "app", User: "U", ID: "s"},
		{App: "App", User: "u", ID: "s"},
		{App: "app", User: "u ", ID: "s"},
		{App: "app/u", User: "s", ID: "s"},
		{App: "app", User: "u/s", ID: "s"},
		{App: "app", User: "ü", ID: "s"},
		{App: "app", User: "u\u0308", ID: "s"},
		{App: "app", User: "%", ID: "s"},
		{App: "app", User: "_", ID: "s"},
		{App: "app", User: "user:u", ID: "s"},
		{App: "a", User: "pp", ID: "s"},
		{App: "app", User: "' OR 1=1 --", ID: "s"},
	}
	s := su.open(t, nil)
	for i, key := range keys {
		addToMemory(t, s, newSession(key, eventAtMinute("e", "user", fmt.Sprintf("secret %d", i), i)))
	}
	for i, key := range keys {
		diff(t, fmt.Sprint(key), fmt.Sprintf("secret %d", i), searchText(t, s, key, "secret"))
	}
	if err := s.Memories.DeleteAll(t.Context(), keys[0].App, keys[0].User); err != nil {
		t.Fatal(err)
	}
	if err := s.Memories.Delete(t.Context(), keys[1]); err != nil {
		t.Fatal(err)
	}
	for i, key := range keys {
		want := fmt.Sprintf("secret %d", i)
		if i < 2 {
			want = ""
		}
		diff(t, "after deletions: "+fmt.Sprint(key), want, searchText(t, s, key, "secret"))
	}
}

// Deleting a session leaves its memories; they are deleted by themselves.
func (su memorySuite) testMemoryDelete(t *testing.T) {
	other := session.Key{App: "app", User: "alice", ID: "other"}
	s := su.open(t, nil)
	for _, key := range []session.Key{alice, other} {
		sess := createSession(t, s, key, nil)
		appendEvent(t, s, sess, textEvent("user", "word of "+key.ID))
		addToMemory(t, s, sess)
	}
	if err := s.Sessions.Delete(t.Context(), alice); err != nil {
		t.Fatal(err)
	}
	diff(t, "without the session", "word of s", searchText(t, s, alice, "s"))
	if err := s.Memories.Delete(t.Context(), alice); err != nil {
		t.Fatal(err)
	}
	diff(t, "deleted", "word of other", searchText(t, s, alice, "word"))
	for range 2 {
		if err := s.Memories.DeleteAll(t.Context(), "app", "alice"); err != nil {
			t.Fatal(err)
		}
		diff(t, "all deleted", "", searchText(t, s, alice, "word"))
	}
	addEvents(t, s, alice, eventAtMinute("e", "user", "word again", 1))
	diff(t, "begun again", "word again", searchText(t, s, alice, "word"))
}

func (su memorySuite) testMemoryExcludeSession(t *testing.T) {
	other := session.Key{App: "app", User: "alice", ID: "other"}
	s := su.open(t, nil)
	addToMemory(t, s, newSession(alice, eventAtMinute("e", "user", "word here", 1)))
	addToMemory(t, s, newSession(other, eventAtMinute("e", "user", "word there", 2)))
	addEvents(t, s, session.Key{App: "app", User: "alice"}, eventAtMinute("e", "user", "word elsewhere", 3))
	diff(t, "others", "word elsewhere|word there", searchSessions(t, s, alice, store.MemoryQuery{Text: "word", NotSession: "s"}))
}

// Rewound events are not remembered.
func (su memorySuite) testMemoryRewound(t *testing.T) {
	s := su.open(t, nil)
	back := eventAtMinute("r", "user", "", 3)
	back.Content, back.Actions.RewindBeforeInvocationID = nil, "e-2"
	first, second := eventAtMinute("1", "user", "word one", 1), eventAtMinute("2", "user", "word two", 2)
	first.InvocationID, second.InvocationID, back.InvocationID = "e-1", "e-2", "e-3"
	addToMemory(t, s, newSession(alice, first, second, back))
	diff(t, "remembered", "word one", searchText(t, s, alice, "word"))
}

func (su memorySuite) testMemoryInvalid(t *testing.T) {
	long := strings.Repeat("x", 300)
	s := su.open(t, nil)
	ctx, m := t.Context(), s.Memories
	ended, cancel := context.WithCancel(ctx)
	cancel()
	search := func(ctx context.Context, user string, q store.MemoryQuery) error {
		_, err := m.Search(ctx, "app", user, q)
		return err
	}
	tea := func(id string) *session.Memory { return &session.Memory{ID: id, Content: model.UserText("tea")} }
	for _, tt := range []struct {
		what string
		err  error
		want error
		text string
	}{
		{"session without id", m.AddSession(ctx, newSession(session.Key{App: "a", User: "u"})), session.ErrInvalid, "session id is required"},
		{"events without user", m.AddEvents(ctx, session.Key{App: "a"}, nil), session.ErrInvalid, "user is required"},
		{"events of a long session id", m.AddEvents(ctx, session.Key{App: "a", User: "u", ID: long}, nil), session.ErrInvalid, "session id exceeds the limit"},
		{"memory without text", m.Add(ctx, "app", "u", &session.Memory{ID: "m1"}), session.ErrInvalid, `memory "m1" has no text`},
		{"memory of a long id", m.Add(ctx, "app", "u", tea(long)), session.ErrInvalid, "memory id exceeds the limit"},
		{"memory without user", m.Add(ctx, "app", "", tea("")), session.ErrInvalid, "user is required"},
		{"delete without session", m.Delete(ctx, session.Key{App: "a", User: "u"}), session.ErrInvalid, "session id is required"},
		{"delete without user", m.DeleteAll(ctx, "a", ""), session.ErrInvalid, "user is required"},
		{"search without user", search(ctx, "", store.MemoryQuery{Text: "x"}), session.ErrInvalid, "user is required"},
		{"search of less than none", search(ctx, "u", store.MemoryQuery{Text: "x", Limit: -1}), session.ErrInvalid, "limit must not be negative, got -1"},
		{"cancelled search", search(ended, "u", store.MemoryQuery{Text: "x"}), context.Canceled, ""},
		{"cancelled add", m.Add(ended, "app", "u", tea("")), context.Canceled, ""},
		{"cancelled delete", m.DeleteAll(ended, "app", "u"), context.Canceled, ""},
	} {
		wantErr(t, tt.what, tt.err, wantedError{tt.want, tt.text})
	}
	bad := tea("m")
	bad.CustomMetadata = map[string]any{"k": make(chan int)}
	wantErr(t, "metadata that JSON cannot represent", m.Add(ctx, "app", "u", tea("good"), bad), wantedError{session.ErrInvalid, "customMetadata"})
	diff(t, "nothing was added", "", searchText(t, s, session.Key{App: "app", User: "u"}, "tea"))
}

func (su memorySuite) testMemoryClosed(t *testing.T) {
	s := su.open(t, nil)
	addEvents(t, s, alice, eventAtMinute("e", "user", "word", 1))
	closeStore(t, s)
	ctx, m := t.Context(), s.Memories
	_, err := m.Search(ctx, "app", "alice", store.MemoryQuery{Text: "word"})
	wantErr(t, "Search", err, wantedError{store.ErrClosed, "store is closed"})
	wantErr(t, "AddEvents", m.AddEvents(ctx, alice, []*session.Event{eventAtMinute("f", "user", "x", 1)}), wantedError{store.ErrClosed, "store is closed"})
	wantErr(t, "DeleteAll", m.DeleteAll(ctx, "app", "alice"), wantedError{store.ErrClosed, "store is closed"})
}

func (su memorySuite) testMemoryConcurrent(t *testing.T) {
	s := su.open(t, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		key := session.Key{App: "app", User: fmt.Sprint(i % 2), ID: fmt.Sprint(i)}
		wg.Go(func() {
			for j := range 5 {
				addEvents(t, s, key, eventAtMinute(fmt.Sprint(j), "user", "word", j))
				searchText(t, s, key, "word")
			}
		})
	}
	wg.Wait()
	for _, user := range []string{"0", "1"} {
		if got := searchSessions(t, s, session.Key{App: "app", User: user}, store.MemoryQuery{Text: "word", Limit: 100}); strings.Count(got, "word") != 20 {
			t.Errorf("user %s: %s", user, got)
		}
	}
}
