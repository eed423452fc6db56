package a2aserver_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"agenthost/internal/servertest"
	"agenthost/pkg/connection"
	"agenthost/wing/a2aserver"
)

var overGRPC = transports[2]

// newGRPCReplica returns a server with the app desk, also over gRPC.
func newGRPCReplica(t *testing.T) (*servertest.Env, string) {
	t.Helper()
	return newReplica(t, "", &a2aserver.Options{GRPC: true})
}

// newStub returns grpc-go's own client of the service, for what a2a-go's client does not send.
func newStub(t *testing.T, address, token string) a2apb.A2AServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(strings.TrimPrefix(address, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(rpcBearer(token)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return a2apb.NewA2AServiceClient(conn)
}

// The card has gRPC only where it is served, with a host, a port and the tenant.
func TestGRPCOnCard(t *testing.T) {
	for _, on := range []bool{false, true} {
		e, _ := newReplica(t, "", &a2aserver.Options{GRPC: on})
		for path, tenant := range map[string]string{"/a2a/desk": "desk", "/a2a/desk/agents/writer": "desk/agents/writer"} {
			r := httptest.NewRequest(http.MethodGet, "https://agents.example.com"+path+"/.well-known/agent-card.json", nil)
			w := httptest.NewRecorder()
			e.Server.ServeHTTP(w, r)
			want := `"url": "agents.example.com:443",
      "protocolBinding": "GRPC",
      "tenant": "` + tenant + `",
      "protocolVersion": "1.0"`
			if got := strings.Contains(w.Body.String(), want); got != on {
				t.Errorf("gRPC %v: %s", on, w.Body)
			}
		}
	}
	e, address := newReplica(t, "", nil)
	_ = e
	if _, err := newStub(t, address, tokenU).GetTask(t.Context(), &a2apb.GetTaskRequest{Tenant: "desk", Id: "x"}); status.Code(err) == codes.OK || status.Code(err) == codes.NotFound {
		t.Errorf("a call without --a2a-grpc: %v", err)
	}
}

// An agent with a card of its own, a list, and a stream that a client comes back to.
func TestGRPCTasks(t *testing.T) {
	e, address := newGRPCReplica(t)
	writer := newPeer(t, e, address+"/a2a/desk/agents/writer", tokenU, overGRPC)
	if done := writer.send(newMessage("hello")); textOf(done) != "A note." {
		t.Errorf("the writer: %v", done)
	}
	p := newPeer(t, e, address+"/a2a/desk", tokenU, overGRPC)
	card, err := p.GetExtendedAgentCard(t.Context(), &a2a.GetExtendedAgentCardRequest{})
	if err != nil || len(card.Skills) != 2 {
		t.Errorf("the extended card: %v, %v", card, err)
	}
	asking := p.send(newMessage("a refund"))
	list, err := p.ListTasks(t.Context(), &a2a.ListTasksRequest{ContextID: asking.ContextID, IncludeArtifacts: true})
	if err != nil || list.TotalSize != 1 || list.Tasks[0].ID != asking.ID {
		t.Errorf("the list: %+v, %v", list, err)
	}
	running := p.start("wait")
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	states := make(chan string, 10)
	go func() {
		defer close(states)
		for ev, err := range p.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: running.ID}) {
			switch ev := ev.(type) {
			case *a2a.Task:
				states <- string(ev.Status.State)
			case *a2a.TaskStatusUpdateEvent:
				states <- string(ev.Status.State)
			default:
				states <- fmt.Sprint(err)
			}
		}
	}()
	if state := <-states; state != "TASK_STATE_WORKING" {
		t.Errorf("followed: %s", state)
	}
	if _, err := p.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: running.ID}); err != nil {
		t.Errorf("canceled: %v", err)
	}
	if state, more := <-states, <-states; state != "TASK_STATE_CANCELED" || more != "" {
		t.Errorf("the end: %s %s", state, more)
	}
	var again error
	for _, again = range p.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: running.ID}) {
	}
	if !errors.Is(again, a2a.ErrUnsupportedOperation) {
		t.Errorf("followed after its end: %v", again)
	}
}

