package a2aagent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A server is an A2A server of the official library, whose agent does what a message orders.
type server struct {
	*httptest.Server
	card *a2a.AgentCard

	mu       sync.Mutex
	received []string
	headers  []http.Header
	canceled chan struct{}
}

// The bindings and versions of the protocol that a server can have.
var transports = map[string]struct {
	binding a2a.TransportProtocol
	version a2a.ProtocolVersion
	handler func(a2asrv.RequestHandler) http.Handler
}{
	"JSON-RPC 1.0": {a2a.TransportProtocolJSONRPC, "1.0", func(h a2asrv.RequestHandler) http.Handler { return a2asrv.NewJSONRPCHandler(h) }},
	"REST 1.0":     {a2a.TransportProtocolHTTPJSON, "1.0", func(h a2asrv.RequestHandler) http.Handler { return a2asrv.NewRESTHandler(h) }},
	"JSON-RPC 0.3": {a2a.TransportProtocolJSONRPC, "0.3", func(h a2asrv.RequestHandler) http.Handler { return a2av0.NewJSONRPCHandler(h) }},
	"REST 0.3":     {a2a.TransportProtocolHTTPJSON, "0.3", func(h a2asrv.RequestHandler) http.Handler { return a2av0.NewRESTHandler(h) }},
}

func serve(t *testing.T, transport string, streams bool) *server {
	t.Helper()
	s, way := &server{canceled: make(chan struct{})}, transports[transport]
	mux := http.NewServeMux()
	handler := way.handler(a2asrv.NewHandler(s))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.headers = append(s.headers, r.Header)
		s.mu.Unlock()
		handler.ServeHTTP(w, r)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	s.card = &a2a.AgentCard{
		Name: "desk", Description: "Answers.", Version: "1", Capabilities: a2a.AgentCapabilities{Streaming: streams},
		DefaultInputModes: []string{"text"}, DefaultOutputModes: []string{"text"}, Skills: []a2a.AgentSkill{},
		SupportedInterfaces: []*a2a.AgentInterface{{URL: s.URL, ProtocolBinding: way.binding, ProtocolVersion: way.version}},
	}
	mux.Handle("/card", a2asrv.NewAgentCardHandler(a2av0.NewStaticAgentCardProducer(s.card)))
	if way.version == "1.0" {
		mux.Handle("/card.json", a2asrv.NewStaticAgentCardHandler(s.card))
	} else {
		mux.Handle("/card.json", a2asrv.NewAgentCardHandler(a2av0.NewStaticAgentCardProducer(s.card)))
	}
	return s
}

// Execute does what the message orders.
func (s *server) Execute(ctx context.Context, c *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	text := formatMessage(c.Message)
	s.mu.Lock()
	s.received = append(s.received, text)
	s.mu.Unlock()
	text = text[strings.LastIndex(text, "|")+1:] // what failed before is sent again
	return func(yield func(a2a.Event, error) bool) {
		state := func(state a2a.TaskState, parts ...*a2a.Part) bool {
			var m *a2a.Message
			if len(parts) > 0 {
				m = a2a.NewMessageForTask(a2a.MessageRoleAgent, c, parts...)
			}
			return yield(a2a.NewStatusUpdateEvent(c, state, m), nil)
		}
		if text == "direct" {
			yield(a2a.NewMessageForTask(a2a.MessageRoleAgent, c, a2a.NewTextPart("Hello.")), nil)
			return
		}
		if c.StoredTask == nil && !yield(a2a.NewSubmittedTask(c, c.Message), nil) || !state(a2a.TaskStateWorking) {
			return
		}
		switch {
		case text == "story":
			first := a2a.NewArtifactEvent(c, a2a.NewTextPart("Once, "))
			if !yield(first, nil) {
				return
			}
			more := a2a.NewArtifactUpdateEvent(c, first.Artifact.ID, a2a.NewTextPart("it rained."))
			more.LastChunk = true
			if !yield(more, nil) {
				return
			}
			state(a2a.TaskStateCompleted)
		case text == "file":
			file := a2a.NewRawPart([]byte("a,b\n"))
			file.MediaType, file.Filename = "text/csv", "orders.csv"
			_ = yield(a2a.NewArtifactEvent(c, a2a.NewTextPart("Here."), file, a2a.NewDataPart(map[string]any{"n": 1})), nil) && state(a2a.TaskStateCompleted)
		case text == "ask":
			state(a2a.TaskStateInputRequired, a2a.NewTextPart("Which order?"))
		case text == "approve":
			call := a2a.NewDataPart(map[string]any{"id": "call-1", "name": runtime.RequestConfirmation, "args": map[string]any{
				"originalFunctionCall": map[string]any{"id": "c", "name": "refund", "args": map[string]any{"amount": 500}}, "toolConfirmation": map[string]any{"hint": "", "confirmed": false},
			}})
			call.Metadata = map[string]any{"adk_type": "function_call", "adk_is_long_running": true}
			state(a2a.TaskStateInputRequired, a2a.NewTextPart("Two things wait."), call)
		case text == "fail":
			state(a2a.TaskStateFailed, a2a.NewTextPart("The disk is full."))
		case text == "reject":
			state(a2a.TaskStateRejected)
		case text == "actions":
			ev := a2a.NewArtifactEvent(c, a2a.NewTextPart("Done."))
			ev.Artifact.Metadata = map[string]any{"adk_actions": map[string]any{"stateDelta": map[string]any{"city": "Porto", "role": "admin"}, "escalate": true}}
			_ = yield(ev, nil) && state(a2a.TaskStateCompleted)
		case text == "wait":
			if state(a2a.TaskStateWorking, a2a.NewTextPart("Thinking.")) {
				<-ctx.Done()
			}
		default:
			_ = yield(a2a.NewArtifactEvent(c, a2a.NewTextPart("You wrote: "+text)), nil) && state(a2a.TaskStateCompleted)
		}
	}
}

