package store

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

func addToMemory(t testing.TB, s *Store, sess *session.Session) {
	t.Helper()
	if err := s.Memories.AddSession(t.Context(), sess); err != nil {
		t.Fatalf("AddSession(%v) = %v", sess.Key, err)
	}
}

func addEvents(t testing.TB, s *Store, key session.Key, events ...*session.Event) {
	t.Helper()
	if err := s.Memories.AddEvents(t.Context(), key, events); err != nil {
		t.Fatalf("AddEvents(%v) = %v", key, err)
	}
}

// searchText are the texts that a query finds, joined by bars.
func searchText(t testing.TB, s *Store, key session.Key, query string) string {
	t.Helper()
	return searchSessions(t, s, key, MemoryQuery{Text: query})
}

func searchSessions(t testing.TB, s *Store, key session.Key, q MemoryQuery) string {
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

func TestMemoryRoundTrip(t *testing.T) {
	eachBackend(t, func(t *testing.T, s *Store) {
		addToMemory(t, s, newSession(alice, eventAtMinute("e1", "user", "My cat is Milo <3", 1)))
		ms, err := s.Memories.Search(t.Context(), "app", "alice", MemoryQuery{Text: "cat?"})
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
	})
}

// Adding a session replaces its memories; adding events adds the new ones.
func TestMemoryAdd(t *testing.T) {
	eachBackend(t, func(t *testing.T, s *Store) {
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
	})
}

func TestMemoryWithoutSession(t *testing.T) {
	clock := func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 123456789, time.UTC) }
	for _, be := range backends() {
		t.Run(be.name, func(t *testing.T) {
			s := openStore(t, be.url(t), &Options{Clock: clock, NewID: func() string { return "new" }})
			given := &session.Memory{Content: model.UserText("likes tea"), Author: "user", CustomMetadata: map[string]any{"from": "form", "n": 1}}
			if err := s.Memories.Add(t.Context(), "app", "alice", given); err != nil {
				t.Fatal(err)
			}
			ms, err := s.Memories.Search(t.Context(), "app", "alice", MemoryQuery{Text: "tea"})
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
		})
	}
}

// More of the words, rarer words, and later ones come first.
func TestMemoryRanking(t *testing.T) {
	eachBackend(t, func(t *testing.T, s *Store) {
		addEvents(t, s, alice,
			eventAtMinute("1", "user", "red car", 1), eventAtMinute("2", "user", "red house", 2), eventAtMinute("3", "user", "red roof", 3),
			eventAtMinute("4", "user", "blue house", 4), eventAtMinute("5", "user", "blue car", 1), eventAtMinute("6", "user", "nothing of it", 9))
		for _, tt := range []struct{ query, want string }{
			{"red house", "red house|blue house|red roof|red car"},
			{"roof red", "red roof|red house|red car"},
			{"CAR", "blue car|red car"}, // of one time: the later added
			{"green", ""},
			{"", ""},
			{"?!", ""},
			{"house house house roof", "red roof|blue house|red house"},
			{`"roof" OR NOT * red:`, "red roof|red house|red car"},
			{"'; DROP TABLE memories; -- roof", "red roof"},
		} {
			diff(t, tt.query, tt.want, searchText(t, s, alice, tt.query))
		}
		diff(t, "limit", "red house|blue house", searchSessions(t, s, alice, MemoryQuery{Text: "red house", Limit: 2}))
	})
}

// Terms that occur in nearly all memories are ignored unless the query has no other.
func TestMemoryCommonWords(t *testing.T) {
	eachBackend(t, func(t *testing.T, s *Store) {
		var events []*session.Event
		for i := range fewMemories {
			events = append(events, eventAtMinute(fmt.Sprint(i), "user", fmt.Sprintf("the n%d", i), i))
		}
		addEvents(t, s, alice, events...)
		diff(t, "with a rare word", "the n7", searchText(t, s, alice, "the n7"))
		diff(t, "alone", "the n19|the n18", searchSessions(t, s, alice, MemoryQuery{Text: "the", Limit: 2}))
		ms, err := s.Memories.Search(t.Context(), "app", "alice", MemoryQuery{Text: "the"})
		if err != nil || len(ms) != defaultFound {
			t.Errorf("without a limit: %d memories, %v", len(ms), err)
		}
	})
}