// Another user's task is not found, over each method.
func TestGRPCForeignTasks(t *testing.T) {
	e, address := newGRPCReplica(t)
	own, foreign := newPeer(t, e, address+"/a2a/desk", tokenU, overGRPC), newPeer(t, e, address+"/a2a/desk", tokenV, overGRPC)
	checkForeignTask(own, foreign)
	if list, err := foreign.ListTasks(t.Context(), &a2a.ListTasksRequest{}); err != nil || list.TotalSize != 0 {
		t.Errorf("the other user's list: %v, %v", list, err)
	}
}

// Data that is not an object arrives as text in JSON, and sending it is an error: a2a-go has no form for it.
func TestGRPCData(t *testing.T) {
	e, address := newGRPCReplica(t)
	rpc := newUserPeer(t, e, address, tokenU)
	done := rpc.send(&a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("look"), a2a.NewDataPart([]any{1.0, "two"}))})
	p := newPeer(t, e, address+"/a2a/desk", tokenU, overGRPC)
	if part := p.get(done.ID).History[0].Parts[1]; part.Text() != `[1,"two"]` || part.MediaType != "application/json" {
		t.Errorf("read: %+v", part)
	}
	value, _ := structpb.NewValue([]any{1.0})
	_, err := newStub(t, address, tokenU).SendMessage(t.Context(), &a2apb.SendMessageRequest{Tenant: "desk", Message: &a2apb.Message{
		MessageId: "m", Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Data{Data: value}}},
	}})
	if status.Code(err) != codes.InvalidArgument || status.Convert(err).Message() != "message.parts[0].data must be an object over gRPC" {
		t.Errorf("sent: %v", err)
	}
}

// Each request that is refused has its status, and starts no turn.
func TestGRPCRefusals(t *testing.T) {
	e, address := newGRPCReplica(t)
	send := func(tenant string) *a2apb.SendMessageRequest {
		return &a2apb.SendMessageRequest{Tenant: tenant, Message: &a2apb.Message{
			MessageId: "m", Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "hello"}}},
		}}
	}
	parts := send("desk")
	for range 200 {
		parts.Message.Parts = append(parts.Message.Parts, parts.Message.Parts[0])
	}
	large := send("desk")
	large.Message.Parts[0].Content = &a2apb.Part_Raw{Raw: make([]byte, 33<<20)}
	many := send("desk")
	for range 250_000 {
		many.Message.Extensions = append(many.Message.Extensions, "")
	}
	deep := structpb.NewNullValue()
	for range 600 {
		deep = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{deep}})
	}
	nested := send("desk")
	nested.Message.Parts[0].Content = &a2apb.Part_Data{Data: structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"a": deep}})}
	for _, tt := range []struct {
		name, token string
		req         *a2apb.SendMessageRequest
		version     string
		code        codes.Code
		want        string
	}{
		{"no tenant", tokenU, send(""), "", codes.InvalidArgument, "tenant is required: it names the app, as on the agent card"},
		{"an unknown app", tokenU, send("stranger"), "", codes.NotFound, "Not Found"},
		{"an app that is not offered", tokenU, send("hidden"), "", codes.NotFound, "Not Found"},
		{"an unknown agent", tokenU, send("desk/agents/stranger"), "", codes.NotFound, "Not Found"},
		{"a path", tokenU, send("desk/agents/writer/x"), "", codes.NotFound, "Not Found"},
		{"another path", tokenU, send("desk/v1"), "", codes.NotFound, "Not Found"},
		{"a caller without the app", tokenW, send("desk"), "", codes.PermissionDenied, "Forbidden"},
		{"a wrong token", "wrong", send("desk"), "", codes.Unauthenticated, "Not authenticated"},
		{"a wrong token for an unknown app", "wrong", send("stranger"), "", codes.Unauthenticated, "Not authenticated"},
		{"a wrong token with a large message", "wrong", large, "", codes.Unauthenticated, "Not authenticated"},
		{"a large message", tokenU, large, "", codes.ResourceExhausted, "Request body exceeds the limit of 33554432 bytes"},
		{"many values", tokenU, many, "", codes.ResourceExhausted, "Request body exceeds the limit of 250000 values"},
		{"deep data", tokenU, nested, "", codes.ResourceExhausted, "Request body exceeds the nesting limit of 1024"},
		{"many parts", tokenU, parts, "", codes.InvalidArgument, "message.parts must have 1 to 100 parts, got 201"},
		{"no message", tokenU, &a2apb.SendMessageRequest{Tenant: "desk"}, "", codes.InvalidArgument, "failed to convert request: message cannot be nil"},
		{"another version", tokenU, send("desk"), "0.3", codes.FailedPrecondition, "A2A-Version must be 1.0 over gRPC"},
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "a2a-version", tt.version)
		_, err := newStub(t, address, tt.token).SendMessage(ctx, tt.req)
		if status.Code(err) != tt.code || !strings.Contains(status.Convert(err).Message(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
		stream, err := newStub(t, address, tt.token).SendStreamingMessage(ctx, tt.req)
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != tt.code {
			t.Errorf("%s as a stream: %v", tt.name, err)
		}
	}
	sessions, err := e.Store.Sessions.List(t.Context(), "desk", "u")
	if err != nil || len(sessions) > 0 {
		t.Errorf("sessions: %v, %v", sessions, err)
	}
}