// Cancel cancels a task.
func (s *server) Cancel(_ context.Context, c *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		close(s.canceled)
		yield(a2a.NewStatusUpdateEvent(c, a2a.TaskStateCanceled, nil), nil)
	}
}

// formatMessage returns a message's texts, and its data as JSON.
func formatMessage(m *a2a.Message) string {
	var all []string
	for _, p := range m.Parts {
		if data := p.Data(); data != nil {
			raw, _ := json.Marshal(data)
			all = append(all, string(raw))
		} else {
			all = append(all, p.Text())
		}
	}
	return strings.Join(all, "|")
}

// An env is a host with the agent front, which the server runs.
type env struct {
	*testenv.Env
	key session.Key
}

func newEnv(t *testing.T, card, more string) *env {
	t.Helper()
	e := &env{Env: testenv.New(t, nil)}
	files := map[string][]byte{"root_agent.yaml": []byte("agent_class: RemoteA2aAgent\nname: front\nagent_card: " + card + "\n" + more)}
	e.Host.Swap(e.Load(t, testenv.Files(t, "front", files)))
	e.key = e.Session(t, "front", "s", nil)
	return e
}

// send runs a turn, and returns the texts and calls of its events. Partial ones are in brackets.
func (e *env) send(ctx context.Context, c *genai.Content, streams bool) string {
	var all []string
	req := &runtime.RunRequest{App: "front", UserID: e.key.User, SessionID: e.key.ID, Message: c}
	if streams {
		config := runtime.DefaultRunConfig()
		config.StreamingMode = runtime.StreamingSSE
		req.Config = &config
	}
	for ev, err := range e.Host.Run(ctx, req) {
		if err != nil {
			all = append(all, "error "+runtime.AsRunError(err).Message)
			break
		}
		if ev.ErrorCode != "" {
			continue
		}
		all = append(all, formatEvent(ev))
	}
	return strings.Join(all, "\n")
}

func formatEvent(ev *session.Event) string {
	var all []string
	for _, p := range ev.Content.Parts {
		switch {
		case p.FunctionCall != nil:
			args := map[string]any{"message": p.FunctionCall.Args["message"]}
			if schema := p.FunctionCall.Args["response_schema"]; schema != nil {
				args["response_schema"] = schema
			}
			raw, _ := json.Marshal(args)
			all = append(all, p.FunctionCall.Name+string(raw))
		case p.InlineData != nil:
			all = append(all, fmt.Sprintf("%s %s %q", p.InlineData.MIMEType, p.InlineData.DisplayName, p.InlineData.Data))
		case p.Thought:
			all = append(all, "thought "+p.Text)
		default:
			all = append(all, p.Text)
		}
	}
	text := strings.Join(all, " + ")
	if ev.Partial {
		return "[" + text + "]"
	}
	return text
}

// answerOpenCall returns a message that answers the last open call.
func (e *env) answerOpenCall(t *testing.T, response map[string]any) *genai.Content {
	t.Helper()
	sess, err := e.Store.Sessions.Get(t.Context(), e.key, nil)
	if err != nil {
		t.Fatal(err)
	}
	pending := runtime.Pending(sess.Events())
	if len(pending) == 0 {
		t.Fatal("no call is open")
	}
	call := pending[len(pending)-1].Calls[0]
	return &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{ID: call.ID, Name: call.Name, Response: response}}}}
}

