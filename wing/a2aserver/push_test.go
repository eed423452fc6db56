package a2aserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/rogpeppe/go-internal/txtar"

	"agenthost/internal/servertest"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/wing/a2aserver"
	connections "agenthost/wing/connection"
)

// A hook is where a client receives notifications.
type hook struct {
	*httptest.Server
	host     string
	received chan notification
	// status answers a notification; the default is 200.
	status func() int
}

// A notification is a request to a hook.
type notification struct {
	header http.Header
	body   string
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{received: make(chan notification, 100)}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if h.status != nil {
			if r.URL.Path == "/redirect" {
				w.Header().Set("Location", "http://127.0.0.1:1/other")
			}
			w.WriteHeader(h.status())
		}
		h.received <- notification{r.Header, string(body)}
	}))
	t.Cleanup(h.Close)
	h.host = strings.TrimPrefix(h.URL, "http://")
	return h
}

// readState returns the state of the task in a notification of 1.0.
func (n notification) readState(t *testing.T) string {
	t.Helper()
	var body struct {
		Task a2a.Task `json:"task"`
	}
	if err := json.Unmarshal([]byte(n.body), &body); err != nil {
		t.Fatalf("%s: %v", n.body, err)
	}
	return string(body.Task.Status.State) + " " + textOf(&body.Task)
}

// pushing is the app desk with hosts for notifications.
func pushing(hosts string) string {
	return strings.Replace(desk, "a2a_server:\n  agents: [writer]", "a2a_server:\n  push_hosts: ["+hosts+"]\n  agents: [writer]", 1)
}

// newPushReplica returns a server with the app desk that notifies a host's clients.
func newPushReplica(t *testing.T, store, hosts string, keys *connections.Keys) (*servertest.Env, string) {
	t.Helper()
	opts := &a2aserver.Options{GRPC: true, Wait: func(context.Context, time.Duration) error { return nil }}
	if keys != nil {
		opts.Keys = keys
	}
	options := newOptions(opts, newAuth(t))
	options.URL, options.Wait, options.Server.Metrics = store, time.Minute, server.NewMetrics("test")
	e, _ := servertest.NewExchangeEnv(t, txtar.Parse([]byte(pushing(hosts))), &servertest.Folders{}, options)
	return e, serveReplica(t, e)
}