// A word of very many memories counts as common, however many there are.
func TestMemoryVeryCommonWords(t *testing.T) {
	eachBackend(t, func(t *testing.T, s *Store) {
		var events []*session.Event
		for i := range 2*manyMemories + 2 {
			text := fmt.Sprintf("often n%d", i)
			if i > manyMemories+1 {
				text = fmt.Sprintf("seldom n%d", i)
			}
			events = append(events, eventAtMinute(fmt.Sprint(i), "user", text, i))
		}
		addEvents(t, s, alice, events...)
		diff(t, "with a rarer word", "often n7", searchText(t, s, alice, "often n7"))
		diff(t, "alone", "often n1001", searchSessions(t, s, alice, MemoryQuery{Text: "often", Limit: 1}))
		diff(t, "at the bound", "often n7|seldom n2001", searchSessions(t, s, alice, MemoryQuery{Text: "seldom n7", Limit: 2}))
	})
}

func TestMemoryLanguages(t *testing.T) {
	eachBackend(t, func(t *testing.T, s *Store) {
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
			diff(t, tt.query, texts[tt.want], searchSessions(t, s, alice, MemoryQuery{Text: tt.query, Limit: 1}))
		}
	})
}

// Users see only their own memories, for any form of IDs.
func TestMemoryScopes(t *testing.T) {
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
	eachBackend(t, func(t *testing.T, s *Store) {
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
	})
}

// Deleting a session leaves its memories; they are deleted by themselves.
func TestMemoryDelete(t *testing.T) {
	other := session.Key{App: "app", User: "alice", ID: "other"}
	eachBackend(t, func(t *testing.T, s *Store) {
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
	})
}

func TestMemoryExcludeSession(t *testing.T) {
	other := session.Key{App: "app", User: "alice", ID: "other"}
	eachBackend(t, func(t *testing.T, s *Store) {
		addToMemory(t, s, newSession(alice, eventAtMinute("e", "user", "word here", 1)))
		addToMemory(t, s, newSession(other, eventAtMinute("e", "user", "word there", 2)))
		addEvents(t, s, session.Key{App: "app", User: "alice"}, eventAtMinute("e", "user", "word elsewhere", 3))
		diff(t, "others", "word elsewhere|word there", searchSessions(t, s, alice, MemoryQuery{Text: "word", NotSession: "s"}))
	})
}

// Rewound events are not remembered.
func TestMemoryRewound(t *testing.T) {
	eachBackend(t, func(t *testing.T, s *Store) {
		back := eventAtMinute("r", "user", "", 3)
		back.Content, back.Actions.RewindBeforeInvocationID = nil, "e-2"
		first, second := eventAtMinute("1", "user", "word one", 1), eventAtMinute("2", "user", "word two", 2)
		first.InvocationID, second.InvocationID, back.InvocationID = "e-1", "e-2", "e-3"
		addToMemory(t, s, newSession(alice, first, second, back))
		diff(t, "remembered", "word one", searchText(t, s, alice, "word"))
	})
}

