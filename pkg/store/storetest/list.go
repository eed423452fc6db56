package storetest

import (
	"fmt"
	"testing"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// The pages of a list make up the list, with the same states.
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