func newKeys(t *testing.T) *connections.Keys {
	t.Helper()
	keys, err := connections.NewRandomKeys()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// withPush adds a configuration to a message.
func withPush(req *a2a.SendMessageRequest, c *a2a.PushConfig) *a2a.SendMessageRequest {
	req.Config = &a2a.SendMessageConfig{PushConfig: c}
	return req
}

// a2a-go's client manages configurations over each transport of both versions, and its hook receives each
// state once, in the form of the version, with the token and the credentials.
func TestPush(t *testing.T) {
	h := newHook(t)
	e, address := newPushReplica(t, "", h.host, newKeys(t))
	for _, by := range transports {
		t.Run(by.String(), func(t *testing.T) {
			p := newPeer(t, e, address+"/a2a/desk", tokenU, by)
			asking := p.send(withPush(newMessage("a refund"), &a2a.PushConfig{
				ID: "first", URL: h.URL + "/hook?secret=s3cret", Token: "the-token", Auth: &a2a.PushAuthInfo{Scheme: "Bearer", Credentials: "the-credentials"},
			}))
			got := <-h.received
			if got.header.Get("X-A2A-Notification-Token") != "the-token" || got.header.Get("Authorization") != "Bearer the-credentials" {
				t.Errorf("the header: %v", got.header)
			}
			if by.version == a2a.Version {
				if state := got.readState(t); state != "TASK_STATE_INPUT_REQUIRED " || got.header.Get("Content-Type") != "application/a2a+json" {
					t.Errorf("the first state: %s", got.body)
				}
			} else if !strings.Contains(got.body, `"kind":"task"`) || !strings.Contains(got.body, `"state":"input-required"`) {
				t.Errorf("the first state: %s", got.body)
			}
			if done := p.answer(asking, "yes"); done.Status.State != a2a.TaskStateCompleted {
				t.Fatalf("answered: %v", done)
			}
			if got = <-h.received; !strings.Contains(got.body, "Paid back.") || !strings.Contains(got.body, `"id":"`+string(asking.ID)+`"`) {
				t.Errorf("the last state of %s: %s", asking.ID, got.body)
			}
			p.checkConfigs(asking, h, by == transports[4])
		})
	}
	if len(h.received) > 0 {
		t.Errorf("%d notifications more", len(h.received))
	}
}

// checkConfigs reads, lists, replaces and deletes the configurations of a task that has ended.
func (p *peer) checkConfigs(done *a2a.Task, h *hook, isOldREST bool) {
	p.Helper()
	ctx := p.Context()
	one, err := p.GetTaskPushConfig(ctx, &a2a.GetTaskPushConfigRequest{TaskID: done.ID, ID: "first"})
	if err != nil || one.URL != h.URL+"/hook?secret=s3cret" || one.Token != "the-token" || one.Auth == nil || one.Auth.Scheme != "Bearer" || one.Auth.Credentials != "" {
		p.Errorf("read: %+v, %v", one, err)
	}
	if _, err := p.CreateTaskPushConfig(ctx, &a2a.PushConfig{TaskID: done.ID, ID: "second", URL: h.URL + "/second"}); err != nil {
		p.Errorf("created: %v", err)
	}
	if got := <-h.received; got.header.Get("Authorization") != "" || !strings.Contains(got.body, "Paid back.") {
		p.Errorf("the state that the task has reached: %v", got)
	}
	all, err := p.ListTaskPushConfigs(ctx, &a2a.ListTaskPushConfigRequest{TaskID: done.ID})
	if err != nil || len(all) != 2 || all[1].ID != "second" {
		p.Errorf("listed: %+v, %v", all, err)
	}
	for range 2 {
		if err := p.DeleteTaskPushConfig(ctx, &a2a.DeleteTaskPushConfigRequest{TaskID: done.ID, ID: "first"}); err != nil {
			p.Errorf("deleted: %v", err)
		}
	}
	if _, err := p.GetTaskPushConfig(ctx, &a2a.GetTaskPushConfigRequest{TaskID: done.ID, ID: "first"}); err == nil || !isOldREST && !strings.Contains(err.Error(), "unknown push notification configuration") {
		p.Errorf("read after it was deleted: %v", err) // REST of 0.3 has one status for several errors
	}
}

// Every replica has the configurations, also after a restart: the one that runs the turn notifies, also if
// another door has started it. A canceled task is notified, too.
func TestPushReplicas(t *testing.T) {
	h, keys := newHook(t), newKeys(t)
	store := "sqlite:///" + t.TempDir() + "/a2a.db"
	e1, one := newPushReplica(t, store, h.host, keys)
	first := newUserPeer(t, e1, one, tokenU)
	var asking [3]*a2a.Task
	for i := range asking {
		asking[i] = first.send(withPush(newMessage("a refund"), &a2a.PushConfig{URL: h.URL}))
		if state := (<-h.received).readState(t); state != "TASK_STATE_INPUT_REQUIRED " {
			t.Errorf("asked: %s", state)
		}
	}
	e1.Server.Drain()
	if err := e1.Server.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	e2, two := newPushReplica(t, store, h.host, keys)
	second := newUserPeer(t, e2, two, tokenU)
	for range 20 { // the replicas' IDs are counters, which meet in no session
		second.send(newMessage("hello"))
	}
	second.answer(asking[0], "yes")
	if state := (<-h.received).readState(t); state != "TASK_STATE_COMPLETED Paid back." {
		t.Errorf("answered at the second replica: %s", state)
	}
	if _, err := second.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: asking[1].ID}); err != nil {
		t.Fatal(err)
	}
	if state := (<-h.received).readState(t); state != "TASK_STATE_CANCELED " {
		t.Errorf("canceled at the second replica: %s", state)
	}
	sess, err := e2.Store.Sessions.Get(t.Context(), session.Key{App: "desk", User: "u", ID: asking[2].ContextID}, nil)
	if err != nil {
		t.Fatal(err)
	}
	question := ""
	for _, ev := range sess.Events() {
		for _, c := range ev.Calls() {
			if c.Name == "adk_request_confirmation" {
				question = c.ID
			}
		}
	}
	w := call(e2, "/run", []byte(fmt.Sprintf(`{"appName":"desk","userId":"u","sessionId":%q,"newMessage":{"role":"user","parts":[{"functionResponse":{"id":%q,"name":"adk_request_confirmation","response":{"confirmed":true}}}]}}`, asking[2].ContextID, question)))
	if w.Code != http.StatusOK {
		t.Fatalf("answered over REST: %d %s", w.Code, w.Body)
	}
	if state := (<-h.received).readState(t); state != "TASK_STATE_COMPLETED Paid back." {
		t.Errorf("answered over another door: %s", state)
	}
	running := second.start("wait")
	if _, err := second.CreateTaskPushConfig(t.Context(), &a2a.PushConfig{TaskID: running.ID, URL: h.URL}); err != nil {
		t.Fatal(err)
	}
	if _, err := second.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: running.ID}); err != nil {
		t.Fatal(err)
	}
	if state := (<-h.received).readState(t); state != "TASK_STATE_CANCELED " {
		t.Errorf("a running task that is canceled: %s", state)
	}
	if len(h.received) > 0 {
		t.Errorf("%d notifications more", len(h.received))
	}
}

