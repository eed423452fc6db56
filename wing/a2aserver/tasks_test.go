package a2aserver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/genai"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"agenthost/internal/servertest"
	"agenthost/pkg/session"
	"agenthost/wing/a2aserver"
)

// A peer is a2a-go's client.
type peer struct {
	*testing.T
	*a2aclient.Client
	e *servertest.Env
}

// A bearer sends a token with each request.
type bearer struct {
	token string
	inner http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.inner.RoundTrip(r)
}

// A rpcBearer sends a token with each call of gRPC.
type rpcBearer string

func (b rpcBearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (rpcBearer) RequireTransportSecurity() bool { return false }

// newReplica returns a server with the app desk on a session store; empty for one in memory.
func newReplica(t *testing.T, store string, opts *a2aserver.Options) (*servertest.Env, string) {
	t.Helper()
	options := newOptions(opts, newAuth(t))
	options.URL, options.Wait = store, time.Minute
	e, _ := servertest.NewExchangeEnv(t, txtar.Parse([]byte(desk)), &servertest.Folders{}, options)
	return e, serveReplica(t, e)
}

// serveReplica serves over HTTP/1 and HTTP/2, and returns the address.
func serveReplica(t *testing.T, e *servertest.Env) string {
	t.Helper()
	web := httptest.NewUnstartedServer(e.Server)
	web.Config.Protocols = new(http.Protocols)
	web.Config.Protocols.SetHTTP1(true)
	web.Config.Protocols.SetUnencryptedHTTP2(true)
	web.Start()
	t.Cleanup(func() {
		e.Server.Drain()
		e.Server.Abort()
		_ = e.Server.Wait(context.Background())
		web.Close()
	})
	return web.URL
}

// A transport is an interface on the card.
type transport struct {
	version a2a.ProtocolVersion
	binding a2a.TransportProtocol
}

func (t transport) String() string { return fmt.Sprint(t.version, " ", t.binding) }

var transports = []transport{
	{a2a.Version, a2a.TransportProtocolJSONRPC},
	{a2a.Version, a2a.TransportProtocolHTTPJSON},
	{a2a.Version, a2a.TransportProtocolGRPC},
	{a2av0.Version, a2a.TransportProtocolJSONRPC},
	{a2av0.Version, a2a.TransportProtocolHTTPJSON},
}

// newPeer returns a client of an agent, that prefers a transport of a version.
func newPeer(t *testing.T, e *servertest.Env, address, token string, by transport) *peer {
	t.Helper()
	inner := &http.Transport{}
	t.Cleanup(inner.CloseIdleConnections)
	web := &http.Client{Transport: bearer{token, inner}}
	resolver := agentcard.NewResolver(web)
	resolver.CardParser = a2av0.NewAgentCardParser()
	card, err := resolver.Resolve(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	for i, one := range card.SupportedInterfaces {
		if by == (transport{one.ProtocolVersion, one.ProtocolBinding}) {
			card.SupportedInterfaces = card.SupportedInterfaces[i : i+1]
			break
		}
	}
	c, err := a2aclient.NewFromCard(t.Context(), card, a2aclient.WithDefaultsDisabled(), a2aclient.WithJSONRPCTransport(web), a2aclient.WithRESTTransport(web),
		a2agrpc.WithGRPCTransport(grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(rpcBearer(token))),
		a2aclient.WithCompatTransport(a2av0.Version, a2a.TransportProtocolJSONRPC, a2av0.NewJSONRPCTransportFactory(a2av0.JSONRPCTransportConfig{Client: web})),
		a2aclient.WithCompatTransport(a2av0.Version, a2a.TransportProtocolHTTPJSON, a2av0.NewRESTTransportFactory(a2av0.RESTTransportConfig{Client: web})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Destroy() })
	return &peer{t, c, e}
}

const tokenU, tokenV, tokenW = "token-of-u-0123456789", "token-of-v-0123456789", "token-of-w-0123456789"

// newUserPeer returns a client that prefers JSON-RPC of 1.0.
func newUserPeer(t *testing.T, e *servertest.Env, address, token string) *peer {
	t.Helper()
	return newPeer(t, e, address+"/a2a/desk", token, transports[0])
}

func newMessage(text string) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(text))}
}

