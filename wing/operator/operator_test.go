package operator_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agenthost/internal/auth"
	"agenthost/internal/servertest"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
	"agenthost/wing/operator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type operations struct {
	Replicas []struct {
		Name, Version string
		Here          bool
		Turns         int
		Apps          []struct{ App, Revision string }
	}
	Turns []struct{ App, User, Session, Replica, Began string }
	Usage []struct {
		Name      string
		Used, Max int64
	}
	Leases string
	Log    []operator.LogEntry
	Logged int64
}

func newReplica(t *testing.T, url string, opts *operator.Options) *servertest.Env {
	t.Helper()
	e := servertest.New(t, &servertest.Options{URL: url, Store: &store.Options{Lease: 300 * time.Millisecond}, Server: &server.Options{
		Version: "1.2.3", RunsPerUser: server.Rate{Runs: 10, Per: time.Minute}, Extensions: []func(*server.Services) *server.Extension{operator.Extend(opts)},
	}})
	e.AddLLMApp(t, "hello", &runtime.LLMOptions{Model: servertest.ScriptedModel(t)})
	return e
}

func readOperations(t *testing.T, e *servertest.Env) (o operations) {
	t.Helper()
	w := e.Serve("GET", "/-/operations", "")
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	for _, err := range servertest.NewSchemaChecker(t, e.Server).CheckExchange([]byte("GET /-/operations\n"), servertest.FormatResponse(w)) {
		t.Error(err)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// One replica shows its version, its apps, its turns, the use of its limits and its last errors.
func TestOperationsOfOneReplica(t *testing.T) {
	ring := &operator.LogRing{}
	slog.New(ring.WrapHandler(slog.NewTextHandler(io.Discard, nil))).Error("it broke", "error", "no\x1b[31m route")
	e := newReplica(t, "", &operator.Options{Log: ring})
	key := e.CreateSession(t, "hello", "s")
	_, release, err := e.Store.Sessions.Acquire(t.Context(), key, 0)
	if err != nil {
		t.Fatal(err)
	}
	o := readOperations(t, e)
	if len(o.Replicas) != 1 || !o.Replicas[0].Here || o.Replicas[0].Version != "1.2.3" || o.Replicas[0].Turns != 1 || len(o.Replicas[0].Apps) != 1 {
		t.Errorf("the replicas are %+v", o.Replicas)
	}
	if len(o.Turns) != 1 || o.Turns[0].Session != "s" || o.Turns[0].User != "u" || o.Turns[0].Began == "" || o.Leases == "" {
		t.Errorf("the turns are %+v, and leases %q", o.Turns, o.Leases)
	}
	if len(o.Usage) < 3 || o.Logged != 1 || o.Log[0].Attrs[0] != "error=no\x1b[31m route" {
		t.Errorf("usage %+v and log %+v", o.Usage, o.Log)
	}
	release()
	if o := readOperations(t, e); len(o.Turns) != 0 {
		t.Errorf("after its end, the turns are %+v", o.Turns)
	}
}

// A user's turns count against the rate limit.
func TestUsageOfRates(t *testing.T) {
	e := newReplica(t, "", nil)
	e.CreateSession(t, "hello", "s")
	e.Serve("POST", "/run", `{"appName":"hello","userId":"u","sessionId":"s","newMessage":{"parts":[{"text":"hi"}]}}`)
	usage := readOperations(t, e).Usage
	if last := usage[len(usage)-1]; last.Name != "user u" || last.Used != 1 || last.Max != 10 {
		t.Errorf("the usage is %+v", usage)
	}
}

// Any replica shows the turns of the others by their leases, and stops them: the replica that runs a
// stopped turn can store nothing more, and the session is free at once.
func TestStopTurnOfOtherReplica(t *testing.T) {
	url := "sqlite:///" + filepath.Join(t.TempDir(), "sessions.db")
	one, two := newReplica(t, url, nil), newReplica(t, url, nil)
	key := one.CreateSession(t, "hello", "s")
	run, release, err := one.Store.Sessions.Acquire(t.Context(), key, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	o := readOperations(t, two)
	owner := one.Store.Sessions.Owner()
	if len(o.Turns) != 1 || o.Turns[0].Replica != owner || o.Turns[0].Session != "s" || len(o.Replicas) != 2 || o.Replicas[1].Name != owner || o.Replicas[1].Here || o.Leases != "" {
		t.Fatalf("the other replica shows %+v", o)
	}
	const path = "/apps/hello/users/u/sessions/s/stop"
	servertest.ExpectResponse(t, two.Serve("POST", path, ""), 200, "null")
	_, free, err := two.Store.Sessions.Acquire(t.Context(), key, 0)
	if err != nil {
		t.Fatalf("the session is not free: %v", err)
	}
	free()
	select {
	case <-run.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the stopped turn was not canceled")
	}
	if cause := context.Cause(run); !errors.Is(cause, session.ErrFenced) {
		t.Errorf("the cause is %v", cause)
	}
	release()
}

// A turn of the replica that receives the request ends as if its client had left. Without a turn there
// is nothing to stop, and the next turn is not affected.
func TestStopTurnHere(t *testing.T) {
	url := "sqlite:///" + filepath.Join(t.TempDir(), "sessions.db")
	e := newReplica(t, url, nil)
	key := e.CreateSession(t, "hello", "s")
	run, release, err := e.Store.Sessions.Acquire(t.Context(), key, 0)
	if err != nil {
		t.Fatal(err)
	}
	const path = "/apps/hello/users/u/sessions/s/stop"
	servertest.ExpectResponse(t, e.Serve("POST", path, ""), 200, "null")
	if cause := context.Cause(run); !errors.Is(cause, store.ErrStopped) {
		t.Errorf("the cause is %v", cause)
	}
	release()
	servertest.ExpectResponse(t, e.Serve("POST", path, ""), 404, `{"detail":"no run of this session"}`)
	w := e.Serve("POST", "/run", `{"appName":"hello","userId":"u","sessionId":"s","newMessage":{"parts":[{"text":"hi"}]}}`)
	if w.Code != 200 {
		t.Errorf("the next turn: %d %s", w.Code, w.Body)
	}
	servertest.ExpectResponse(t, e.Serve("POST", "/apps/hello/users/u/sessions/nope/stop", ""), 404, `{"detail":"no run of this session"}`)
}

// Only administrators see what runs.
func TestOperationsNeedAdministrator(t *testing.T) {
	n, _ := spec.Parse("auth.yaml", []byte(`tokens: [{token: u-u-u-u-u-u-u-u-u-u, claims: {sub: u}}, {token: ops-ops-ops-ops-ops, claims: {sub: ops}}]
admin: claims.sub == "ops"`))
	callers, ds := auth.Decode(n, nil)
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	t.Cleanup(callers.Close)
	e := servertest.New(t, &servertest.Options{Server: &server.Options{Auth: callers, Extensions: []func(*server.Services) *server.Extension{operator.Extend(nil)}}})
	var codes []int
	for _, token := range []string{"ops-ops-ops-ops-ops", "u-u-u-u-u-u-u-u-u-u", "no-one-no-one-no-one"} {
		r := httptest.NewRequest("GET", "/-/operations", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		e.Server.ServeHTTP(w, r)
		codes = append(codes, w.Code)
	}
	if !slices.Equal(codes, []int{200, 403, 401}) {
		t.Errorf("the statuses are %v", codes)
	}
}