// A configuration reaches granted hosts only, and has bounds; a task of another user is not found; without
// hosts, or keys, the agent offers no notifications.
func TestHostilePush(t *testing.T) {
	h := newHook(t)
	e, address := newPushReplica(t, "", h.host+", '*.example.com'", newKeys(t))
	p := newUserPeer(t, e, address, tokenU)
	done := p.send(newMessage("hello"))
	long := strings.Repeat("x", 5000)
	for name, tt := range map[string]struct {
		config a2a.PushConfig
		want   string
	}{
		"another host":         {a2a.PushConfig{URL: "https://evil.test/"}, "url must have a host that the agent's push_hosts grant"},
		"another port":         {a2a.PushConfig{URL: "http://127.0.0.1:1/"}, "url must have a host that the agent's push_hosts grant"},
		"metadata":             {a2a.PushConfig{URL: "http://169.254.169.254/latest"}, "url must be an https:// address without a user and a fragment"},
		"no TLS":               {a2a.PushConfig{URL: "http://hooks.example.com/"}, "url must be an https:// address without a user and a fragment"},
		"host as user":         {a2a.PushConfig{URL: "https://hooks.example.com@evil.test/"}, "url must be an https:// address without a user and a fragment"},
		"host as path":         {a2a.PushConfig{URL: "https://evil.test/hooks.example.com"}, "url must have a host that the agent's push_hosts grant"},
		"host as prefix":       {a2a.PushConfig{URL: "https://hooks.example.com.evil.test/"}, "url must have a host that the agent's push_hosts grant"},
		"the pattern's domain": {a2a.PushConfig{URL: "https://example.com/"}, "url must have a host that the agent's push_hosts grant"},
		"file":                 {a2a.PushConfig{URL: "file:///etc/passwd"}, "url must be an https:// address without a user and a fragment"},
		"no URL":               {a2a.PushConfig{}, "url must be an https:// address without a user and a fragment"},
		"long URL":             {a2a.PushConfig{URL: h.URL + "/" + long}, "url exceeds the limit of 2048 bytes"},
		"long ID":              {a2a.PushConfig{ID: long, URL: h.URL}, "id exceeds the limit of 256 bytes"},
		"long token":           {a2a.PushConfig{URL: h.URL, Token: long}, "token exceeds the limit of 1024 bytes"},
		"header in token":      {a2a.PushConfig{URL: h.URL, Token: "x\r\nHost: evil.test"}, "token must have printable ASCII characters only"},
		"header in scheme":     {a2a.PushConfig{URL: h.URL, Auth: &a2a.PushAuthInfo{Scheme: "Bearer: x", Credentials: "c"}}, "authentication.scheme must be an HTTP authentication scheme, such as Bearer"},
		"no scheme":            {a2a.PushConfig{URL: h.URL, Auth: &a2a.PushAuthInfo{Credentials: "c"}}, "authentication.scheme must be an HTTP authentication scheme, such as Bearer"},
		"long credentials":     {a2a.PushConfig{URL: h.URL, Auth: &a2a.PushAuthInfo{Scheme: "Bearer", Credentials: long}}, "authentication.credentials exceeds the limit of 4096 bytes"},
	} {
		config := tt.config
		config.TaskID = done.ID
		_, err := p.CreateTaskPushConfig(t.Context(), &config)
		if !errors.Is(err, a2a.ErrInvalidParams) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := p.SendMessage(t.Context(), withPush(newMessage("hello"), &config)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s in a message: %v", name, err)
		}
	}
	for i := range 9 {
		_, err := p.CreateTaskPushConfig(t.Context(), &a2a.PushConfig{TaskID: done.ID, ID: fmt.Sprint(i), URL: h.URL})
		if (err != nil) != (i == 8) || i == 8 && !strings.Contains(err.Error(), "push notification configurations exceed the limit of 8 for a task") {
			t.Errorf("configuration %d: %v", i, err)
		}
	}
	foreign := newUserPeer(t, e, address, tokenV)
	_, got := foreign.GetTaskPushConfig(t.Context(), &a2a.GetTaskPushConfigRequest{TaskID: done.ID, ID: "1"})
	_, listed := foreign.ListTaskPushConfigs(t.Context(), &a2a.ListTaskPushConfigRequest{TaskID: done.ID})
	_, created := foreign.CreateTaskPushConfig(t.Context(), &a2a.PushConfig{TaskID: done.ID, URL: h.URL})
	deleted := foreign.DeleteTaskPushConfig(t.Context(), &a2a.DeleteTaskPushConfigRequest{TaskID: done.ID, ID: "1"})
	for name, err := range map[string]error{"get": got, "list": listed, "create": created, "delete": deleted} {
		if !errors.Is(err, a2a.ErrTaskNotFound) {
			t.Errorf("another user's %s: %v", name, err)
		}
	}
}

