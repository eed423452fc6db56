package liveweb_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"agenthost/internal/fake/fakegemini"
	"agenthost/internal/servertest"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/wing/gemini"
	"agenthost/wing/live/liveweb"
)

// liveEnv is a server on a port with an app named talk, whose model is a fake Gemini.
type liveEnv struct {
	*servertest.Env
	http   *httptest.Server
	gemini *fakegemini.Server
	// dial connects to a server that is in memory.
	dial func(context.Context) (net.Conn, error)
}

func newLiveEnv(t *testing.T, opts *server.Options, talks *liveweb.Options) *liveEnv {
	t.Helper()
	e := &liveEnv{Env: newEnv(t, nil, opts, talks), gemini: fakegemini.New()}
	t.Cleanup(e.gemini.Close)
	e.AddLLMApp(t, "talk", &runtime.LLMOptions{Model: gemini.New("gemini-live-2.5-flash", &gemini.Options{
		BaseURL: e.gemini.URL(), APIKey: "key", HTTP: e.gemini.Client(), Lookup: func(string) (string, bool) { return "", false },
	})})
	e.http = httptest.NewServer(e.Server)
	t.Cleanup(e.http.Close)
	e.CreateSession(t, "talk", "s")
	return e
}

// connect opens a live socket; header lists names and values.
func (e *liveEnv) connect(t *testing.T, query string, header ...string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	opts := &websocket.DialOptions{HTTPHeader: http.Header{}}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Sec-WebSocket-Protocol" {
			opts.Subprotocols = strings.Split(header[i+1], ", ")
			continue
		}
		opts.HTTPHeader.Set(header[i], header[i+1])
	}
	c, resp, err := websocket.Dial(t.Context(), e.http.URL+"/run_live?"+query, opts)
	if err == nil {
		c.SetReadLimit(-1)
		t.Cleanup(func() { _ = c.CloseNow() })
	}
	return c, resp, err
}

const talkQuery = "app_name=talk&user_id=u&session_id=s"

