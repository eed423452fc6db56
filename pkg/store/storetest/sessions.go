package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

func (su *Suite) testCreateSessionID(t *testing.T) {
	s := su.open(t, nil)
	if got := createSession(t, s, session.Key{App: "a", User: "u", ID: " \tx\n"}, nil).ID; got != "x" {
		t.Errorf("id = %q, want x", got)
	}
	a, b := createSession(t, s, session.Key{App: "a", User: "u", ID: "  "}, nil), createSession(t, s, session.Key{App: "a", User: "u"}, nil)
	if a.ID == "" || a.ID == b.ID {
		t.Errorf("new ids = %q, %q", a.ID, b.ID)
	}
	_, err := s.Sessions.Create(t.Context(), session.Key{App: "a", User: "u", ID: "x"}, nil)
	wantErr(t, "second Create", err, wantedError{session.ErrExists, "session already exists: x"})
	_, err = s.Sessions.Get(t.Context(), session.Key{App: "a", User: "u", ID: "X"}, nil)
	wantErr(t, "Get of another case", err, wantedError{session.ErrNotFound, "session not found: X"})
}

func (su *Suite) testInvalidKeys(t *testing.T) {
	long := strings.Repeat("x", 300)
	tests := []struct {
		name string
		key  session.Key
		want string
	}{
		{"no app", session.Key{User: "u", ID: "s"}, "app is required"},
		{"no user", session.Key{App: "a", ID: "s"}, "user is required"},
		{"long app", session.Key{App: long, User: "u", ID: "s"}, "app exceeds the limit of 128 characters"},
		{"long user", session.Key{App: "a", User: long, ID: "s"}, "user id exceeds the limit of 255 characters"},
		{"long id", session.Key{App: "a", User: "u", ID: long}, "session id exceeds the limit of 128 characters"},
		{"not UTF-8", session.Key{App: "a", User: "\xff", ID: "s"}, `user id "\xff" is not UTF-8`},
		{"NUL", session.Key{App: "a", User: "u", ID: "a\x00b"}, `session id "a\x00b" contains a NUL byte`},
	}
	s := su.open(t, nil)
	for _, tt := range tests {
		_, err := s.Sessions.Create(t.Context(), tt.key, nil)
		wantErr(t, "Create with "+tt.name, err, wantedError{session.ErrInvalid, tt.want})
		_, err = s.Sessions.Get(t.Context(), tt.key, nil)
		wantErr(t, "Get with "+tt.name, err, wantedError{session.ErrInvalid, tt.want})
		wantErr(t, "Delete with "+tt.name, s.Sessions.Delete(t.Context(), tt.key), wantedError{session.ErrInvalid, tt.want})
	}
	for _, id := range []string{"user", ".", " .. "} {
		_, err := s.Sessions.Create(t.Context(), session.Key{App: "a", User: "u", ID: id}, nil)
		wantErr(t, "Create with id "+id, err, wantedError{session.ErrInvalid, "is reserved, use another one"})
	}
	_, err := s.Sessions.Get(t.Context(), session.Key{App: "a", User: "u"}, nil)
	wantErr(t, "Get without id", err, wantedError{session.ErrInvalid, "session id is required"})
	_, err = s.Sessions.List(t.Context(), "", "u")
	wantErr(t, "List without app", err, wantedError{session.ErrInvalid, "app is required"})
	_, err = s.Sessions.List(t.Context(), "a\x00b", "u")
	wantErr(t, "List of an app with a NUL", err, wantedError{session.ErrInvalid, `app "a\x00b" contains a NUL byte`})
	_, err = s.Sessions.List(t.Context(), "a", "\xff")
	wantErr(t, "List of a user that is not UTF-8", err, wantedError{session.ErrInvalid, `user id "\xff" is not UTF-8`})
	createSession(t, s, session.Key{App: "a", User: strings.Repeat("語", 255), ID: "s"}, nil)
}