// An answer whose configuration exceeds the limit is refused before its turn runs: the task waits as before.
func TestPushLimitOfAnswer(t *testing.T) {
	h := newHook(t)
	e, address := newPushReplica(t, "", h.host, newKeys(t))
	p := newUserPeer(t, e, address, tokenU)
	asking := p.send(newMessage("a refund"))
	for i := range 8 {
		if _, err := p.CreateTaskPushConfig(t.Context(), &a2a.PushConfig{TaskID: asking.ID, ID: fmt.Sprint(i), URL: h.URL}); err != nil {
			t.Fatal(err)
		}
		<-h.received
	}
	newAnswer := func(id string) *a2a.SendMessageRequest {
		req := withPush(newMessage("yes"), &a2a.PushConfig{ID: id, URL: h.URL})
		req.Message.TaskID, req.Message.ContextID = asking.ID, asking.ContextID
		return req
	}
	_, sent := p.SendMessage(t.Context(), newAnswer("ninth"))
	var streamed error
	for _, err := range p.SendStreamingMessage(t.Context(), newAnswer("ninth")) {
		streamed = err
	}
	for name, err := range map[string]error{"send": sent, "stream": streamed} {
		if !errors.Is(err, a2a.ErrInvalidParams) || !strings.Contains(err.Error(), "push notification configurations exceed the limit of 8 for a task") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := p.GetTask(t.Context(), &a2a.GetTaskRequest{ID: asking.ID}); err != nil || got.Status.State != a2a.TaskStateInputRequired {
		t.Fatalf("the task after the error: %v, %v", got, err)
	}
	if done := p.send(newAnswer("7")); done.Status.State != a2a.TaskStateCompleted {
		t.Errorf("answered with a configuration that replaces one: %v", done.Status)
	}
	for range 8 {
		if got := (<-h.received).readState(t); got != "TASK_STATE_COMPLETED Paid back." {
			t.Errorf("notified of %s", got)
		}
	}
}

// Without hosts or without keys there are no notifications, and the card does not have them.
func TestPushNotOffered(t *testing.T) {
	h := newHook(t)
	for name, tt := range map[string]struct {
		hosts string
		keys  *connections.Keys
		want  string
	}{
		"no hosts": {"", newKeys(t), "push notification not supported"},
		"no keys":  {h.host, nil, "push notifications require keys on the host (--credentials-key)"},
		"both":     {h.host, newKeys(t), ""},
	} {
		e, address := newPushReplica(t, "", tt.hosts, tt.keys)
		card := e.Serve(http.MethodGet, "/a2a/desk/.well-known/agent-card.json", "").Body.String()
		if strings.Contains(card, `"pushNotifications": true`) != (tt.want == "") {
			t.Errorf("%s: %s", name, card)
		}
		p := newUserPeer(t, e, address, tokenU)
		_, err := p.SendMessage(t.Context(), withPush(newMessage("hello"), &a2a.PushConfig{URL: h.URL}))
		if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, a2a.ErrPushNotificationNotSupported) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A hook that fails gets four attempts, one that rejects or redirects gets one; then the next state arrives.
func TestPushFailures(t *testing.T) {
	for name, tt := range map[string]struct {
		status, path string
		attempts     int
	}{
		"unavailable": {"503", "/", 4}, "rejected": {"400", "/", 1}, "redirected": {"307", "/redirect", 1}, "taken": {"204", "/", 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHook(t)
			h.status = func() int {
				code := 0
				_, _ = fmt.Sscan(tt.status, &code)
				return code
			}
			e, address := newPushReplica(t, "", h.host, newKeys(t))
			p := newUserPeer(t, e, address, tokenU)
			asking := p.send(withPush(newMessage("a refund"), &a2a.PushConfig{URL: h.URL + tt.path}))
			for range tt.attempts {
				if state := (<-h.received).readState(t); state != "TASK_STATE_INPUT_REQUIRED " {
					t.Errorf("the attempt: %s", state)
				}
			}
			p.answer(asking, "yes")
			if state := (<-h.received).readState(t); state != "TASK_STATE_COMPLETED Paid back." {
				t.Errorf("the next state: %s", state)
			}
		})
	}
}

// A shutdown waits for a notification whose hook has not answered yet.
func TestPushShutdown(t *testing.T) {
	h := newHook(t)
	arrived, answer := make(chan struct{}), make(chan struct{})
	h.status = func() int {
		close(arrived)
		<-answer
		return http.StatusOK
	}
	e, address := newPushReplica(t, "", h.host, newKeys(t))
	newUserPeer(t, e, address, tokenU).send(withPush(newMessage("hello"), &a2a.PushConfig{URL: h.URL}))
	<-arrived
	e.Server.Drain()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Server.Wait(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("the shutdown does not wait: %v", err)
	}
	close(answer)
	if err := e.Server.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if state := (<-h.received).readState(t); state != "TASK_STATE_COMPLETED You wrote: hello" {
		t.Errorf("the notification: %s", state)
	}
}

// No address, token or credential is in the stored session, in the task or in the database's row.
func TestPushSecrets(t *testing.T) {
	h := newHook(t)
	store := "sqlite:///" + t.TempDir() + "/a2a.db"
	e, address := newPushReplica(t, store, h.host, newKeys(t))
	p := newUserPeer(t, e, address, tokenU)
	done := p.send(withPush(newMessage("hello"), &a2a.PushConfig{URL: h.URL + "/s3cret-path", Token: "s3cret-token", Auth: &a2a.PushAuthInfo{Scheme: "Bearer", Credentials: "s3cret-credentials"}}))
	<-h.received
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/apps/desk/users/u/sessions/"+url.PathEscape(done.ContextID), nil)
	r.Header.Set("Authorization", "Bearer "+tokenU)
	e.Server.ServeHTTP(w, r)
	task, err := json.Marshal(p.get(done.ID))
	if err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %v", w.Code, err)
	}
	for name, text := range map[string]string{"session": w.Body.String(), "task": string(task)} {
		if strings.Contains(text, "s3cret") {
			t.Errorf("the %s: %s", name, text)
		}
	}
}