// frameOf returns a message as gRPC frames it.
func frameOf(message []byte) string {
	return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))) + string(message)
}

// Hostile frames get a status, and no internal error; a request in another format gets none of gRPC.
func TestGRPCFrames(t *testing.T) {
	e, address := newGRPCReplica(t)
	valid, err := proto.Marshal(&a2apb.GetTaskRequest{Tenant: "desk", Id: "e-1.c"})
	if err != nil {
		t.Fatal(err)
	}
	group := bytes.Repeat(protowire.AppendTag(nil, 900, protowire.StartGroupType), 20_000)
	for _, tt := range []struct {
		name, method, body, timeout string
		want                        string
	}{
		{"control", "GetTask", frameOf(valid), "1H", "5 task not found"},
		{"empty", "GetTask", "", "", "3 the request has no message"},
		{"a cut header", "GetTask", "\x00\x00", "", "3 the request has no message"},
		{"a cut message", "GetTask", frameOf(valid)[:9], "", "3 the request must have one message"},
		{"a wrong length", "GetTask", "\x00\xff\xff\xff\xffx", "", "3 the request must have one message"},
		{"two messages", "GetTask", frameOf(valid) + frameOf(valid), "", "3 the request must have one message"},
		{"compressed", "GetTask", "\x01" + frameOf(valid)[1:], "", "12 messages must not be compressed"},
		{"no protobuf", "GetTask", frameOf([]byte("\xff\xff\xff")), "", "3 the message is not valid protobuf for the method"},
		{"a cut field", "GetTask", frameOf([]byte("\x0a\x7fx")), "", "3 the message is not valid protobuf for the method"},
		{"invalid UTF-8", "GetTask", frameOf([]byte("\x0a\x01\xff")), "", "3 the message is not valid protobuf for the method"},
		{"groups", "GetTask", frameOf(group), "", "3 the message is not valid protobuf for the method"},
		{"an empty message", "GetTask", frameOf(nil), "", "3 tenant is required: it names the app, as on the agent card"},
		{"an unknown method", "DropTask", frameOf(valid), "", "12 unknown method"},
		{"a wrong timeout", "GetTask", frameOf(valid), "999999999S", "3 grpc-timeout must be at most 8 digits and one of H, M, S, m, u and n"},
		{"a timeout without a unit", "GetTask", frameOf(valid), "5", "3 grpc-timeout must be at most 8 digits and one of H, M, S, m, u and n"},
	} {
		w := callGRPC(e, tt.method, tt.body, tt.timeout, 2, "application/grpc")
		header := w.Result().Trailer
		if got := header.Get("Grpc-Status") + " " + header.Get("Grpc-Message"); w.Code != http.StatusOK || got != tt.want {
			t.Errorf("%s: %d %s, want %s", tt.name, w.Code, got, tt.want)
		}
	}
	_, err = newStub(t, address, tokenU).GetTask(t.Context(), &a2apb.GetTaskRequest{Tenant: "desk", Id: "e-1.c"})
	if details := fmt.Sprint(status.Convert(err).Details()); !strings.Contains(details, `reason:"TASK_NOT_FOUND"`) || !strings.Contains(details, `domain:"a2a-protocol.org"`) {
		t.Errorf("the details: %s", details)
	}
	if w := callGRPC(e, "GetTask", frameOf(valid), "", 1, "application/grpc"); w.Code != http.StatusHTTPVersionNotSupported || !strings.Contains(w.Body.String(), "gRPC requires HTTP/2") {
		t.Errorf("HTTP/1: %d %s", w.Code, w.Body)
	}
	if w := callGRPC(e, "GetTask", "{}", "", 2, "application/json"); w.Code != http.StatusUnsupportedMediaType || !strings.Contains(w.Body.String(), "Content-Type must be application/grpc") {
		t.Errorf("JSON: %d %s", w.Code, w.Body)
	}
}