// start begins a task and returns at once.
func (p *peer) start(text string) *a2a.Task {
	p.Helper()
	req := newMessage(text)
	req.Config = &a2a.SendMessageConfig{ReturnImmediately: true}
	return p.send(req)
}

func (p *peer) send(req *a2a.SendMessageRequest) *a2a.Task {
	p.Helper()
	result, err := p.SendMessage(p.Context(), req)
	t, ok := result.(*a2a.Task)
	if err != nil || !ok {
		p.Fatalf("%v, %v", result, err)
	}
	return t
}

// answer sends a message to a task.
func (p *peer) answer(t *a2a.Task, text string) *a2a.Task {
	p.Helper()
	req := newMessage(text)
	req.Message.TaskID, req.Message.ContextID = t.ID, t.ContextID
	return p.send(req)
}

// get returns a task once it is not working.
func (p *peer) get(id a2a.TaskID) *a2a.Task {
	p.Helper()
	for {
		t, err := p.GetTask(p.Context(), &a2a.GetTaskRequest{ID: id})
		if err != nil {
			p.Fatal(err)
		}
		if t.Status.State != a2a.TaskStateWorking {
			return t
		}
	}
}

// textOf returns a task's artifacts as text.
func textOf(t *a2a.Task) string {
	var all []string
	for _, a := range t.Artifacts {
		for _, p := range a.Parts {
			all = append(all, p.Text())
		}
	}
	return strings.Join(all, "|")
}

// readStream returns a stream's events in short.
func readStream(p *peer, events func(func(a2a.Event, error) bool)) []string {
	p.Helper()
	var all []string
	for ev, err := range events {
		if err != nil {
			p.Fatal(err)
		}
		switch ev := ev.(type) {
		case *a2a.Task:
			all = append(all, string(ev.Status.State)+" "+textOf(ev))
		case *a2a.TaskStatusUpdateEvent:
			all = append(all, string(ev.Status.State))
		case *a2a.TaskArtifactUpdateEvent:
			all = append(all, fmt.Sprint(ev.Artifact.ID, " ", ev.Append, ev.LastChunk, " ", ev.Artifact.Parts[0].Text()))
		}
	}
	return all
}

// a2a-go's client does the same over each transport of both versions: a turn, a stream, a question and its
// answer, and a task that it cancels.
func TestTransports(t *testing.T) {
	e, address := newReplica(t, "", &a2aserver.Options{GRPC: true})
	for _, by := range transports {
		t.Run(by.String(), func(t *testing.T) {
			p := newPeer(t, e, address+"/a2a/desk", tokenU, by)
			if done := p.send(newMessage("hello")); done.Status.State != a2a.TaskStateCompleted || textOf(done) != "You wrote: hello" {
				t.Errorf("a turn: %v", done)
			}
			got := readStream(p, p.SendStreamingMessage(t.Context(), newMessage("a story")))
			want := []string{
				"TASK_STATE_SUBMITTED ", "TASK_STATE_WORKING", "desk-1 false false Once, in ", "desk-1 true false a town, ", "desk-1 true false it rained.",
				"desk-1 false true Once, in a town, it rained.", "TASK_STATE_COMPLETED",
			}
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("a stream:\n%s", strings.Join(got, "\n"))
			}
			asking := p.send(newMessage("a refund"))
			if asking.Status.State != a2a.TaskStateInputRequired {
				t.Fatalf("a question: %v", asking)
			}
			if done := p.answer(asking, "yes"); done.Status.State != a2a.TaskStateCompleted || textOf(done) != "Paid back." || done.ID != asking.ID {
				t.Errorf("an answer: %v", done)
			}
			running := p.start("wait")
			canceled, err := p.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: running.ID})
			if err != nil || canceled.Status.State != a2a.TaskStateCanceled {
				t.Errorf("a canceled task: %v, %v", canceled, err)
			}
			_, err = p.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: running.ID})
			if isOldREST := by == transports[4]; err == nil || !isOldREST && !errors.Is(err, a2a.ErrTaskNotCancelable) {
				t.Errorf("canceled again: %v", err) // REST of 0.3 has one status for several errors
			}
		})
	}
}

