package gemini

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakegemini"
	"agenthost/pkg/model"
)

// newLiveGemini returns a model at a fake server that is reached through memory.
func newLiveGemini(t *testing.T, name string, opts Options) (model.LiveLLM, *fakegemini.Server) {
	t.Helper()
	server, client := fakegemini.NewInMemory()
	t.Cleanup(server.Close)
	opts.HTTP = client
	opts.BaseURL = "http://gemini.test"
	if opts.APIKey == "" && opts.Token == nil {
		opts.APIKey = "key-secret"
	}
	opts.Lookup = func(name string) (string, bool) {
		if opts.Backend == vertexBackend && name == "GOOGLE_CLOUD_PROJECT" {
			return "p1", true
		}
		return "", false
	}
	return model.LiveOf(New(name, &opts)), server
}

// A spoken turn arrives message by message, and the connection ends with a close frame.
func TestGeminiLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		llm, server := newLiveGemini(t, "gemini-live-2.5-flash", Options{})
		defer server.Close()
		conn, err := llm.ConnectLive(t.Context(), &model.LiveSetup{
			Modalities: []genai.Modality{genai.ModalityAudio}, Resumption: &genai.SessionResumptionConfig{},
			OutputTranscription: &genai.AudioTranscriptionConfig{},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := conn.SessionID(); got != "live-1" {
			t.Errorf("SessionID: %q", got)
		}
		for _, f := range []*model.LiveFrame{
			{Blob: &genai.Blob{MIMEType: "audio/pcm;rate=16000", Data: []byte{0xff, 0xfe}}},
			{Turns: []*genai.Content{model.UserText("hello")}, TurnComplete: true},
		} {
			if err := conn.Send(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
		audio, transcript := 0, ""
		for {
			m, err := conn.Receive(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if m.Content != nil {
				audio += len(m.Content.Parts[0].InlineData.Data)
			}
			if m.OutputTranscription != nil {
				transcript += m.OutputTranscription.Text
			}
			if m.TurnComplete {
				if m.Usage == nil || m.Usage.CandidatesTokenCount != 5 {
					t.Errorf("usage: %+v", m.Usage)
				}
				break
			}
		}
		if audio != 24000 || transcript != "You sent: hello" {
			t.Errorf("%d bytes of audio, transcript %q", audio, transcript)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		fake := server.LiveConns()[0]
		if fake.Path != "/ws/google.ai.generativelanguage.v1alpha.GenerativeService.BidiGenerateContent" || fake.Credential != "key …cret" {
			t.Errorf("path %s, credential %s", fake.Path, fake.Credential)
		}
		want := []map[string]any{
			{"setup": map[string]any{
				"model": "models/gemini-live-2.5-flash", "generationConfig": map[string]any{"responseModalities": []any{"AUDIO"}},
				"sessionResumption": map[string]any{}, "outputAudioTranscription": map[string]any{},
			}},
			{"realtimeInput": map[string]any{"mediaChunks": []any{map[string]any{"mimeType": "audio/pcm;rate=16000", "data": "//4="}}}},
			{"clientContent": map[string]any{"turnComplete": true, "turns": []any{map[string]any{"role": "user", "parts": []any{map[string]any{"text": "hello"}}}}}},
		}
		if diff := cmp.Diff(want, fake.Frames()); diff != "" {
			t.Errorf("frames (-want +got):\n%s", diff)
		}
	})
}

// Tool names and history parts are legal, as in other requests: a call has the declared name, and
// its response the name that was sent.
func TestGeminiLiveRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		llm, server := newLiveGemini(t, "gemini-live-2.5-flash", Options{})
		defer server.Close()
		server.HandleLive(func(c *fakegemini.LiveConn) {
			_ = c.Accept("")
			_ = c.Send(`{"toolCall":{"functionCalls":[{"id":"c1","name":"find_x"}]}}`)
			for {
				if _, err := c.Receive(); err != nil {
					return
				}
			}
		})
		conn, err := llm.ConnectLive(t.Context(), &model.LiveSetup{Tools: []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{
			{Name: "find x", ParametersJsonSchema: map[string]any{"anyOf": []any{map[string]any{"properties": map[string]any{"a": true}}}}},
		}}}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		m, err := conn.Receive(t.Context())
		if err != nil || len(m.Calls) != 1 || m.Calls[0].Name != "find x" {
			t.Fatalf("Receive() = %+v, %v, want a call of find x", m, err)
		}
		for _, f := range []*model.LiveFrame{
			{Responses: []*genai.FunctionResponse{{ID: "c1", Name: "find x", Response: map[string]any{"n": 1}}}},
			{Turns: []*genai.Content{{Role: "user", Parts: []*genai.Part{{InlineData: &genai.Blob{MIMEType: "image/png"}}}}}, TurnComplete: true},
		} {
			if err := conn.Send(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		got := fmt.Sprint(server.LiveConns()[0].Frames())
		for _, want := range []string{
			"name:find_x parametersJsonSchema:map[description:", "functionResponses:[map[id:c1 name:find_x", "[a file of type image/png was left out: it is empty]",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("the frames have no %q: %s", want, got)
			}
		}
	})
}

// The address, the version, the credential and the model's full name depend on the service.
func TestGeminiLiveAddresses(t *testing.T) {
	token := func(context.Context) (string, error) { return "tok-bearer", nil }
	for name, c := range map[string]struct {
		opts                    Options
		path, credential, model string
	}{
		"Gemini API":      {Options{}, "/ws/google.ai.generativelanguage.v1alpha.GenerativeService.BidiGenerateContent", "key …cret", "models/m"},
		"version":         {Options{APIVersion: "v1beta"}, "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent", "key …cret", "models/m"},
		"ephemeral token": {Options{APIKey: "auth_tokens/abcd"}, "/ws/google.ai.generativelanguage.v1alpha.GenerativeService.BidiGenerateContentConstrained", "token …abcd", "models/m"},
		"Vertex AI":       {Options{Backend: vertexBackend, Token: token}, "/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent", "bearer …arer", "projects/p1/locations/global/publishers/google/models/m"},
		"express mode":    {Options{Backend: vertexBackend, APIKey: "express-1234"}, "/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent", "key …1234", "publishers/google/models/m"},
	} {
		t.Run(name, func(t *testing.T) {
			llm, server := newLiveGemini(t, "m", c.opts)
			conn, err := llm.ConnectLive(t.Context(), &model.LiveSetup{})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fake := server.LiveConns()[0]
			if fake.Path != c.path || fake.Credential != c.credential || fake.Setup["model"] != c.model {
				t.Errorf("path %s\ncredential %s\nmodel %s", fake.Path, fake.Credential, fake.Setup["model"])
			}
		})
	}
}

// A connection's end is reported with its code, however it ends, and again.
func TestGeminiLiveEnds(t *testing.T) {
	for _, c := range []struct {
		code   int
		reason string
		want   string
	}{
		{1000, "", "the live connection was closed with code 1000"},
		{1008, "BidiGenerateContent session not found", "the live connection was closed with code 1008: BidiGenerateContent session not found"},
		{1011, "Internal error occurred.", "the live connection was closed with code 1011: Internal error occurred."},
	} {
		llm, server := newLiveGemini(t, "m", Options{})
		server.HandleLive(func(fake *fakegemini.LiveConn) {
			_ = fake.Accept("")
			fake.Close(c.code, c.reason)
		})
		conn, err := llm.ConnectLive(t.Context(), &model.LiveSetup{})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_, err = conn.Receive(t.Context())
			var end *model.LiveCloseError
			if !errors.As(err, &end) || end.Code != c.code || err.Error() != c.want {
				t.Errorf("Receive: %v, want %s", err, c.want)
			}
		}
		_ = conn.Close()
	}
}