func (e *liveEnv) mustConnect(t *testing.T, query string, header ...string) *websocket.Conn {
	t.Helper()
	c, _, err := e.connect(t, query, header...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func sendFrame(t *testing.T, c *websocket.Conn, text string) {
	t.Helper()
	if err := c.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// readUntil reads frames until one has the key, and returns all of them.
func readUntil(t *testing.T, c *websocket.Conn, key string) []map[string]any {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var frames []map[string]any
	for {
		_, text, err := c.Read(ctx)
		if err != nil {
			t.Fatalf("waiting for %s after %v: %v", key, frames, err)
		}
		var frame map[string]any
		if err := json.Unmarshal(text, &frame); err != nil {
			t.Fatal(err)
		}
		if frames = append(frames, frame); frame[key] != nil {
			return frames
		}
	}
}

func expectClose(t *testing.T, c *websocket.Conn, code websocket.StatusCode, reason string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		_, _, err := c.Read(ctx)
		if err == nil {
			continue
		}
		var end websocket.CloseError
		if !errors.As(err, &end) || end.Code != code || end.Reason != reason {
			t.Errorf("closed with %v, want %d %q", err, code, reason)
		}
		return
	}
}

// A client talks: its text is answered by audio and a transcript, and the conversation is
// stored.
func TestRunLive(t *testing.T) {
	for _, query := range []string{talkQuery, "appName=talk&userId=u&sessionId=s"} {
		e := newLiveEnv(t, nil, nil)
		c := e.mustConnect(t, query)
		sendFrame(t, c, `{"content":{"role":"user","parts":[{"text":"hello"}]}}`)
		frames := readUntil(t, c, "turnComplete")
		audio := 0
		for _, f := range frames {
			if content, ok := f["content"].(map[string]any); ok {
				text, _ := json.Marshal(content)
				audio += strings.Count(string(text), "inlineData")
			}
		}
		if audio != 10 {
			t.Errorf("%d events with audio, want 10", audio)
		}
		sendFrame(t, c, `{"close":true}`)
		expectClose(t, c, websocket.StatusNormalClosure, "")
		sess, err := e.Store.Sessions.Get(t.Context(), session.Key{App: "talk", User: "u", ID: "s"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		events := sess.Events()
		if len(events) < 3 || events[0].Text() != "hello" || events[1].OutputTranscription.Text != "You sent: hello" {
			t.Errorf("%d events stored", len(events))
		}
	}
}

// Binary frames are audio.
func TestRunLiveBinaryAudio(t *testing.T) {
	e := newLiveEnv(t, nil, nil)
	c := e.mustConnect(t, talkQuery)
	if err := c.Write(t.Context(), websocket.MessageBinary, make([]byte, 1280)); err != nil {
		t.Fatal(err)
	}
	sendFrame(t, c, `{"activityEnd":{}}`)
	readUntil(t, c, "turnComplete")
	text, _ := json.Marshal(e.gemini.LiveConns()[0].Frames()[1])
	if want := `{"realtimeInput":{"mediaChunks":[{"data":"AAAA`; !strings.HasPrefix(string(text), want) {
		t.Errorf("%.80s", text)
	}
}

// A frame that is invalid is reported, and the conversation continues.
func TestRunLiveInvalidFrames(t *testing.T) {
	e := newLiveEnv(t, nil, nil)
	c := e.mustConnect(t, talkQuery)
	for text, want := range map[string]string{
		`hello`: `Invalid live request: expected an object, got 'h' at byte 0`,
		`{"` + strings.Repeat("k", 2000) + `":1}`:    `Invalid live request: ` + strings.Repeat("k", 100) + ": unknown key",
		`{"activityStart":{},"audioStreamEnd":true}`: `Invalid live request: expected only one of blob, activity_start, activity_end and audio_stream_end: send each in a separate request`,
		`{"contents":{}}`:        `Invalid live request: contents: unknown key (did you mean "content"?)`,
		`{"blob":{"data":"AA"}}`: `Invalid live request: blob.mime_type: expected a media type, such as "audio/pcm;rate=16000"`,
	} {
		sendFrame(t, c, text)
		frames := readUntil(t, c, "error")
		if got := frames[len(frames)-1]["error"]; got != want {
			t.Errorf("%s: %v, want %s", text, got, want)
		}
	}
	sendFrame(t, c, `{"content":{"parts":[{"text":"still here"}]}}`)
	readUntil(t, c, "turnComplete")
}

// A frame beyond the limit closes the socket, and the next one opens.
func TestRunLiveFrameTooLarge(t *testing.T) {
	e := newLiveEnv(t, nil, nil)
	c := e.mustConnect(t, talkQuery)
	go func() { _ = c.Write(context.Background(), websocket.MessageText, make([]byte, 5<<20)) }() // the server closes it
	expectClose(t, c, websocket.StatusMessageTooBig, "read limited at 4194305 bytes")
	// The former run may still be ending: like a client, try again.
	for range 100 {
		c = e.mustConnect(t, talkQuery)
		sendFrame(t, c, `{"content":{"parts":[{"text":"again"}]}}`)
		if _, _, err := c.Read(t.Context()); err == nil {
			readUntil(t, c, "turnComplete")
			return
		}
	}
	t.Error("the session stayed busy")
}

// The query, the app and the session are checked before the conversation begins.
func TestRunLiveHandshake(t *testing.T) {
	e := newLiveEnv(t, nil, nil)
	tests := []struct {
		query, header string
		status        int
		body          string
	}{
		{"user_id=u&session_id=s", "", 422, `app_name"],"msg":"Field required"`},
		{"app_name=talk&session_id=s", "", 422, `user_id"],"msg":"Field required"`},
		{"app_name=talk&user_id=u", "", 422, `session_id"],"msg":"Field required"`},
		{"app_name=none&user_id=u&session_id=s", "", 404, `App not found: none`},
		{talkQuery + "&proactive_audio=maybe", "", 422, `proactive_audio"],"msg":"Input should be true or false"`},
		{talkQuery + "&save_live_blobs=true", "", 422, `Unknown parameter, did you mean save_live_blob?`},
		{talkQuery + "&run_config=[]", "", 422, `Input should be a JSON object`},
		{talkQuery + "&modalities=SMELL", "", 422, `SMELL`},
		{talkQuery + "&run_config=" + url.QueryEscape(`{"max_llm_calls":100000}`), "", 422, `max_llm_calls 100000 exceeds the limit of the app, 500`},
		{talkQuery + "&run_config=" + url.QueryEscape(`{"max_function_calls":1000}`), "", 422, `max_function_calls 1000 exceeds the limit of the app, 128`},
		{talkQuery + "&run_config=" + url.QueryEscape(`{"live":{"max_tokens":5}}`), "", 422, `live is a limit of the app: a request cannot change it`},
		{talkQuery + "&run_config=" + url.QueryEscape(`{"max_cost":5}`), "", 422, `max_cost requires max_cost in run_config of the app`},
		{talkQuery + "&run_config=" + strings.Repeat("[", 10000), "", 422, `Input should be a JSON object`},
		{talkQuery, "https://other.example", 403, `Forbidden: origin not allowed`},
	}
	for _, tc := range tests {
		header := []string{}
		if tc.header != "" {
			header = []string{"Origin", tc.header}
		}
		_, resp, err := e.connect(t, tc.query, header...)
		if err == nil {
			t.Errorf("%s: connected", tc.query)
			continue
		}
		body := make([]byte, 1024)
		n, _ := resp.Body.Read(body)
		if resp.StatusCode != tc.status || !strings.Contains(string(body[:n]), tc.body) {
			t.Errorf("%s: %d %s, want %d %s", tc.query, resp.StatusCode, body[:n], tc.status, tc.body)
		}
	}
	w := e.Serve("GET", "/run_live?"+talkQuery, "")
	servertest.ExpectResponse(t, w, 426, `{"detail":"expected a WebSocket handshake: this address holds live conversations"}`)
}

// A missing session closes the socket with ADK's code, and a busy one with a code after which
// clients try again.
func TestRunLiveSessions(t *testing.T) {
	e := newLiveEnv(t, nil, nil)
	expectClose(t, e.mustConnect(t, "app_name=talk&user_id=u&session_id=none"), websocket.StatusProtocolError, "Session not found")
	first := e.mustConnect(t, talkQuery)
	sendFrame(t, first, `{"content":{"parts":[{"text":"hello"}]}}`)
	readUntil(t, first, "turnComplete")
	expectClose(t, e.mustConnect(t, talkQuery), websocket.StatusTryAgainLater, "the session is in use by another run, try again later")
	sendFrame(t, first, `{"content":{"parts":[{"text":"still here"}]}}`)
	readUntil(t, first, "turnComplete")
}

// A client resumes only its own session's conversations: another user's handle is refused before
// the model receives it.
func TestRunLiveForeignHandle(t *testing.T) {
	e := newLiveEnv(t, &server.Options{AutoCreateSession: true}, nil)
	e.gemini.HandleLive(func(c *fakegemini.LiveConn) {
		_ = c.Accept("")
		_ = c.Send(`{"sessionResumptionUpdate":{"newHandle":"secret-of-u","resumable":true}}`)
		_, _ = c.Receive()
	})
	c := e.mustConnect(t, talkQuery+"&enable_session_resumption=true")
	readUntil(t, c, "liveSessionResumptionUpdate")
	sendFrame(t, c, `{"close":true}`)
	expectClose(t, c, websocket.StatusNormalClosure, "")
	const other = "app_name=talk&user_id=v&session_id=s&session_resumption_handle="
	expectClose(t, e.mustConnect(t, other+"secret-of-u"), websocket.StatusPolicyViolation, "the session_resumption handle does not belong to agent talk in this session")
	c = e.mustConnect(t, talkQuery+"&session_resumption_handle=secret-of-u")
	readUntil(t, c, "liveSessionResumptionUpdate")
	sendFrame(t, c, `{"close":true}`)
	expectClose(t, c, websocket.StatusNormalClosure, "")
	conns := e.gemini.LiveConns()
	if setup, _ := json.Marshal(conns[len(conns)-1].Setup); len(conns) != 2 || !strings.Contains(string(setup), `"handle":"secret-of-u"`) {
		t.Errorf("%d connections, setup %s", len(conns), setup)
	}
}

// Sockets are limited for the server and for each user.
func TestRunLiveLimits(t *testing.T) {
	e := newLiveEnv(t, &server.Options{AutoCreateSession: true}, &liveweb.Options{MaxSockets: 2, MaxUserSockets: 1})
	for _, user := range []string{"u", "v"} {
		c := e.mustConnect(t, "app_name=talk&session_id=s&user_id="+user)
		sendFrame(t, c, `{"content":{"parts":[{"text":"hello"}]}}`)
		readUntil(t, c, "turnComplete")
		if user == "u" {
			expectClose(t, e.mustConnect(t, "app_name=talk&session_id=t&user_id=u"), websocket.StatusTryAgainLater, "too many live conversations for this user, end one")
		}
	}
	expectClose(t, e.mustConnect(t, "app_name=talk&session_id=s&user_id=w"), websocket.StatusTryAgainLater, "too many live conversations on this server, try again later")
}

// A model that cannot be reached ends the conversation with 1011 and the reason.
func TestRunLiveModelFails(t *testing.T) {
	e := newLiveEnv(t, nil, nil)
	e.gemini.HandleLive(func(c *fakegemini.LiveConn) { c.Close(1008, strings.Repeat("model not found ö ", 6)) })
	c := e.mustConnect(t, talkQuery)
	_, _, err := c.Read(t.Context())
	for err == nil {
		_, _, err = c.Read(t.Context())
	}
	var end websocket.CloseError
	if !errors.As(err, &end) || end.Code != 1011 || !strings.Contains(end.Reason, "model not found") || len(end.Reason) > 123 {
		t.Errorf("closed with %v", err)
	}
}

// A shutdown announces itself, lets the turn end and closes with a code after which clients
// connect again.
func TestRunLiveDrain(t *testing.T) {
	e := newLiveEnv(t, nil, nil)
	c := e.mustConnect(t, talkQuery)
	sendFrame(t, c, `{"content":{"parts":[{"text":"hello"}]}}`)
	readUntil(t, c, "turnComplete")
	e.Server.Drain()
	readUntil(t, c, "goAway")
	expectClose(t, c, websocket.StatusServiceRestart, "the server is shutting down, connect again")
	if err := e.Server.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	expectClose(t, e.mustConnect(t, talkQuery), websocket.StatusTryAgainLater, "server is shutting down, retry later")
}

// Browsers authenticate by a ticket or a subprotocol. A ticket opens one conversation in its
// session; the token is never sent back. The control is a server without authentication.
func TestRunLiveAuth(t *testing.T) {
	file := filepath.Join(t.TempDir(), "auth.yaml")
	if err := os.WriteFile(file, []byte("tokens:\n  - {token: token-of-u-0123456789, claims: {sub: u}}\n  - {token: token-of-v-0123456789, claims: {sub: v}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	auth, err := server.ReadAuth(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(auth.Close)
	e := newLiveEnv(t, &server.Options{Auth: auth}, nil)
	bearer := func(user string) string {
		return "adk, bearer." + base64.RawURLEncoding.EncodeToString([]byte("token-of-"+user+"-0123456789"))
	}
	newTicket := func(query string) string {
		req := httptest.NewRequest("POST", "/run_live/ticket?"+query, nil)
		req.Header.Set("Authorization", "Bearer token-of-u-0123456789")
		w := httptest.NewRecorder()
		e.Server.ServeHTTP(w, req)
		var answer struct{ Ticket string }
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return answer.Ticket
	}
	used := newTicket(talkQuery)
	otherUser := newTicket(talkQuery)
	tests := []struct {
		name, query string
		header      []string
		status      int
	}{
		{"ticket of another user", "app_name=talk&user_id=v&session_id=s&ticket=" + otherUser, nil, 401},
		{"ticket of another user for both", "app_name=talk&user_id=v&session_id=s&ticket=" + newTicket(talkQuery), []string{"Authorization", "Bearer token-of-v-0123456789"}, 401},
		{"no credential", talkQuery, nil, 401},
		{"header", talkQuery, []string{"Authorization", "Bearer token-of-u-0123456789"}, 101},
		{"subprotocol", talkQuery, []string{"Sec-WebSocket-Protocol", bearer("u")}, 101},
		{"other user's token", talkQuery, []string{"Sec-WebSocket-Protocol", bearer("v")}, 403},
		{"unknown token", talkQuery, []string{"Sec-WebSocket-Protocol", bearer("x")}, 401},
		{"ticket", talkQuery + "&ticket=" + used, nil, 101},
		{"used ticket", talkQuery + "&ticket=" + used, nil, 401},
		{"ticket of another session", "app_name=talk&user_id=u&session_id=other&ticket=" + newTicket(talkQuery), nil, 401},
		{"invented ticket", talkQuery + "&ticket=" + url.QueryEscape("abc"), nil, 401},
	}
	rejected, control, open := 0, 0, newLiveEnv(t, &server.Options{AutoCreateSession: true}, nil)
	for _, tc := range tests {
		c, resp, _ := e.connect(t, tc.query, tc.header...)
		if resp == nil || resp.StatusCode != tc.status {
			t.Errorf("%s: %v, want %d", tc.name, resp, tc.status)
			continue
		}
		if tc.status >= 400 {
			rejected++
			query, _, _ := strings.Cut(tc.query, "&ticket=")
			if other, _, err := open.connect(t, query); err == nil {
				control++
				sendFrame(t, other, `{"close":true}`)
				expectClose(t, other, websocket.StatusNormalClosure, "")
			}
		}
		if tc.status != 101 {
			continue
		}
		if got := resp.Header.Get("Sec-WebSocket-Protocol"); strings.Contains(got, "bearer") || len(tc.header) > 0 && strings.HasPrefix(tc.header[0], "Sec") && got != "adk" {
			t.Errorf("%s: selected subprotocol %q", tc.name, got)
		}
		sendFrame(t, c, `{"content":{"parts":[{"text":"hello"}]}}`)
		readUntil(t, c, "turnComplete")
		sendFrame(t, c, `{"close":true}`)
		expectClose(t, c, websocket.StatusNormalClosure, "")
	}
	if control != rejected {
		t.Errorf("control: %d of %d conversations opened without authentication", control, rejected)
	}
	t.Logf("shown: %d live conversations with the credentials of others, used or none: all rejected; control, no authentication: %d opened", rejected, control)
}

// The OpenAPI document describes the response with a ticket.
func TestOpenAPIDescribesTicket(t *testing.T) {
	e := newLiveEnv(t, nil, nil)
	w := e.Serve("POST", "/run_live/ticket?"+talkQuery, "")
	checker := servertest.NewSchemaChecker(t, e.Server)
	request := []byte("POST /run_live/ticket?" + talkQuery + "\n\n")
	response := "200\nContent-Type: application/json\n\n"
	for _, problem := range checker.CheckExchange(request, []byte(response+w.Body.String())) {
		t.Error(problem)
	}
	if len(checker.CheckExchange(request, []byte(response+`{"ticket":"x"}`))) == 0 {
		t.Error("a response without expiresIn is accepted")
	}
}
