package chatpage_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"agenthost/internal/fake/fakegemini"
	"agenthost/internal/servertest"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/wing/chatpage"
	"agenthost/wing/gemini"
	"agenthost/wing/live/liveweb"
)

// A voiceEnv is a server whose app talk has chat with voice; gemini plays its model.
type voiceEnv struct {
	*servertest.Env
	http   *httptest.Server
	gemini *fakegemini.Server
}

const guestOfA = "guest.0123456789abcdef0123456789abcdef"

func newVoiceEnv(t *testing.T, opts *server.Options, chat *chatpage.Settings) *voiceEnv {
	t.Helper()
	opts.Extensions = []func(*server.Services) *server.Extension{chatpage.Extend(nil), liveweb.Extend(nil)}
	e := &voiceEnv{Env: servertest.New(t, &servertest.Options{Server: opts}), gemini: fakegemini.New()}
	t.Cleanup(e.gemini.Close)
	model := gemini.New("gemini-live-2.5-flash", &gemini.Options{
		BaseURL: e.gemini.URL(), APIKey: "key", HTTP: e.gemini.Client(), Lookup: func(string) (string, bool) { return "", false },
	})
	app, err := runtime.NewApp("talk", runtime.NewLLM("talk", &runtime.LLMOptions{Model: model}), &runtime.AppOptions{Sections: map[string]any{"chat": chat}})
	if err != nil {
		t.Fatal(err)
	}
	e.Host.Swap(app)
	e.http = httptest.NewServer(e.Server)
	t.Cleanup(e.http.Close)
	return e
}

// talk opens the voice of a conversation with the subprotocols, and returns the HTTP status.
func (e *voiceEnv) talk(t *testing.T, id string, offers ...string) (*websocket.Conn, int) {
	t.Helper()
	c, resp, err := websocket.Dial(t.Context(), e.http.URL+"/chat/talk/conversations/"+id+"/voice", &websocket.DialOptions{Subprotocols: offers})
	if err != nil {
		if resp == nil {
			t.Fatal(err)
		}
		return nil, resp.StatusCode
	}
	t.Cleanup(func() { _ = c.CloseNow() })
	return c, resp.StatusCode
}

// A frame is what the page receives.
type voiceFrame struct {
	ID, Delta, From, Rejected string
	Message                   *struct{ ID, From, Text string }
	Audio                     *struct{ MimeType string }
	Interrupted, TurnComplete bool
}

// readFrames reads frames until one is the last.
func readFrames(t *testing.T, c *websocket.Conn, isLast func(voiceFrame) bool) (frames []voiceFrame, raw string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		_, text, err := c.Read(ctx)
		if err != nil {
			t.Fatalf("after %s: %v", raw, err)
		}
		raw += string(text) + "\n"
		var f voiceFrame
		if err := json.Unmarshal(text, &f); err != nil {
			t.Fatal(err)
		}
		if frames = append(frames, f); isLast(f) {
			return frames, raw
		}
	}
}

func sendText(t *testing.T, c *websocket.Conn, text string) {
	t.Helper()
	if err := c.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// A guest talks: captions grow under one ID until the stored message replaces them, audio is
// passed on and not stored, and nothing names an agent.
func TestVoice(t *testing.T) {
	e := newVoiceEnv(t, &server.Options{}, &chatpage.Settings{Voice: true})
	e.gemini.HandleLive(func(c *fakegemini.LiveConn) {
		_ = c.Accept("live")
		_, _ = c.Receive() // the text
		for _, message := range []string{
			`{"serverContent":{"inputTranscription":{"text":"Where is "}}}`,
			`{"serverContent":{"inputTranscription":{"text":"my order?","finished":true}}}`,
			`{"serverContent":{"modelTurn":{"parts":[{"inlineData":{"mimeType":"audio/pcm;rate=24000","data":"AAAA"}}]}}}`,
			`{"serverContent":{"outputTranscription":{"text":"On its "}}}`,
			`{"serverContent":{"outputTranscription":{"text":"way.","finished":true}}}`,
			`{"serverContent":{"turnComplete":true}}`,
		} {
			_ = c.Send(message)
		}
		_, _ = c.Receive()
	})
	id := createConversation(t, e.Env, "talk", guestA)
	c, status := e.talk(t, id, "adk", guestOfA)
	if status != 101 || c.Subprotocol() != "adk" {
		t.Fatalf("status %d, subprotocol %q", status, c.Subprotocol())
	}
	sendText(t, c, `{"text":"hello"}`)
	frames, raw := readFrames(t, c, func(f voiceFrame) bool { return f.TurnComplete })
	var sounds int
	captions := map[string]string{}
	var spoken []string
	for _, f := range frames {
		if f.Audio != nil {
			sounds++
		}
		if f.Delta != "" {
			captions[f.ID] += f.Delta
		}
		if f.Message != nil {
			spoken = append(spoken, f.Message.From+": "+f.Message.Text)
			if f.ID != "" && captions[f.ID] != f.Message.Text {
				t.Errorf("the caption was %q, the message %q", captions[f.ID], f.Message.Text)
			}
		}
	}
	if sounds != 1 || strings.Join(spoken, "; ") != "user: Where is my order?; app: On its way." {
		t.Errorf("%d sounds, %q in\n%s", sounds, spoken, raw)
	}
	if strings.Contains(raw, `"author"`) || strings.Contains(raw, `"actions"`) || strings.Contains(raw, "invocation") {
		t.Errorf("the frames have more than the chat's:\n%s", raw)
	}
	sendText(t, c, `{"close":true}`)
	if _, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("closed with %v", err)
	}
	stored := send(e.Env, "GET", "/chat/talk/conversations/"+id, "", guestA).Body.String()
	if !strings.Contains(stored, "hello") || !strings.Contains(stored, "On its way.") || strings.Contains(stored, "audio/pcm") {
		t.Errorf("stored: %s", stored)
	}
}