func TestMemoryInvalid(t *testing.T) {
	long := strings.Repeat("x", 300)
	eachBackend(t, func(t *testing.T, s *Store) {
		ctx, m := t.Context(), s.Memories
		ended, cancel := context.WithCancel(ctx)
		cancel()
		search := func(ctx context.Context, user string, q MemoryQuery) error {
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
			{"events without user", m.AddEvents(ctx, session.Key{App: "a"}, nil), session.ErrInvalid, "app and user are required"},
			{"events of a long session id", m.AddEvents(ctx, session.Key{App: "a", User: "u", ID: long}, nil), session.ErrInvalid, "session id exceeds the limit"},
			{"memory without text", m.Add(ctx, "app", "u", &session.Memory{ID: "m1"}), session.ErrInvalid, `memory "m1" has no text`},
			{"memory of a long id", m.Add(ctx, "app", "u", tea(long)), session.ErrInvalid, "memory id exceeds the limit"},
			{"memory without user", m.Add(ctx, "app", "", tea("")), session.ErrInvalid, "app and user are required"},
			{"delete without session", m.Delete(ctx, session.Key{App: "a", User: "u"}), session.ErrInvalid, "session id is required"},
			{"delete without user", m.DeleteAll(ctx, "a", ""), session.ErrInvalid, "app and user are required"},
			{"search without user", search(ctx, "", MemoryQuery{Text: "x"}), session.ErrInvalid, "app and user are required"},
			{"search of less than none", search(ctx, "u", MemoryQuery{Text: "x", Limit: -1}), session.ErrInvalid, "limit must not be negative, got -1"},
			{"cancelled search", search(ended, "u", MemoryQuery{Text: "x"}), context.Canceled, ""},
			{"cancelled add", m.Add(ended, "app", "u", tea("")), context.Canceled, ""},
			{"cancelled delete", m.DeleteAll(ended, "app", "u"), context.Canceled, ""},
		} {
			wantErr(t, tt.what, tt.err, tt.want, tt.text)
		}
		bad := tea("m")
		bad.CustomMetadata = map[string]any{"k": make(chan int)}
		wantErr(t, "metadata that JSON cannot represent", m.Add(ctx, "app", "u", tea("good"), bad), session.ErrInvalid, "customMetadata")
		diff(t, "nothing was added", "", searchText(t, s, session.Key{App: "app", User: "u"}, "tea"))
	})
}

func TestMemoryClosed(t *testing.T) {
	eachBackend(t, func(t *testing.T, s *Store) {
		addEvents(t, s, alice, eventAtMinute("e", "user", "word", 1))
		closeStore(t, s)
		ctx, m := t.Context(), s.Memories
		_, err := m.Search(ctx, "app", "alice", MemoryQuery{Text: "word"})
		wantErr(t, "Search", err, errClosed, "store is closed")
		wantErr(t, "AddEvents", m.AddEvents(ctx, alice, []*session.Event{eventAtMinute("f", "user", "x", 1)}), errClosed, "store is closed")
		wantErr(t, "DeleteAll", m.DeleteAll(ctx, "app", "alice"), errClosed, "store is closed")
	})
}

func TestMemoryConcurrent(t *testing.T) {
	eachBackend(t, func(t *testing.T, s *Store) {
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
			if got := searchSessions(t, s, session.Key{App: "app", User: user}, MemoryQuery{Text: "word", Limit: 100}); strings.Count(got, "word") != 20 {
				t.Errorf("user %s: %s", user, got)
			}
		}
	})
}

// Memories may be kept elsewhere than the sessions.
func TestMemorySeparateDatabase(t *testing.T) {
	sessions, memory := sqliteFile(t), sqliteFile(t)
	s := openStore(t, sessions, &Options{Memory: memory})
	addEvents(t, s, alice, eventAtMinute("e", "user", "kept", 1))
	closeStore(t, s)
	diff(t, "with the sessions", "", searchText(t, openStore(t, sessions, nil), alice, "kept"))
	diff(t, "elsewhere", "kept", searchText(t, openStore(t, "memory:", &Options{Memory: memory}), alice, "kept"))
	diff(t, "the same place", "kept", searchText(t, openStore(t, memory, &Options{Memory: memory}), alice, "kept"))
	diff(t, "in memory", "", searchText(t, openStore(t, memory, &Options{Memory: "memory:"}), alice, "kept"))

	for url, want := range map[string]string{
		"redis:":  `opening memories "redis:": unknown scheme "redis": supported are memory:, sqlite:///file.db, postgres://user@host/database and mysql://user@host/database`,
		"sqlite:": `opening memories "sqlite:": write sqlite:///FILE`,
	} {
		if _, err := Open(t.Context(), sqliteFile(t), &Options{Memory: url}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open with memories %s = %v, want %q", url, err, want)
		}
	}
}