// A setup that is not accepted, a handshake that is refused and a message that is not JSON have
// errors that name the cause and not the key.
func TestGeminiLiveErrors(t *testing.T) {
	t.Run("refused setup", func(t *testing.T) {
		llm, server := newLiveGemini(t, "m", Options{})
		server.HandleLive(func(c *fakegemini.LiveConn) { c.Close(1007, "Request contains an invalid argument.") })
		checkLiveError(t, llm, &model.LiveSetup{}, "the live connection was closed with code 1007: Request contains an invalid argument.")
	})
	t.Run("silence", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			llm, server := newLiveGemini(t, "m", Options{})
			defer server.Close()
			server.HandleLive(func(c *fakegemini.LiveConn) { _, _ = c.Receive() })
			checkLiveError(t, llm, &model.LiveSetup{}, "the live model did not accept the setup within 30s")
		})
	})
	t.Run("error message", func(t *testing.T) {
		llm, server := newLiveGemini(t, "m", Options{})
		server.HandleLive(func(c *fakegemini.LiveConn) {
			_ = c.Send(`{"error":{"code":429,"message":"quota of key-secret","status":"RESOURCE_EXHAUSTED"}}`)
			_, _ = c.Receive()
		})
		checkLiveError(t, llm, &model.LiveSetup{}, "quota of ***")
	})
	t.Run("malformed message", func(t *testing.T) {
		llm, server := newLiveGemini(t, "m", Options{})
		server.HandleLive(func(c *fakegemini.LiveConn) { _ = c.Send("hello key-secret"); _, _ = c.Receive() })
		checkLiveError(t, llm, &model.LiveSetup{}, "malformed response from Gemini: expected an object")
	})
	t.Run("explicit VAD", func(t *testing.T) {
		llm, _ := newLiveGemini(t, "m", Options{})
		checkLiveError(t, llm, &model.LiveSetup{ExplicitVAD: new(bool)}, "explicit_vad_signal requires Vertex AI: remove it from run_config")
	})
	t.Run("no key", func(t *testing.T) {
		llm := model.LiveOf(New("m", &Options{Lookup: func(string) (string, bool) { return "", false }}))
		checkLiveError(t, llm, &model.LiveSetup{}, noGeminiKey)
	})
}

