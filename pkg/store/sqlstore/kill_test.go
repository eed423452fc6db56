package sqlstore

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"agenthost/pkg/session"
)

// childDatabase names the variable that makes the test binary a program that appends to the
// database at this URL until it is killed.
const childDatabase = "STORE_TEST_CHILD_DATABASE"

// childSessions is how many sessions the child appends to at once.
const childSessions = 8

// appendForever prints "session event" on stdout after each acknowledged append.
func appendForever(url string) int {
	ctx := context.Background()
	s, _, err := allEngines().openPlainStore(ctx, url, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var wg sync.WaitGroup
	var out sync.Mutex
	for i := range childSessions {
		wg.Go(func() {
			key := session.Key{App: "app", User: "u", ID: fmt.Sprint(i)}
			sess, err := s.Sessions.Get(ctx, key, nil)
			for err == nil {
				ev := stateEvent(map[string]any{"n": 1, "app:n": 2})
				if err = s.Sessions.Append(ctx, sess, ev); err == nil {
					out.Lock()
					fmt.Println(key.ID, ev.ID)
					out.Unlock()
				}
			}
			fmt.Fprintln(os.Stderr, err)
		})
	}
	wg.Wait()
	return 1
}

// Killed at any moment, the database has every event that was acknowledged.
func TestProcessKilled(t *testing.T) {
	url := sqliteFile(t)
	s := openStore(t, url, nil)
	for i := range childSessions {
		createSession(t, s, session.Key{App: "app", User: "u", ID: fmt.Sprint(i)}, nil)
	}
	closeStore(t, s)
	acked := map[string]string{}
	for round := range 5 {
		killAfter(t, url, 20+40*round, acked)
		checkAcked(t, url, acked)
	}
}

// killAfter kills the child once it has acknowledged n events.
func killAfter(t *testing.T, url string, events int, acked map[string]string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDatabase+"="+url)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		if id, event, ok := strings.Cut(lines.Text(), " "); ok && len(event) == 36 {
			acked[event] = id
		}
		if n == events {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Fatalf("child: %v", err)
	}
}

func checkAcked(t *testing.T, url string, acked map[string]string) {
	t.Helper()
	s := openStore(t, url, nil)
	var state string
	b := s.db
	if err := b.reads.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&state); err != nil || state != "ok" {
		t.Errorf("integrity_check = %q, %v", state, err)
	}
	stored := map[string]string{}
	for i := range childSessions {
		sess := getSession(t, s, session.Key{App: "app", User: "u", ID: fmt.Sprint(i)}, nil)
		if int64(sess.History.Len()) != sess.Version {
			t.Errorf("session %d has version %d, %d events", i, sess.Version, sess.History.Len())
		}
		for _, e := range sess.Events() {
			stored[e.ID] = sess.ID
		}
	}
	for event, id := range acked {
		if stored[event] != id {
			t.Errorf("acknowledged event %s of session %s is missing", event, id)
		}
	}
	t.Logf("%d events acknowledged, %d stored", len(acked), len(stored))
}