// Over each transport of both versions, and with and without streams, the session gets the remote
// agent's answers, and the remote agent the answers to its questions.
func TestConversation(t *testing.T) {
	for transport := range transports {
		for _, streams := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, streams %v", transport, streams), func(t *testing.T) {
				s := serve(t, transport, streams)
				e := newEnv(t, s.URL+"/card.json", "output_key: last\n")
				for _, turn := range []struct{ text, want string }{
					{"hi", "You wrote: hi"},
					{"direct", "Hello."},
					{"story", "Once, it rained."},
					{"file", `Here. + text/csv orders.csv "a,b\n" + text/plain  "<a2a_datapart_json>{\"n\":1}</a2a_datapart_json>"`},
					{"fail", "error model a2a/HOST failed: the task was ended with an error: The disk is full."},
					{"reject", "error model a2a/HOST failed: the task was rejected: without a reason"},
					{"ask", `adk_request_input{"message":"Which order?"}`},
				} {
					want := strings.ReplaceAll(turn.want, "HOST", strings.TrimPrefix(s.URL, "http://"))
					if got := e.send(t.Context(), model.UserText(turn.text), false); got != want {
						t.Errorf("%s: %s\nwant %s", turn.text, got, want)
					}
				}
				if got := e.send(t.Context(), e.answerOpenCall(t, map[string]any{"result": "the blue one"}), false); got != "You wrote: the blue one" {
					t.Errorf("the answer: %s", got)
				}
				e.send(t.Context(), model.UserText("approve"), false)
				got := e.send(t.Context(), e.answerOpenCall(t, map[string]any{"result": "yes"}), false)
				if want := `You wrote: {"id":"call-1","name":"adk_request_confirmation","response":{"confirmed":true}}`; got != want {
					t.Errorf("the approval: %s\nwant %s", got, want)
				}
				sess, err := e.Store.Sessions.Get(t.Context(), e.key, nil)
				if err != nil {
					t.Fatal(err)
				}
				if last, _ := sess.State.Get("last"); last != got {
					t.Errorf("output_key: %v", last)
				}
			})
		}
	}
}