// Every replica reads a task, follows it, answers it and cancels it; a client that comes back finds the run
// that its stream did not end.
func TestReplicas(t *testing.T) {
	store := "sqlite:///" + t.TempDir() + "/a2a.db"
	e1, one := newReplica(t, store, nil)
	e2, two := newReplica(t, store, nil)
	first, second := newUserPeer(t, e1, one, tokenU), newUserPeer(t, e2, two, tokenU)
	for range 10 { // the replicas' IDs are counters, which meet in no session
		first.send(newMessage("hello"))
	}
	asking := first.send(newMessage("a refund"))
	if done := second.answer(asking, "yes"); done.Status.State != a2a.TaskStateCompleted {
		t.Errorf("answered at the second replica: %v", done)
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var running *a2a.Task
	for ev, err := range first.SendStreamingMessage(ctx, newMessage("wait")) {
		if err != nil {
			break
		}
		if task, ok := ev.(*a2a.Task); ok {
			running = task
			leave()
		}
	}
	for _, p := range []*peer{first, second} {
		found, err := p.GetTask(t.Context(), &a2a.GetTaskRequest{ID: running.ID})
		if err != nil || found.Status.State != a2a.TaskStateWorking {
			t.Fatalf("a run whose client has left: %v, %v", found, err)
		}
	}
	following := make(chan string)
	ends := make(chan string)
	go func() {
		last := ""
		for ev, err := range second.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: running.ID}) {
			switch ev := ev.(type) {
			case *a2a.Task:
				following <- string(ev.Status.State)
			case *a2a.TaskStatusUpdateEvent:
				last = fmt.Sprint(ev.Status.State, err)
			}
		}
		ends <- last
	}()
	if state := <-following; state != "TASK_STATE_WORKING" {
		t.Errorf("followed at the second replica: %s", state)
	}
	canceled, err := second.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: running.ID})
	if err != nil || canceled.Status.State != a2a.TaskStateCanceled {
		t.Fatalf("canceled at the second replica: %v, %v", canceled, err)
	}
	if last := <-ends; last != "TASK_STATE_CANCELED<nil>" {
		t.Errorf("the end of the stream: %s", last)
	}
}

// checkForeignTask begins a task that waits, which no method finds for another user.
func checkForeignTask(own, foreign *peer) *a2a.Task {
	asking := own.send(newMessage("a refund"))
	ctx := own.Context()
	_, got := foreign.GetTask(ctx, &a2a.GetTaskRequest{ID: asking.ID})
	_, canceled := foreign.CancelTask(ctx, &a2a.CancelTaskRequest{ID: asking.ID})
	answer := newMessage("yes")
	answer.Message.TaskID = asking.ID
	_, answered := foreign.SendMessage(ctx, answer)
	var followed error
	for _, followed = range foreign.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: asking.ID}) {
	}
	for name, err := range map[string]error{"get": got, "cancel": canceled, "answer": answered, "follow": followed} {
		if !errors.Is(err, a2a.ErrTaskNotFound) {
			own.Errorf("%s: %v", name, err)
		}
	}
	return asking
}

// Another user's tasks and contexts are unknown: nothing of them is read, answered, canceled or followed,
// and a message in a context with the same ID begins a session of one's own. A caller without the app is
// refused, and one without a token, too.
func TestForeignCallers(t *testing.T) {
	e, address := newReplica(t, "", nil)
	own, foreign := newUserPeer(t, e, address, tokenU), newUserPeer(t, e, address, tokenV)
	asking := checkForeignTask(own, foreign)
	same := newMessage("hello")
	same.Message.ContextID = asking.ContextID
	if done := foreign.send(same); textOf(done) != "You wrote: hello" {
		t.Errorf("a context with the same ID: %v", done)
	}
	list, err := foreign.ListTasks(t.Context(), &a2a.ListTasksRequest{})
	if err != nil || list.TotalSize != 1 {
		t.Errorf("the other user's list: %v, %v", list, err)
	}
	if found := own.get(asking.ID); found.Status.State != a2a.TaskStateInputRequired {
		t.Errorf("the task: %v", found)
	}
	for token, want := range map[string]int{tokenW: http.StatusForbidden, "wrong": http.StatusUnauthorized} {
		r := httptest.NewRequest(http.MethodPost, "/a2a/desk", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		e.Server.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("the token %s: %d %s", token, w.Code, w.Body)
		}
	}
}

