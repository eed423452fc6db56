package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// saveResult saves a result for APP/ID.
func saveResult(t testing.TB, s *testStore, ref, content string) {
	t.Helper()
	app, id, _ := strings.Cut(ref, "/")
	r := &store.Result{App: app, ID: id, SetID: "orders", Revision: "abc", Model: "large", Cases: 40, Passed: 38, Content: []byte(content)}
	if err := s.Results.Save(t.Context(), r); err != nil {
		t.Fatalf("Save(%s) = %v", id, err)
	}
}

// resultIDs are an app's result IDs, the newest first.
func resultIDs(t testing.TB, s *testStore, app string) string {
	t.Helper()
	all, err := s.Results.List(t.Context(), app)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range all {
		if r.Content != nil {
			t.Errorf("List has the content of %s", r.ID)
		}
		if r.Cases != 40 || r.Passed != 38 {
			t.Errorf("List has %d of %d cases of %s", r.Passed, r.Cases, r.ID)
		}
		ids = append(ids, r.ID)
	}
	return strings.Join(ids, " ")
}

// A result comes back byte for byte. One with the same ID replaces it, and a deleted one is
// missing.
func (su *Suite) testResultRoundTrip(t *testing.T) {
	clock := func() time.Time { return time.Date(2026, 11, 23, 12, 0, 0, 123456789, time.UTC) }
	s := su.open(t, &store.Options{Clock: clock})
	saveResult(t, s, "app/app_orders_1.5", "old")
	saveResult(t, s, "app/app_orders_1.5", "{\"a\": \"\\u0000 \xc3\xa9\"}\x00")
	saveResult(t, s, "other/app_orders_1.5", "another app")
	got, err := s.Results.Get(t.Context(), "app", "app_orders_1.5")
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "result", &store.Result{
		App: "app", ID: "app_orders_1.5", SetID: "orders", Revision: "abc", Model: "large", Cases: 40, Passed: 38,
		Stored: clock().Truncate(time.Microsecond), Content: []byte("{\"a\": \"\\u0000 \xc3\xa9\"}\x00"),
	}, got)
	diff(t, "IDs", "app_orders_1.5", resultIDs(t, s, "app"))
	for range 2 {
		if err := s.Results.Delete(t.Context(), "app", "app_orders_1.5"); err != nil {
			t.Fatal(err)
		}
	}
	_, err = s.Results.Get(t.Context(), "app", "app_orders_1.5")
	wantErr(t, "deleted", err, wantedError{session.ErrNotFound, "result app_orders_1.5 of app app is not stored"})
	diff(t, "another app", "app_orders_1.5", resultIDs(t, s, "other"))
}

// Results are listed by when they were stored, and only an app's newest 200 are kept.
func (su *Suite) testResultOrder(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	s := su.open(t, &store.Options{Clock: func() time.Time { now = now.Add(time.Second); return now }})
	saveResult(t, s, "other/z", "{}")
	var want []string
	for i := range 202 {
		id := fmt.Sprintf("r%d", i)
		saveResult(t, s, "app/"+id, "{}")
		want = append([]string{id}, want...)
	}
	diff(t, "IDs", strings.Join(want[:200], " "), resultIDs(t, s, "app"))
	diff(t, "another app", "z", resultIDs(t, s, "other"))
}

// IDs are required, and sizes are limited.
func (su *Suite) testResultInvalid(t *testing.T) {
	s := su.open(t, nil)
	for _, tt := range []struct {
		result *store.Result
		want   string
	}{
		{&store.Result{App: "app"}, "app and ID of a result are required"},
		{&store.Result{App: "app", ID: "a", Cases: 1, Passed: 2}, "passed cases of result a must be from 0 to 1, got 2"},
		{&store.Result{ID: "a"}, "app and ID of a result are required"},
		{&store.Result{App: "app", ID: strings.Repeat("a", 256)}, "result ID"},
		{&store.Result{App: "app", ID: "a", Content: make([]byte, store.MaxResultBytes+1)}, "storing result a: content exceeds the limit of 67108864 bytes"},
	} {
		if err := s.Results.Save(t.Context(), tt.result); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Save = %v, want %s", err, tt.want)
		}
	}
	large := bytes.Repeat([]byte("0123456789"), 3<<20)
	if err := s.Results.Save(t.Context(), &store.Result{App: "app", ID: "large", Content: large}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Results.Get(t.Context(), "app", "large"); err != nil || !bytes.Equal(got.Content, large) {
		t.Errorf("Get of 30 MiB = %v, want the same content", err)
	}
}

// Names that no database stores are missing, whatever the engine would report.
func (su *Suite) testUnstorableNames(t *testing.T) {
	s := su.open(t, nil)
	for _, name := range []string{"a\x00b", "\xed\xa0\x80", "\xff", strings.Repeat("a", 1000)} {
		if _, err := s.Results.Get(t.Context(), "app", name); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("Results.Get(%.10q) = %v, want ErrNotFound", name, err)
		}
		if _, err := s.Results.Get(t.Context(), name, "a"); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("Results.Get of app %.10q = %v, want ErrNotFound", name, err)
		}
		if all, err := s.Results.List(t.Context(), name); err != nil || len(all) > 0 {
			t.Errorf("Results.List(%.10q) = %v, %v", name, all, err)
		}
		if err := s.Results.Delete(t.Context(), "app", name); err != nil {
			t.Errorf("Results.Delete(%.10q) = %v", name, err)
		}
		if _, err := s.Revisions.Get(t.Context(), "app", name); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("Revisions.Get(%.10q) = %v, want ErrNotFound", name, err)
		}
		if all, err := s.Revisions.List(t.Context(), name); err != nil || len(all) > 0 {
			t.Errorf("Revisions.List(%.10q) = %v, %v", name, all, err)
		}
	}
}

func (su *Suite) testResultsClosed(t *testing.T) {
	s := su.open(t, nil)
	closeStore(t, s)
	if err := s.Results.Save(t.Context(), &store.Result{App: "app", ID: "a"}); err == nil {
		t.Error("Save on a closed store = nil")
	}
	if _, err := s.Results.List(t.Context(), "app"); err == nil || !strings.Contains(err.Error(), "store is closed") {
		t.Errorf("List on a closed store = %v", err)
	}
}