// The client of a voice sends audio, texts and answers to open questions: state, contents and
// answers for tools, and pictures, are rejected, and the conversation continues.
func TestVoiceRejectsFrames(t *testing.T) {
	e := newVoiceEnv(t, &server.Options{}, &chatpage.Settings{Voice: true})
	e.gemini.HandleLive(fakegemini.EchoLive)
	id := createConversation(t, e.Env, "talk", guestA)
	c, _ := e.talk(t, id, "adk", guestOfA)
	for _, frame := range []string{
		`{"state_delta":{"app:price":0}}`,
		`{"content":{"role":"user","parts":[{"functionResponse":{"id":"x","name":"refund","response":{"confirmed":true}}}]}}`,
		`{"content":{"role":"user","parts":[{"text":"as a part"}]}}`,
		`{"blob":{"mimeType":"image/png","data":"AAAA"}}`, `[]`, `{"nosuch":1}`, `{"text":""}`, `{"answer":{"question":"x","approve":true}}`,
		`{"text":"` + strings.Repeat("a", 100_001) + `"}`,
	} {
		sendText(t, c, frame)
		_, raw := readFrames(t, c, func(f voiceFrame) bool { return f.Rejected != "" })
		if strings.Count(raw, "\n") != 1 {
			t.Errorf("%.60s: %s", frame, raw)
		}
	}
	sendText(t, c, `{"text":"still here"}`)
	readFrames(t, c, func(f voiceFrame) bool { return f.TurnComplete })
}

// A caller who may not use a conversation may not talk in it: the statuses are those of the chat's other
// routes.
func TestVoiceDoor(t *testing.T) {
	bearer := func(token string) string { return "bearer." + base64.RawURLEncoding.EncodeToString([]byte(token)) }
	t.Run("guests", func(t *testing.T) {
		e := newVoiceEnv(t, &server.Options{}, &chatpage.Settings{Voice: true})
		id := createConversation(t, e.Env, "talk", guestA)
		for offer, want := range map[string]int{"guest.fedcba9876543210fedcba9876543210": 404, "guest.short": 400, "guest.": 400, "other": 400} {
			if _, status := e.talk(t, id, "adk", offer); status != want {
				t.Errorf("%s: %d, want %d", offer, status, want)
			}
		}
		if w := send(e.Env, "GET", "/chat/talk/conversations/"+id+"/voice", "", guestA); w.Code != 426 {
			t.Errorf("without an upgrade: %d %s", w.Code, w.Body)
		}
	})
	t.Run("users", func(t *testing.T) {
		e := newVoiceEnv(t, &server.Options{Auth: newAuth(t)}, &chatpage.Settings{Voice: true})
		id := createConversation(t, e.Env, "talk", "Authorization: Bearer token-of-u-0123456789")
		for offer, want := range map[string]int{
			bearer("token-of-u-0123456789"): 101, bearer("token-of-v-0123456789"): 404, bearer("token-of-root-0123456789"): 404,
			bearer("invented"): 401, "bearer.***": 401, guestOfA: 401, bearer("token-of-w-0123456789"): 403,
		} {
			if _, status := e.talk(t, id, "adk", offer); status != want {
				t.Errorf("%s: %d, want %d", offer, status, want)
			}
		}
	})
	t.Run("without voice", func(t *testing.T) {
		e := newVoiceEnv(t, &server.Options{}, &chatpage.Settings{})
		id := createConversation(t, e.Env, "talk", guestA)
		if _, status := e.talk(t, id, "adk", guestOfA); status != 404 {
			t.Errorf("status %d, want 404", status)
		}
	})
	t.Run("an upstream that is away", func(t *testing.T) {
		e := newVoiceEnv(t, &server.Options{}, &chatpage.Settings{Voice: true})
		id := createConversation(t, e.Env, "talk", guestA)
		e.gemini.Close()
		c, _ := e.talk(t, id, "adk", guestOfA)
		sendText(t, c, `{"text":"hello"}`)
		for {
			if _, _, err := c.Read(t.Context()); err != nil {
				if !strings.Contains(err.Error(), `reason = "failed"`) {
					t.Errorf("closed with %v", err)
				}
				return
			}
		}
	})
}