// IDs are compared bytewise: case, accents, trailing blanks and Unicode forms are
// significant.
func (su *Suite) testIDsCompareBytewise(t *testing.T) {
	ids := []string{"a", "A", "a ", " a", "ä", "a\u0308", "Ä", "ss", "ß", "a\t", "ａ", "🙂", "🙃"}
	s := su.open(t, nil)
	for i, id := range ids {
		sess := createSession(t, s, session.Key{App: id, User: "u", ID: "s"}, map[string]any{"app:" + id: i})
		for _, ev := range ids {
			e := textEvent("user", "hi")
			e.ID = ev
			appendEvent(t, s, sess, e)
		}
		createSession(t, s, session.Key{App: "app", User: id, ID: "s"}, map[string]any{"app:" + id: i, "user:k": i})
	}
	for i, id := range ids {
		sess := getSession(t, s, session.Key{App: id, User: "u", ID: "s"}, nil)
		diff(t, "state of the app "+id, map[string]any{"app:" + id: int64(i)}, sess.State.All())
		diff(t, "events", len(ids), sess.History.Len())
		sess = getSession(t, s, session.Key{App: "app", User: id, ID: "s"}, nil)
		v, _ := sess.State.Get("user:k")
		diff(t, "state of the user "+id, int64(i), v)
		diff(t, "keys", len(ids)+1, len(sess.State.All()))
		list, err := s.Sessions.List(t.Context(), "app", id)
		if err != nil || len(list) != 1 {
			t.Errorf("user %q has %d sessions, %v", id, len(list), err)
		}
	}
}

// A session's initial state is preserved unchanged, regardless of later writes.
func (su *Suite) testInitial(t *testing.T) {
	s := su.open(t, nil)
	sess := createSession(t, s, alice, map[string]any{
		"n": 1, "f": 1.0, "m": map[string]any{"l": []any{int64(2)}}, "none": nil,
		"user:u": 1, "app:a": 1, "temp:t": 1,
	})
	ev := textEvent("user", "hi")
	ev.Actions.StateDelta = map[string]any{"n": 2, "f": nil, "later": true}
	appendEvent(t, s, sess, ev)
	got, err := s.Sessions.Initial(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "initial", map[string]any{"n": int64(1), "f": 1.0, "m": map[string]any{"l": []any{int64(2)}}}, got)
	_, err = s.Sessions.Initial(t.Context(), session.Key{App: "a", User: "u", ID: "none"})
	wantErr(t, "no such session", err, wantedError{session.ErrNotFound, "session not found: none"})
}

func (su *Suite) testGetFilters(t *testing.T) {
	n := func(i int) *int { return &i }
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	tests := []struct {
		name string
		o    *store.GetOptions
		want []int64
	}{
		{"no options", nil, []int64{1, 2, 3, 4, 5}},
		{"zero options", &store.GetOptions{}, []int64{1, 2, 3, 4, 5}},
		{"the last two", &store.GetOptions{NumRecentEvents: n(2)}, []int64{4, 5}},
		{"none", &store.GetOptions{NumRecentEvents: n(0)}, nil},
		{"more than there are", &store.GetOptions{NumRecentEvents: n(9)}, []int64{1, 2, 3, 4, 5}},
		{"after is inclusive", &store.GetOptions{After: at(30)}, []int64{3, 4, 5}},
		{"after a time between", &store.GetOptions{After: at(31)}, []int64{4, 5}},
		{"after all", &store.GetOptions{After: at(99)}, nil},
		{"before all", &store.GetOptions{After: at(1)}, []int64{1, 2, 3, 4, 5}},
		{"both", &store.GetOptions{NumRecentEvents: n(2), After: at(20)}, []int64{4, 5}},
		{"both, few after", &store.GetOptions{NumRecentEvents: n(4), After: at(50)}, []int64{5}},
	}
	for _, kept := range []string{"cached", "not cached"} {
		t.Run(kept, func(t *testing.T) {
			s := su.open(t, nil)
			sess := createSession(t, s, alice, map[string]any{"k": "v"})
			for i := range 5 {
				ev := textEvent("user", "hi")
				ev.Timestamp = at(int64(i+1) * 10)
				appendEvent(t, s, sess, ev)
			}
			for _, tt := range tests {
				if kept == "not cached" {
					s.dropCache()
				}
				sess := getSession(t, s, alice, tt.o)
				var got []int64
				for _, e := range sess.Events() {
					got = append(got, e.Seq)
				}
				diff(t, tt.name, tt.want, got)
				diff(t, tt.name+": state", map[string]any{"k": "v"}, sess.State.All())
				diff(t, tt.name+": version", int64(5), sess.Version)
			}
			_, err := s.Sessions.Get(t.Context(), alice, &store.GetOptions{NumRecentEvents: n(-1)})
			wantErr(t, "a negative number", err, wantedError{session.ErrInvalid, "number of recent events must not be negative, got -1"})
			_, err = s.Sessions.Get(t.Context(), session.Key{App: "a", User: "u", ID: "none"}, &store.GetOptions{NumRecentEvents: n(1)})
			wantErr(t, "no such session", err, wantedError{session.ErrNotFound, "session not found: none"})
		})
	}
}