// Two different answers to one question: one is taken, the other one is an error, and the call runs once.
func TestTwoAnswers(t *testing.T) {
	e, address := newReplica(t, "", nil)
	p := newUserPeer(t, e, address, tokenU)
	asking := p.send(newMessage("a refund"))
	results := make(chan error, 2)
	for _, words := range []string{"yes", "no"} {
		go func() {
			req := newMessage(words)
			req.Message.TaskID = asking.ID
			_, err := p.SendMessage(t.Context(), req)
			results <- err
		}()
	}
	failed := 0
	for range 2 {
		if err := <-results; err != nil {
			failed++
		}
	}
	if done := p.get(asking.ID); failed != 1 || textOf(done) != "Paid back." {
		t.Errorf("%d answers failed: %v", failed, done)
	}
}

// A task that waits while a later one has begun in its context cannot be canceled, which leaves the later one
// as it is. It can still be answered.
func TestLaterTask(t *testing.T) {
	e, address := newReplica(t, "", nil)
	p := newUserPeer(t, e, address, tokenU)
	asking := p.send(newMessage("a refund"))
	next := newMessage("hello")
	next.Message.ContextID = asking.ContextID
	later := p.send(next)
	_, err := p.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: asking.ID})
	if !errors.Is(err, a2a.ErrTaskNotCancelable) || !strings.Contains(err.Error(), "a later task has begun in the session") {
		t.Errorf("the earlier task is canceled: %v", err)
	}
	if found := p.get(later.ID); found.Status.State != a2a.TaskStateCompleted || textOf(found) != "You wrote: hello" {
		t.Errorf("the later task: %v", found)
	}
	if found := p.get(asking.ID); found.Status.State != a2a.TaskStateInputRequired {
		t.Errorf("the earlier task: %v", found)
	}
}

// The card for an authenticated caller has the agents below; a list has the tasks that it selects, the
// newest first, by pages.
func TestCardsAndLists(t *testing.T) {
	e, address := newReplica(t, "", nil)
	p := newUserPeer(t, e, address, tokenU)
	card, err := p.GetExtendedAgentCard(t.Context(), &a2a.GetExtendedAgentCardRequest{})
	if err != nil || len(card.Skills) != 2 || card.Skills[1].ID != "desk_writer" {
		t.Fatalf("the card: %v, %v", card, err)
	}
	first := p.send(newMessage("hello"))
	p.send(newMessage("a refund"))
	last := p.send(newMessage("fail"))
	if last.Status.State != a2a.TaskStateFailed || last.Status.Message.Parts[0].Text() != "model scripted failed: the model is broken" {
		t.Errorf("a failed turn: %v", last)
	}
	list := func(req *a2a.ListTasksRequest) *a2a.ListTasksResponse {
		t.Helper()
		got, err := p.ListTasks(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	page := list(&a2a.ListTasksRequest{PageSize: 2})
	if page.TotalSize != 3 || len(page.Tasks) != 2 || page.NextPageToken == "" || page.Tasks[0].Artifacts != nil {
		t.Errorf("the first page: %+v", page)
	}
	page = list(&a2a.ListTasksRequest{PageSize: 2, PageToken: page.NextPageToken})
	if len(page.Tasks) != 1 || page.NextPageToken != "" {
		t.Errorf("the second page: %+v", page)
	}
	page = list(&a2a.ListTasksRequest{ContextID: first.ContextID, IncludeArtifacts: true})
	if page.TotalSize != 1 || textOf(page.Tasks[0]) != "You wrote: hello" {
		t.Errorf("a context: %+v", page)
	}
	if page = list(&a2a.ListTasksRequest{Status: a2a.TaskStateInputRequired}); page.TotalSize != 1 {
		t.Errorf("a status: %+v", page)
	}
	future := time.Now().AddDate(10, 0, 0)
	if page = list(&a2a.ListTasksRequest{StatusTimestampAfter: &future}); page.TotalSize != 0 || page.Tasks == nil {
		t.Errorf("after a time: %+v", page)
	}
}

// Files arrive as parts for the model, and data as text in ADK's marks; metadata is on the events.
func TestParts(t *testing.T) {
	e, address := newReplica(t, "", nil)
	p := newUserPeer(t, e, address, tokenU)
	raw := a2a.NewRawPart([]byte("\x89PNG"))
	raw.MediaType, raw.Filename = "image/png", "cat.png"
	req := &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("look"), raw,
		a2a.NewFileURLPart("https://example.com/a.pdf", "application/pdf"), a2a.NewDataPart(map[string]any{"order": 7.0}))}
	req.Metadata = map[string]any{"trace": "t1"}
	done := p.send(req)
	sess, err := e.Store.Sessions.Get(t.Context(), session.Key{App: "desk", User: "u", ID: done.ContextID}, nil)
	if err != nil {
		t.Fatal(err)
	}
	first := sess.Events()[0]
	parts := first.Content.Parts
	if len(parts) != 4 || parts[1].InlineData.DisplayName != "cat.png" || parts[2].FileData.FileURI != "https://example.com/a.pdf" || string(parts[3].InlineData.Data) != `<a2a_datapart_json>{"order":7}</a2a_datapart_json>` {
		t.Errorf("the parts: %+v", parts)
	}
	if given, _ := first.CustomMetadata["a2a_metadata"].(map[string]any); given["trace"] != "t1" {
		t.Errorf("the metadata: %v", first.CustomMetadata)
	}
	sent := done.History[0].Parts
	if len(sent) != 4 || string(sent[1].Raw()) != "\x89PNG" || sent[3].Data() == nil {
		t.Errorf("the history: %v", sent)
	}
	req.Metadata = map[string]any{"trace": strings.Repeat("x", 5000)}
	if _, err := p.SendMessage(t.Context(), req); !errors.Is(err, a2a.ErrInvalidParams) || !strings.Contains(err.Error(), "metadata exceeds the limit of 4096 bytes") {
		t.Errorf("large metadata: %v", err)
	}
}

