package a2apush

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agenthost/pkg/connection"
	"agenthost/pkg/protocol/task"
	"agenthost/pkg/session"
	connections "agenthost/wing/connection"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var anyTask = task.ID{Key: session.Key{App: "a", User: "u", ID: "s"}, Invocation: "i"}

// newConfigs returns configurations in a store, at a time that the test changes.
func newConfigs(t *testing.T, store connection.GrantStore) (*Configs, *time.Time) {
	t.Helper()
	keys, err := connections.NewRandomKeys()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)
	return NewConfigs(store, keys, func() time.Time { return now }), &now
}

// One of many callers claims a state, whichever replica it is on; the next state is claimed again. A claim of
// an earlier state is not current any more.
func TestClaim(t *testing.T) {
	c, _ := newConfigs(t, &connection.MemoryGrants{})
	if err := c.Add(t.Context(), anyTask, &Config{ID: "x", URL: "https://hooks.example.com/"}); err != nil {
		t.Fatal(err)
	}
	for event := range int64(2) {
		var mu sync.Mutex
		var all []*Config
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				claimed, err := c.Claim(t.Context(), anyTask, 2*event+1, "waiting")
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, claimed...)
			})
		}
		callers.Wait()
		if len(all) != 1 || !c.IsCurrent(t.Context(), anyTask, all[0]) {
			t.Fatalf("event %d was claimed %d times", event, len(all))
		}
		later, err := c.Claim(t.Context(), anyTask, 2*event+1, "failed")
		if err != nil || len(later) != 1 || c.IsCurrent(t.Context(), anyTask, all[0]) {
			t.Errorf("event %d is current after a later state: %v", event, err)
		}
		if earlier, err := c.Claim(t.Context(), anyTask, 2*event, "completed"); err != nil || len(earlier) > 0 {
			t.Errorf("an earlier state was claimed: %v", err)
		}
	}
	other := anyTask
	other.Key.User = "v"
	if claimed, err := c.Claim(t.Context(), other, 1, "waiting"); err != nil || len(claimed) > 0 {
		t.Errorf("another user's task: %v, %v", claimed, err)
	}
}

// A row's content is encrypted, is nothing after 30 days, and is deleted then.
func TestRows(t *testing.T) {
	store := &connection.MemoryGrants{}
	c, now := newConfigs(t, store)
	if err := c.Add(t.Context(), anyTask, &Config{ID: "x", URL: "https://hooks.example.com/s3cret", Credentials: "s3cret"}); err != nil {
		t.Fatal(err)
	}
	row, err := store.GetGrant(t.Context(), newRow(anyTask).ID)
	if err != nil || row == nil || strings.Contains(fmt.Sprintf("%+v %s", row, row.Sealed), "s3cret") {
		t.Errorf("the row: %+v, %v", row, err)
	}
	foreign, _ := newConfigs(t, store)
	if _, err := foreign.List(t.Context(), anyTask); err == nil || err.Error() != "reading push notification configurations: none of the credential keys decrypts it" {
		t.Errorf("read with another key: %v", err)
	}
	*now = now.Add(lifetime + time.Hour)
	if all, err := c.List(t.Context(), anyTask); err != nil || len(all) > 0 {
		t.Errorf("after 30 days: %v, %v", all, err)
	}
	other := anyTask
	other.Invocation = "j"
	if err := c.Add(t.Context(), other, &Config{ID: "y"}); err != nil {
		t.Fatal(err)
	}
	if row, err = store.GetGrant(t.Context(), newRow(anyTask).ID); err != nil || row != nil {
		t.Errorf("the expired row: %v, %v", row, err)
	}
	if err := c.Delete(t.Context(), other, "y"); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), other, "y"); !errors.Is(err, ErrUnknown) || err.Error() != "unknown push notification configuration" {
		t.Errorf("deleted twice: %v", err)
	}
}

// contended is a store in which each change comes after another one.
type contended struct{ connection.MemoryGrants }

func (*contended) SwapGrant(context.Context, *connection.Grant) (bool, error) { return false, nil }

// A change that others precede again and again ends.
func TestContendedRow(t *testing.T) {
	c, _ := newConfigs(t, &contended{})
	if err := c.Add(t.Context(), anyTask, &Config{ID: "x"}); err == nil || err.Error() != "push notification configurations are changed by too many requests at once" {
		t.Errorf("a contended row: %v", err)
	}
}

// newNotification returns a notification to a server, whose attempts are all wanted.
func newNotification(address string) *Notification {
	return &Notification{
		Config: &Config{URL: address + "/s3cret-path", Token: "s3cret-token", Scheme: "Bearer", Credentials: "s3cret-credentials"},
		App:    "a", User: "u", ContentType: "application/json", Body: []byte("{}"), Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		IsCurrent: func(context.Context) bool { return true },
	}
}

// Attempts have growing pauses, and end with the shutdown or with a later state. The log has no secret, even
// if the client's server repeats it in a broken answer.
func TestAttempts(t *testing.T) {
	var requests atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprintf(conn, "%s %s %s\r\n\r\n", r.Header.Get("Authorization"), r.Header.Get(TokenHeader), r.URL)
		conn.Close()
	}))
	defer web.Close()
	for name, tt := range map[string]struct {
		waitErr   error
		isCurrent bool
		requests  int64
		pauses    string
	}{
		"all":             {nil, true, 4, "[1s 4s 16s]"},
		"during shutdown": {context.Canceled, true, 1, "[1s]"},
		"a later state":   {nil, false, 1, "[1s]"},
	} {
		var log bytes.Buffer
		var pauses []time.Duration
		s := NewSender(slog.New(slog.NewTextHandler(&log, nil)), func(_ context.Context, d time.Duration) error {
			pauses = append(pauses, d)
			return tt.waitErr
		})
		n := newNotification(web.URL)
		n.IsCurrent = func(context.Context) bool { return tt.isCurrent }
		requests.Store(0)
		done := make(chan struct{})
		s.Send(t.Context(), n, func() { close(done) })
		<-done
		if requests.Load() != tt.requests || fmt.Sprint(pauses) != tt.pauses {
			t.Errorf("%s: %d requests, pauses of %v", name, requests.Load(), pauses)
		}
		if strings.Contains(log.String(), "s3cret") || !strings.Contains(log.String(), "sending a push notification failed") {
			t.Errorf("%s: the log: %s", name, &log)
		}
	}
}

// A user has at most 32 deliveries in progress, and another user's are not counted.
func TestDeliveryLimit(t *testing.T) {
	answer := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-answer }))
	defer web.Close()
	var log bytes.Buffer
	s := NewSender(slog.New(slog.NewTextHandler(&log, nil)), nil)
	var all sync.WaitGroup
	for range maxUserDeliveries {
		all.Add(1)
		s.Send(t.Context(), newNotification(web.URL), all.Done)
	}
	dropped := false
	s.Send(t.Context(), newNotification(web.URL), func() { dropped = true })
	if !dropped || !strings.Contains(log.String(), "push notification dropped: too many are in progress") {
		t.Errorf("one too many: %v, %s", dropped, &log)
	}
	other := newNotification(web.URL)
	other.User = "v"
	all.Add(1)
	s.Send(t.Context(), other, all.Done)
	close(answer)
	all.Wait()
	if len(s.users) > 0 || s.all > 0 {
		t.Errorf("counted after their end: %v, %d", s.users, s.all)
	}
}