func (su *Suite) testHistoryShared(t *testing.T) {
	s := su.open(t, nil)
	created := createSession(t, s, alice, nil)
	a, b := getSession(t, s, alice, nil), getSession(t, s, alice, nil)
	if a.History != b.History || a.History != created.History {
		t.Error("two readers have two histories")
	}
	appendEvent(t, s, a, textEvent("user", "hi"))
	if b.History.Len() != 1 {
		t.Errorf("the other reader sees %d events, want 1", b.History.Len())
	}
}

func (su *Suite) testGetCopiesState(t *testing.T) {
	s := su.open(t, nil)
	want := map[string]any{"k": []any{"v"}, "app:m": map[string]any{"a": "b"}}
	sess := createSession(t, s, alice, map[string]any{"k": []any{"v"}, "app:m": map[string]any{"a": "b"}})
	for range 2 {
		diff(t, "state", want, sess.State.All())
		for _, v := range sess.State.All() {
			switch v := v.(type) {
			case []any:
				v[0] = "changed"
			case map[string]any:
				v["a"] = "changed"
			}
		}
		sess.State.Apply(map[string]any{"more": 1})
		sess = getSession(t, s, alice, nil)
	}
	diff(t, "state", want, sess.State.All())
}

func (su *Suite) testDeleteAndCreateAgain(t *testing.T) {
	s := su.open(t, nil)
	old := createSession(t, s, alice, map[string]any{"k": 1, "user:k": 2})
	appendEvent(t, s, old, stateEvent(map[string]any{"l": 3}))
	if err := s.Sessions.Delete(t.Context(), alice); err != nil {
		t.Fatal(err)
	}
	_, err := s.Sessions.Get(t.Context(), alice, nil)
	wantErr(t, "Get", err, wantedError{session.ErrNotFound, "session not found: s"})
	sess := createSession(t, s, alice, nil)
	if sess.Version != 0 || sess.History == old.History || sess.History.Len() != 0 {
		t.Errorf("new session: version %d, %d events, the old history: %v", sess.Version, sess.History.Len(), sess.History == old.History)
	}
	diff(t, "state", map[string]any{"user:k": int64(2)}, sess.State.All())
	wantErr(t, "Append by the old handle", s.Sessions.Append(t.Context(), old, textEvent("user", "x")), wantedError{session.ErrStale, ""})
}

func compareActivity(a, b *session.Session) int {
	return cmp.Or(a.LastUpdate.Compare(b.LastUpdate), strings.Compare(a.User, b.User), strings.Compare(a.ID, b.ID))
}