// Files that a tool saves are artifacts of the task, in a stream and when it is read, with the IDs that ADK
// gives them. Files after the limit are addresses; the host's own and deleted ones are omitted.
func TestSavedFiles(t *testing.T) {
	e, address := newReplica(t, "", nil)
	p := newUserPeer(t, e, address, tokenU)
	got := readStream(p, p.SendStreamingMessage(t.Context(), newMessage("a report")))
	want := "reports/may.md_0 false true \ndesk-3 false false Saved."
	if !strings.Contains(strings.Join(got, "\n"), want) {
		t.Errorf("a stream: %q", got)
	}
	done := p.send(newMessage("a report"))
	if len(done.Artifacts) != 2 || done.Artifacts[0].Name != "reports/may.md" || string(done.Artifacts[0].Parts[0].Raw()) != "Sales went up." || done.Artifacts[0].Parts[0].Filename != "may.md" {
		t.Errorf("a task: %+v", done.Artifacts)
	}
	key := session.Key{App: "desk", User: "u", ID: done.ContextID}
	saves := map[string]int{"_adk_own": 0, "Gone.txt": 7}
	for name, size := range map[string]int{"a big file.bin": 9 << 20, "later.txt": 5} {
		if _, err := e.Store.Artifacts.Save(t.Context(), key, name, &genai.Part{InlineData: &genai.Blob{MIMEType: "application/pdf", Data: make([]byte, size)}}); err != nil {
			t.Fatal(err)
		}
		saves[name] = 0
	}
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := sess.Events()[len(sess.Events())-1]
	if err := e.Store.Sessions.Append(t.Context(), sess, &session.Event{ID: "saves", InvocationID: last.InvocationID, Author: "desk", Actions: session.Actions{ArtifactDelta: saves}}); err != nil {
		t.Fatal(err)
	}
	var urls []string
	for _, a := range p.get(done.ID).Artifacts[2:] {
		urls = append(urls, string(a.Parts[0].URL()))
	}
	path := address + "/apps/desk/users/u/sessions/" + key.ID + "/artifacts/"
	if want := path + "a%20big%20file.bin/versions/0 " + path + "later.txt/versions/0"; strings.Join(urls, " ") != want {
		t.Errorf("large files: %q", urls)
	}
	for _, url := range urls {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		req.Header.Set("Authorization", "Bearer "+tokenU)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s", url, resp.Status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