// callGRPC sends a request as it is.
func callGRPC(e *servertest.Env, method, body, timeout string, version int, kind string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/lf.a2a.v1.A2AService/"+method, io.NopCloser(strings.NewReader(body)))
	r.ProtoMajor, r.ContentLength = version, -1
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Authorization", "Bearer "+tokenU)
	if timeout != "" {
		r.Header.Set("Grpc-Timeout", timeout)
	}
	w := httptest.NewRecorder()
	e.Server.ServeHTTP(w, r)
	return w
}

// A call ends with its deadline, and its run does not. A stream whose client leaves ends, too.
func TestGRPCEnds(t *testing.T) {
	e, address := newGRPCReplica(t)
	p := newPeer(t, e, address+"/a2a/desk", tokenU, overGRPC)
	send, err := proto.Marshal(&a2apb.SendMessageRequest{Tenant: "desk", Message: &a2apb.Message{
		MessageId: "m", ContextId: "late", Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "wait"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"SendMessage", "SendStreamingMessage"} {
		w := callGRPC(e, method, frameOf(send), "1n", 2, "application/grpc")
		if code := w.Result().Trailer.Get("Grpc-Status"); code != "4" {
			t.Errorf("%s: status %s", method, code)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var id a2a.TaskID
	for ev, err := range p.SendStreamingMessage(ctx, newMessage("wait")) {
		if err != nil {
			break
		}
		id = ev.TaskInfo().TaskID
		leave()
	}
	if found, err := p.GetTask(t.Context(), &a2a.GetTaskRequest{ID: id}); err != nil || found.Status.State != a2a.TaskStateWorking {
		t.Errorf("a run whose client has left: %v, %v", found, err)
	}
}

// A server that shuts down refuses a message as unavailable, and ends streams.
func TestGRPCDrain(t *testing.T) {
	e, address := newGRPCReplica(t)
	p := newPeer(t, e, address+"/a2a/desk", tokenU, overGRPC)
	running := p.start("wait")
	ends := make(chan error, 1)
	begun := make(chan bool, 10)
	go func() {
		var last error
		for _, err := range p.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: running.ID}) {
			begun <- true
			last = err
		}
		ends <- last
	}()
	<-begun
	e.Server.Drain()
	if err := <-ends; err != nil {
		t.Errorf("the stream: %v", err)
	}
	_, err := newStub(t, address, tokenU).SendMessage(t.Context(), &a2apb.SendMessageRequest{Tenant: "desk", Message: &a2apb.Message{
		MessageId: "m", Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "hello"}}},
	}})
	if status.Code(err) != codes.Unavailable || status.Convert(err).Message() != "server is shutting down, retry later" {
		t.Errorf("a message: %v", err)
	}
}

// brokenKeys panic.
type brokenKeys struct{}

func (brokenKeys) SealText(*connection.Grant, []byte) []byte    { panic("broken keys") }
func (brokenKeys) OpenSealed(*connection.Grant) ([]byte, error) { panic("broken keys") }

// A panic is an internal error for the client, without its reason, and the next call works.
func TestGRPCPanic(t *testing.T) {
	options := newOptions(&a2aserver.Options{GRPC: true, Keys: brokenKeys{}}, newAuth(t))
	options.Wait = time.Minute
	e, _ := servertest.NewExchangeEnv(t, txtar.Parse([]byte(pushing("hooks.example.com"))), &servertest.Folders{}, options)
	p := newPeer(t, e, serveReplica(t, e)+"/a2a/desk", tokenU, overGRPC)
	done := p.send(newMessage("hello"))
	_, err := p.CreateTaskPushConfig(t.Context(), &a2a.PushConfig{TaskID: done.ID, ID: "c", URL: "https://hooks.example.com/x"})
	if !errors.Is(err, a2a.ErrInternalError) || strings.Contains(err.Error(), "broken") {
		t.Errorf("a panic: %v", err)
	}
	if found := p.get(done.ID); textOf(found) != "You wrote: hello" {
		t.Errorf("the next call: %v", found)
	}
}