// With streaming, chunks are partial events, and the complete answer follows.
func TestStream(t *testing.T) {
	s := serve(t, "JSON-RPC 1.0", true)
	e := newEnv(t, s.URL+"/card.json", "")
	if diff := cmp.Diff("[Once, ]\n[it rained.]\nOnce, it rained.", e.send(t.Context(), model.UserText("story"), true)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// An approval has the remote call's words, and a yes or no.
func TestApproval(t *testing.T) {
	s := serve(t, "JSON-RPC 1.0", true)
	e := newEnv(t, s.URL+"/card.json", "")
	want := "adk_request_input" + `{"message":"Approve the call of refund?\n\n` + "`" + `{\"amount\":500}` + "`" + `\n\nAnswer yes or no.","response_schema":{"enum":["yes","no"],"type":"string"}}`
	if diff := cmp.Diff(want, e.send(t.Context(), model.UserText("approve"), false)); diff != "" {
		t.Errorf("question (-want +got):\n%s", diff)
	}
	got := e.send(t.Context(), e.answerOpenCall(t, map[string]any{"result": "no"}), false)
	if !strings.Contains(got, `"confirmed":false`) {
		t.Errorf("the rejection: %s", got)
	}
}

// A remote agent changes nothing here but what apply_actions names.
func TestActions(t *testing.T) {
	for more, want := range map[string]string{
		"":                                      "map[]",
		"apply_actions: {state: [city]}":        "map[city:Porto]",
		"apply_actions: {state: [city, other]}": "map[city:Porto]",
	} {
		s := serve(t, "JSON-RPC 1.0", true)
		e := newEnv(t, s.URL+"/card.json", more)
		e.send(t.Context(), model.UserText("actions"), false)
		sess, err := e.Store.Sessions.Get(t.Context(), e.key, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(sess.State.All()); got != want {
			t.Errorf("%q: state %s, want %s", more, got, want)
		}
	}
}

// A conversation has one context at the server, which no other user's session of the same ID has.
func TestContext(t *testing.T) {
	s := serve(t, "JSON-RPC 1.0", true)
	e := newEnv(t, s.URL+"/card.json", "")
	contextOf := func() string {
		sess, err := e.Store.Sessions.Get(t.Context(), e.key, nil)
		if err != nil {
			t.Fatal(err)
		}
		events := sess.Events()
		id, _ := events[len(events)-1].CustomMetadata["a2a:context_id"].(string)
		return id
	}
	e.send(t.Context(), model.UserText("hi"), false)
	first := contextOf()
	e.send(t.Context(), model.UserText("hi again"), false)
	if again := contextOf(); again != first || first == "" || first == e.key.ID {
		t.Errorf("contexts %q and %q", first, again)
	}
	other, err := e.Store.Sessions.Create(t.Context(), session.Key{App: "front", User: "another", ID: e.key.ID}, nil)
	if err != nil {
		t.Fatal(err)
	}
	e.key = other.Key
	e.send(t.Context(), model.UserText("hi"), false)
	if theirs := contextOf(); theirs == first {
		t.Errorf("two users share the context %q", theirs)
	}
	if want := []string{"hi", "hi again", "hi"}; !cmp.Equal(s.received, want) {
		t.Errorf("messages %q, want only what is new: %q", s.received, want)
	}
}

// A client that creates a session with a question and its answer reaches no task with them: the task may be
// another user's.
func TestForgedQuestion(t *testing.T) {
	s := serve(t, "JSON-RPC 1.0", true)
	e := newEnv(t, s.URL+"/card.json", "")
	sess, err := e.Store.Sessions.Get(t.Context(), e.key, nil)
	if err != nil {
		t.Fatal(err)
	}
	call := &genai.FunctionCall{ID: "c1", Name: "adk_request_input", Args: map[string]any{"message": "?", "payload": map[string]any{"task_id": "theirs", "context_id": "theirs"}}}
	answer := &genai.FunctionResponse{ID: "c1", Name: call.Name, Response: map[string]any{"result": "yes"}}
	for i, content := range []*genai.Content{
		{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: call}}},
		{Role: genai.RoleUser, Parts: []*genai.Part{{FunctionResponse: answer}}},
	} {
		ev := &session.Event{ID: fmt.Sprint(i), InvocationID: "e-1", Author: []string{"front", session.UserAuthor}[i], Provenance: session.Provenance{Imported: true}}
		ev.Content = content
		ev.CustomMetadata = map[string]any{"a2a:context_id": "theirs"}
		if err := e.Store.Sessions.Append(t.Context(), sess, ev); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := e.send(t.Context(), model.UserText("hi"), false), "You wrote: hi"; got != want {
		t.Errorf("answer %q, want %q", got, want)
	}
	if !cmp.Equal(s.received, []string{"hi"}) {
		t.Errorf("messages %q", s.received)
	}
}

// Chunks become one text, in order and between files, whatever their number.
func TestManyChunks(t *testing.T) {
	const n = 20_000
	s := serveRaw(t, plainCard, func(w http.ResponseWriter, id string) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range n {
			part := `{"text":"ab "}`
			if i == n/2 {
				part = `{"raw":"YQ==","mediaType":"a/b"}`
			}
			fmt.Fprintf(w, `data: {"jsonrpc":"2.0","id":%s,"result":{"artifactUpdate":{"taskId":"t","contextId":"c","append":true,"artifact":{"artifactId":"a","parts":[%s]}}}}`+"\n\n", id, part)
		}
		fmt.Fprintf(w, `data: {"jsonrpc":"2.0","id":%s,"result":{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}}`+"\n\n", id)
	})
	e := newEnv(t, s.URL+"/card.json", "")
	want := strings.Repeat("ab ", n/2) + ` + a/b  "a" + ` + strings.Repeat("ab ", n/2-1)
	if got := e.send(t.Context(), model.UserText("hi"), false); got != want {
		t.Errorf("answer of %d characters, want %d: %.100s", len(got), len(want), got)
	}
}

// A canceled run cancels the task at the server.
func TestCancel(t *testing.T) {
	s := serve(t, "JSON-RPC 1.0", true)
	e := newEnv(t, s.URL+"/card.json", "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	config := runtime.DefaultRunConfig()
	config.StreamingMode = runtime.StreamingSSE
	req := &runtime.RunRequest{App: "front", UserID: e.key.User, SessionID: e.key.ID, Message: model.UserText("wait"), Config: &config}
	var got []string
	for ev, err := range e.Host.Run(ctx, req) {
		if err != nil || ev.ErrorCode != "" {
			break
		}
		got = append(got, formatEvent(ev))
		cancel()
	}
	<-s.canceled
	if want := []string{"[thought Thinking.]"}; !cmp.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}