// A hostile service gets no key by a redirect, and cannot exhaust or block the host: messages are
// bounded in bytes and values, and a close that it does not answer is cut.
func TestGeminiLiveHostileService(t *testing.T) {
	t.Run("redirect", func(t *testing.T) {
		var keys []string
		other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { keys = append(keys, r.Header.Get("X-Goog-Api-Key")) }))
		defer other.Close()
		first := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
		defer first.Close()
		llm := model.LiveOf(New("m", &Options{APIKey: "key-secret", BaseURL: first.URL, Lookup: func(string) (string, bool) { return "", false }}))
		checkLiveError(t, llm, &model.LiveSetup{}, "307")
		if len(keys) > 0 {
			t.Errorf("the key was sent to another address: %v", keys)
		}
	})
	for name, c := range map[string]struct{ message, want string }{
		"100 MB":          {strings.Repeat("a", 100<<20), "the live connection was closed with code 1009: the model sent a message larger than 16 MiB"},
		"many parts":      {`{"serverContent":{"modelTurn":{"parts":[` + strings.Repeat("{},", 1<<20) + `{}]}}}`, "malformed response from Gemini: live message of the model exceeds the limit of 250000 values"},
		"many calls":      {`{"toolCall":{"functionCalls":[` + strings.Repeat("{},", 1<<20) + `{}]}}`, "malformed response from Gemini: live message of the model exceeds the limit of 250000 values"},
		"deep JSON":       {`{"toolCall":{"functionCalls":[{"args":{"a":` + strings.Repeat("[", 1<<20), "live message of the model exceeds the nesting limit of 1024"},
		"negative number": {`{"sessionResumptionUpdate":{"lastConsumedClientMessageIndex":"1e400"}}`, "sessionResumptionUpdate.lastConsumedClientMessageIndex: expected a whole number"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				llm, server := newLiveGemini(t, "m", Options{})
				defer server.Close()
				server.HandleLive(func(fake *fakegemini.LiveConn) {
					_ = fake.Accept("")
					_ = fake.Send(c.message)
					_, _ = fake.Receive()
				})
				conn, err := llm.ConnectLive(t.Context(), &model.LiveSetup{})
				if err != nil {
					t.Fatal(err)
				}
				if _, err = conn.Receive(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 1000 {
					t.Errorf("error %.1000v, want %s", err, c.want)
				}
				_ = conn.Close()
			})
		})
	}
	t.Run("stalled close", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			go serveStalledClose(theirs)
			transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return ours, nil }}
			llm := model.LiveOf(New("m", &Options{APIKey: "key", BaseURL: "http://gemini.test", HTTP: &http.Client{Transport: transport}}))
			conn, err := llm.ConnectLive(t.Context(), &model.LiveSetup{})
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			_ = conn.Close()
			if took := time.Since(start); took > 15*time.Second {
				t.Errorf("the close took %s", took)
			}
		})
	})
}

