package store

import (
	"fmt"
	"strings"
	"testing"

	"gorm.io/gorm"

	"agenthost/pkg/session"
)

// The pages of a list make up the list, with the same states.
func TestPagesMatchList(t *testing.T) {
	eachBackend(t, func(t *testing.T, s *Store) {
		for i := range 23 {
			key := session.Key{App: "app", User: fmt.Sprint("u", i%2), ID: fmt.Sprint(i)}
			appendEvent(t, s, createSession(t, s, key, map[string]any{"k": i, "user:k": i, "app:k": i}), textEvent("user", "hi"))
		}
		createSession(t, s, session.Key{App: "other", User: "u0", ID: "x"}, nil)
		for _, user := range []string{"", "u0", "nobody"} {
			for _, size := range []int{1, 5, 12, 23, 24, 1000} {
				want, err := s.Sessions.List(t.Context(), "app", user)
				if err != nil {
					t.Fatal(err)
				}
				got := listPages(t, s, &PageRequest{App: "app", User: user, Size: size})
				if len(got) != len(want) {
					t.Fatalf("user %q, size %d: %d sessions, want %d", user, size, len(got), len(want))
				}
				for i := range want {
					diff(t, "session", plainState(t, want[i]), plainState(t, got[i]))
				}
			}
		}
	})
}

// listPages reads all pages from a first one on.
func listPages(t *testing.T, s *Store, req *PageRequest) (all []*session.Session) {
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

func TestPageInvalid(t *testing.T) {
	eachBackend(t, func(t *testing.T, s *Store) {
		for _, tt := range []struct {
			req  PageRequest
			want string
		}{
			{PageRequest{Size: 1}, "app is required"},
			{PageRequest{App: "app"}, "page size 0 is not between 1 and 1000"},
			{PageRequest{App: "app", Size: 1001}, "page size 1001 is not between 1 and 1000"},
			{PageRequest{App: "app", Size: 1, Token: "not!"}, `page token "not!" is not from a previous page`},
		} {
			_, _, err := s.Sessions.Page(t.Context(), &tt.req)
			wantErr(t, "Page", err, session.ErrInvalid, tt.want)
		}
	})
}

// A page is read from an index, in its order: nothing is sorted or looked
// through.
func TestPageUsesIndex(t *testing.T) {
	b := openStore(t, sqliteFile(t), nil).Sessions.backend.(*sqlBackend)
	for user, index := range map[string]string{"": "sessions_of_app (app_name=? AND pk>?)", "u": "sessions_of_user (app_name=? AND user_id=? AND pk>?)"} {
		var plan []struct{ Detail string }
		q := b.readers.Session(&gorm.Session{DryRun: true})
		var heads []headRow
		st := sessionQuery{app: "app", user: user, after: 7, limit: 10}.queryHeads(q).Find(&heads).Statement
		if err := b.readers.Raw("EXPLAIN QUERY PLAN "+st.SQL.String(), st.Vars...).Scan(&plan).Error; err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(plan)
		if !strings.Contains(text, index) || strings.Contains(text, "TEMP B-TREE") || strings.Contains(text, "SCAN s") {
			t.Errorf("user %q: %s", user, text)
		}
	}
}