func (su *Suite) testListOrder(t *testing.T) {
	s := su.open(t, nil)
	for _, id := range []string{"z", "a", "m", "b"} {
		createSession(t, s, session.Key{App: "app", User: "u" + id, ID: id}, map[string]any{"k": id, "user:u": id, "app:a": id})
	}
	appendEvent(t, s, getSession(t, s, session.Key{App: "app", User: "uz", ID: "z"}, nil), textEvent("user", "hi"))
	list, err := s.Sessions.List(t.Context(), "app", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, sess := range list {
		diff(t, "state of "+sess.ID, map[string]any{"k": sess.ID, "user:u": sess.ID, "app:a": "b"}, sess.State.All())
	}
	if !slices.IsSortedFunc(list, compareActivity) || len(list) != 4 {
		t.Errorf("sessions are not sorted by last update, user and id: %v", list)
	}
	diff(t, "most recently active", session.Key{App: "app", User: "uz", ID: "z"}, list[3].Key)
	diff(t, "version", int64(1), list[3].Version)
}

// A list is read in batches: each session has its own state, and one that is deleted meanwhile does no harm.
func (su *Suite) testListBatches(t *testing.T) {
	s := su.open(t, nil)
	const sessions = 230
	for i := range sessions {
		createSession(t, s, session.Key{App: "app", User: "u", ID: fmt.Sprint(i)}, map[string]any{"k": i, "user:u": "all"})
	}
	createSession(t, s, session.Key{App: "app", User: "other", ID: "x"}, nil)
	listed, batches := map[string]any{}, 0
	older, err := s.Sessions.VisitSessions(t.Context(), "app", "u", func(batch []*session.Session) error {
		for _, sess := range batch {
			if v, _ := sess.State.Get("user:u"); v != "all" {
				t.Errorf("session %s has user:u = %v", sess.ID, v)
			}
			listed[sess.ID], _ = sess.State.Get("k")
		}
		if batches++; batches == 1 { // of those that are listed later
			for i := range sessions {
				if id := fmt.Sprint(i); listed[id] == nil {
					return s.Sessions.Delete(t.Context(), session.Key{App: "app", User: "u", ID: id})
				}
			}
		}
		return nil
	})
	if err != nil || older {
		t.Errorf("VisitSessions = %v, %v", older, err)
	}
	for id, k := range listed {
		wantEqual(t, "k of session "+id, id, fmt.Sprint(k))
	}
	if n := len(listed); n != sessions && (n != sessions-1 || batches == 1) {
		t.Errorf("%d sessions in %d batches", n, batches)
	}
	stop := errors.New("enough")
	_, err = s.Sessions.VisitSessions(t.Context(), "app", "", func([]*session.Session) error { return stop })
	wantErr(t, "VisitSessions", err, wantedError{stop, "enough"})
}

// Windows on an intact session are not reported as gaps, even if it is deleted during the read.
func (su *Suite) testValidWindows(t *testing.T) {
	s := su.open(t, nil)
	sess := createSession(t, s, alice, nil)
	for range 3 {
		appendEvent(t, s, sess, textEvent("user", "hi"))
	}
	for last := range 5 {
		s.dropCache()
		if n := getSession(t, s, alice, &store.GetOptions{NumRecentEvents: &last}).History.Len(); n != min(last, 3) {
			t.Errorf("the last %d events are %d", last, n)
		}
		s.dropCache()
		after := sess.Events()[1].Timestamp
		if n := getSession(t, s, alice, &store.GetOptions{After: after, NumRecentEvents: &last}).History.Len(); n > last {
			t.Errorf("the last %d events after a time are %d", last, n)
		}
	}
}

// A list's pages make up the list, with the same states.
func (su *Suite) testPagesMatchList(t *testing.T) {
	s := su.open(t, nil)
	for i := range 23 {
		key := session.Key{App: "app", User: fmt.Sprint("u", i%2), ID: fmt.Sprint(i)}
		appendEvent(t, s, createSession(t, s, key, map[string]any{"k": i, "user:k": i, "app:k": i}), textEvent("user", "hi"))
	}
	createSession(t, s, session.Key{App: "other", User: "u0", ID: "x"}, nil)
	for _, user := range []string{"", "u0", "absent"} {
		for _, size := range []int{1, 5, 12, 23, 24, 1000} {
			want, err := s.Sessions.List(t.Context(), "app", user)
			if err != nil {
				t.Fatal(err)
			}
			got := listPages(t, s, &store.PageRequest{App: "app", User: user, Size: size})
			slices.SortFunc(got, compareActivity)
			if len(got) != len(want) {
				t.Fatalf("user %q, size %d: %d sessions, want %d", user, size, len(got), len(want))
			}
			for i := range want {
				diff(t, "session", plainState(t, want[i]), plainState(t, got[i]))
			}
		}
	}
}

// listPages reads all pages from a first one on.
func listPages(t *testing.T, s *testStore, req *store.PageRequest) (all []*session.Session) {
	t.Helper()
	for {
		page, next, err := s.Sessions.Page(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > req.Size || len(page) == 0 && req.Token != "" {
			t.Errorf("a page of %d, at most %d wanted", len(page), req.Size)
		}
		if all = append(all, page...); next == "" {
			return all
		}
		req.Token = next
	}
}

func (su *Suite) testPageInvalid(t *testing.T) {
	s := su.open(t, nil)
	for _, tt := range []struct {
		req  store.PageRequest
		want string
	}{
		{store.PageRequest{Size: 1}, "app is required"},
		{store.PageRequest{App: "app"}, "page size 0 is not between 1 and 1000"},
		{store.PageRequest{App: "app", Size: 1001}, "page size 1001 is not between 1 and 1000"},
		{store.PageRequest{App: "app", Size: 1, Token: "not!"}, `page token "not!" is not from a previous page`},
	} {
		_, _, err := s.Sessions.Page(t.Context(), &tt.req)
		wantErr(t, "Page", err, wantedError{session.ErrInvalid, tt.want})
	}
}

func (su *Suite) testConcurrentCreateDeleteRead(t *testing.T) {
	s := su.open(t, nil)
	runConcurrently(t, 8, func(i int) error {
		for range 20 {
			sess, err := s.Sessions.Create(t.Context(), alice, nil)
			if err == nil {
				err = s.Sessions.Append(t.Context(), sess, textEvent("user", "hi"))
			}
			if err == nil {
				sess, err = s.Sessions.Get(t.Context(), alice, nil)
			}
			if err == nil && int64(sess.History.Len()) < sess.Version {
				err = fmt.Errorf("version %d with %d events", sess.Version, sess.History.Len())
			}
			if err == nil {
				err = s.Sessions.Delete(t.Context(), alice)
			}
			known := errors.Is(err, session.ErrExists) || errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrStale)
			if err != nil && !known {
				return err
			}
		}
		return nil
	})
}

func saveText(t *testing.T, s *testStore, key session.Key, name string) {
	t.Helper()
	if _, err := s.Artifacts.Save(t.Context(), key, name, textPart("text")); err != nil {
		t.Fatal(err)
	}
}

func (su *Suite) testContextCancelled(t *testing.T) {
	s := su.open(t, nil)
	sess := createSession(t, s, alice, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	calls := map[string]func() error{
		"Create": func() error { _, err := s.Sessions.Create(ctx, alice, nil); return err },
		"Get":    func() error { _, err := s.Sessions.Get(ctx, alice, nil); return err },
		"List":   func() error { _, err := s.Sessions.List(ctx, "app", ""); return err },
		"Delete": func() error { return s.Sessions.Delete(ctx, alice) },
		"Append": func() error { return s.Sessions.Append(ctx, sess, stateEvent(map[string]any{"k": 1})) },
		"Save":   func() error { _, err := s.Artifacts.Save(ctx, alice, "a", textPart("x")); return err },
		"Acquire": func() error {
			_, _, err := s.Sessions.Acquire(ctx, alice, 0)
			return err
		},
	}
	for name, call := range calls {
		wantErr(t, name+" with a cancelled context", call(), wantedError{context.Canceled, ""})
	}
	diff(t, "state after a failed append", map[string]any{}, sess.State.All())
	if sess.Version != 0 || sess.History.Len() != 0 {
		t.Errorf("after a failed append: version %d, %d events", sess.Version, sess.History.Len())
	}
	if got := getSession(t, s, alice, nil); got.Version != 0 {
		t.Errorf("stored version = %d, want 0", got.Version)
	}
}

func (su *Suite) testStoreClosed(t *testing.T) {
	s := su.open(t, nil)
	sess := createSession(t, s, alice, nil)
	closeStore(t, s)
	closeStore(t, s)
	ctx := t.Context()
	calls := map[string]func() error{
		"Create":        func() error { _, err := s.Sessions.Create(ctx, alice, nil); return err },
		"Get":           func() error { _, err := s.Sessions.Get(ctx, alice, nil); return err },
		"List":          func() error { _, err := s.Sessions.List(ctx, "app", ""); return err },
		"Delete":        func() error { return s.Sessions.Delete(ctx, alice) },
		"Append":        func() error { return s.Sessions.Append(ctx, sess, textEvent("user", "hi")) },
		"Ping":          func() error { return s.Ping(ctx) },
		"Artifacts":     func() error { _, err := s.Artifacts.Keys(ctx, alice); return err },
		"Save":          func() error { _, err := s.Artifacts.Save(ctx, alice, "a", textPart("x")); return err },
		"Load":          func() error { _, err := s.Artifacts.Load(ctx, alice, "a", -1); return err },
		"Versions":      func() error { _, err := s.Artifacts.Versions(ctx, alice, "a"); return err },
		"DeleteAnother": func() error { return s.Artifacts.Delete(ctx, alice, "a") },
	}
	for name, call := range calls {
		wantErr(t, name+" of a closed store", call(), wantedError{store.ErrClosed, "store is closed"})
	}
	if sess.Version != 0 || sess.History.Len() != 0 {
		t.Errorf("after a failed append: version %d, %d events", sess.Version, sess.History.Len())
	}
}