// serveStalledClose accepts a connection and its setup, and then begins a 4 GiB frame.
func serveStalledClose(conn net.Conn) {
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	sum := sha1.Sum([]byte(req.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
	go func() { _, _ = io.Copy(io.Discard, conn) }() // until the host closes it
	_, _ = io.WriteString(conn, "\x81\x14{\"setupComplete\":{}}")
	_, _ = conn.Write([]byte{0x82, 127, 0, 0, 0, 1, 0, 0, 0, 0})
}

func checkLiveError(t *testing.T, llm model.LiveLLM, setup *model.LiveSetup, want string) {
	t.Helper()
	conn, err := llm.ConnectLive(t.Context(), setup)
	if err == nil {
		_ = conn.Close()
		t.Fatalf("no error, want %s", want)
	}
	if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "key-secret") {
		t.Errorf("error %q, want %q", err, want)
	}
}

// A peer that is gone is noticed by the ping.
func TestGeminiLivePing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		llm, server := newLiveGemini(t, "m", Options{})
		defer server.Close()
		done := make(chan struct{})
		defer close(done)
		server.HandleLive(func(c *fakegemini.LiveConn) { _ = c.Accept(""); <-done })
		conn, err := llm.ConnectLive(t.Context(), &model.LiveSetup{})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err = conn.Receive(t.Context())
		var end *model.LiveCloseError
		if !errors.As(err, &end) || end.Code != 1006 || time.Since(start) > time.Minute {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		_ = conn.Close()
	})
}

// Any message decodes or has an error.
func FuzzDecodeLiveMessage(f *testing.F) {
	f.Add([]byte(`{"serverContent":{"modelTurn":{"parts":[{"inlineData":{"mimeType":"audio/pcm","data":"AAEC"}}]},"turn_complete":true}}`))
	f.Add([]byte(`{"sessionResumptionUpdate":{"newHandle":"h","lastConsumedClientMessageIndex":"7"},"goAway":{"timeLeft":"49.5s"}}`))
	f.Add([]byte(`{"toolCall":{"functionCalls":[{"id":"1","name":"f","args":{"n":9007199254740993}}]},"usageMetadata":{"responseTokenCount":3}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if m, err := decodeLiveMessage(text); err == nil && m == nil {
			t.Fatal("neither a message nor an error")
		}
	})
}

// A message with 40 ms of audio is decoded in a few microseconds.
func BenchmarkDecodeLiveMessage(b *testing.B) {
	text := []byte(`{"serverContent":{"modelTurn":{"parts":[{"inlineData":{"mimeType":"audio/pcm;rate=24000","data":"` + strings.Repeat("AAEC", 640) + `"}}]}}}`)
	for b.Loop() {
		if _, err := decodeLiveMessage(text); err != nil {
			b.Fatal(err)
		}
	}
}
