package liveweb_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"agenthost/internal/fake/fakegemini"
	"agenthost/internal/servertest"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/wing/gemini"
	"agenthost/wing/live/liveweb"
)

// testLiveAttack runs a test in a synctest bubble, with a server and a model that are reached
// through memory.
func testLiveAttack(t *testing.T, opts *server.Options, talks *liveweb.Options, test func(*testing.T, *liveEnv)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		service, client := fakegemini.NewInMemory()
		defer service.Close()
		if opts == nil {
			opts = &server.Options{}
		}
		opts.Clock = time.Now
		e := &liveEnv{Env: newEnv(t, &store.Options{}, opts, talks), gemini: service}
		e.AddLLMApp(t, "talk", &runtime.LLMOptions{Model: gemini.New("gemini-live-2.5-flash", &gemini.Options{
			BaseURL: "http://gemini.test", APIKey: "key", HTTP: client, Lookup: func(string) (string, bool) { return "", false },
		})})
		listener, dial := fakegemini.ListenInMemory()
		e.http = &httptest.Server{Listener: listener, Config: &http.Server{Handler: e.Server}}
		e.http.Start()
		defer e.http.Close()
		e.dial = dial
		e.CreateSession(t, "talk", "s")
		test(t, e)
		time.Sleep(time.Minute) // conversations whose clients are gone end
		client.CloseIdleConnections()
	})
}

// A rawClient is a client that sends what it likes.
type rawClient struct {
	net.Conn
	*testing.T
	in *bufio.Reader
}

// connectRaw opens a live socket; header are further handshake lines.
func (e *liveEnv) connectRaw(t *testing.T, query string, header ...string) (*rawClient, *http.Response) {
	t.Helper()
	conn, err := e.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	lines := append([]string{
		"GET /run_live?" + query + " HTTP/1.1", "Host: localhost", "Connection: Upgrade", "Upgrade: websocket",
		"Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==",
	}, header...)
	c := &rawClient{conn, t, bufio.NewReader(conn)}
	c.sendBytes([]byte(strings.Join(lines, "\r\n") + "\r\n\r\n"))
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c, resp
}

func (c *rawClient) sendBytes(b []byte) {
	c.Helper()
	if _, err := c.Write(b); err != nil {
		c.Fatal(err)
	}
}

// frameOf returns a masked frame with the given first header byte and a payload of at most 65535
// bytes.
func frameOf(first byte, payload string) []byte {
	if len(payload) > 125 {
		head := binary.BigEndian.AppendUint16([]byte{first, 0x80 | 126}, uint16(len(payload)))
		return slices.Concat(head, []byte{0, 0, 0, 0}, []byte(payload))
	}
	return slices.Concat([]byte{first, 0x80 | byte(len(payload)), 0, 0, 0, 0}, []byte(payload))
}

// First frame bytes: the flags FIN and RSV1, and the opcode.
const (
	textFrame, binaryFrame, textStart, continuation, ping, compressed = 0x81, 0x82, 0x01, 0x00, 0x89, 0xc1
)

// drainUntilCut reads until the server ends the connection, and returns when that was and the last
// close frame's code.
func (c *rawClient) drainUntilCut(start time.Time) (took time.Duration, code int) {
	c.Helper()
	for {
		var head [2]byte
		if _, err := io.ReadFull(c.in, head[:]); err != nil {
			return time.Since(start), code
		}
		size := int64(head[1])
		switch size {
		case 126:
			var long [2]byte
			_, _ = io.ReadFull(c.in, long[:])
			size = int64(binary.BigEndian.Uint16(long[:]))
		case 127:
			var long [8]byte
			_, _ = io.ReadFull(c.in, long[:])
			size = int64(binary.BigEndian.Uint64(long[:]))
		}
		payload := make([]byte, size)
		if _, err := io.ReadFull(c.in, payload); err != nil {
			return time.Since(start), code
		}
		if head[0] == 0x88 && size >= 2 {
			code = int(binary.BigEndian.Uint16(payload))
		}
	}
}

// expectFree checks that the session is free and the server has no open socket.
func (e *liveEnv) expectFree(t *testing.T) {
	t.Helper()
	synctest.Wait()
	c, resp := e.connectRaw(t, talkQuery)
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("status %d", resp.StatusCode)
	}
	c.sendBytes(frameOf(textFrame, `{"close":true}`))
	if _, code := c.drainUntilCut(time.Now()); code != int(websocket.StatusNormalClosure) {
		t.Errorf("the next conversation was closed with %d", code)
	}
}

// A client that does not read is disconnected, and its session is free again.
func TestLiveSlowReader(t *testing.T) {
	testLiveAttack(t, nil, &liveweb.Options{MaxUserSockets: 1}, func(t *testing.T, e *liveEnv) {
		c, _ := e.connectRaw(t, talkQuery)
		c.sendBytes(frameOf(textFrame, `{"content":{"parts":[{"text":"hello"}]}}`))
		synctest.Wait() // the memory has no buffers: the first frame waits
		time.Sleep(11 * time.Second)
		_ = c.Close()
		e.expectFree(t)
		sess, err := e.Store.Sessions.Get(t.Context(), session.Key{App: "talk", User: "u", ID: "s"}, nil)
		if err != nil || len(sess.Events()) == 0 || sess.Events()[0].Text() != "hello" {
			t.Errorf("the session has not what the client sent: %v", err)
		}
	})
}

// Audio that a model does not take is dropped and counted.
func TestLiveDroppedAudio(t *testing.T) {
	testLiveAttack(t, &server.Options{Metrics: server.NewMetrics("")}, nil, func(t *testing.T, e *liveEnv) {
		e.gemini.HandleLive(func(c *fakegemini.LiveConn) {
			_ = c.Accept("")
			time.Sleep(time.Minute) // it does not read
		})
		c, _ := e.connectRaw(t, talkQuery)
		go func() { _, _ = io.Copy(io.Discard, c.in) }() // ends with the connection
		synctest.Wait()
		const frames, size = 40, 50_000
		for range frames {
			c.sendBytes(frameOf(binaryFrame, strings.Repeat("a", size)))
			synctest.Wait()
		}
		time.Sleep(20 * time.Second)
		// 20 frames fit into 1 MiB, and one is being sent.
		const want = `agenthost_live_dropped_total{app="talk"} 19`
		if got := e.Serve("GET", "/metrics", "").Body.String(); !strings.Contains(got, "\n"+want+"\n") {
			t.Errorf("metrics %s, want %q", got, want)
		}
		_ = c.Close()
	})
}

// Frames that carry nothing are limited like all others: pings, pongs, and fragments without
// bytes.
func TestLiveFrameFloods(t *testing.T) {
	for name, c := range map[string]struct {
		frames []byte
		count  int
		least  time.Duration
	}{
		// 8 MiB at once, then 1 MiB a second; a ping counts as 4 KiB.
		"pings":     {frameOf(ping, ""), 4096, 6 * time.Second},
		"pongs":     {frameOf(0x8a, "x"), 4096, 6 * time.Second},
		"fragments": {frameOf(continuation, ""), 2 << 20, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			testLiveAttack(t, nil, nil, func(t *testing.T, e *liveEnv) {
				raw, _ := e.connectRaw(t, talkQuery)
				go func() { _, _ = io.Copy(io.Discard, raw.in) }() // ends with the connection
				start := time.Now()
				if name == "fragments" {
					raw.sendBytes(frameOf(textStart, "{"))
				}
				chunk := slices.Repeat(c.frames, 1024)
				for range c.count / 1024 {
					raw.sendBytes(chunk)
				}
				if took := time.Since(start); took < c.least || took > 2*c.least {
					t.Errorf("%d frames took %s, want about %s", c.count, took, c.least)
				}
				_ = raw.Close()
			})
		})
	}
}

// A client that never completes a frame is cut off, also when it has no conversation.
func TestLiveStalledClose(t *testing.T) {
	testLiveAttack(t, nil, &liveweb.Options{MaxSockets: 1}, func(t *testing.T, e *liveEnv) {
		first, _ := e.connectRaw(t, talkQuery)
		synctest.Wait()
		second, _ := e.connectRaw(t, "app_name=talk&user_id=v&session_id=s")
		start := time.Now()
		go func() { _, _ = second.Write([]byte{0x82, 0x80 | 127, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}) }() // 4 GiB follow
		took, code := second.drainUntilCut(start)
		if code != int(websocket.StatusTryAgainLater) || took > 15*time.Second {
			t.Errorf("closed with %d after %s", code, took)
		}
		_ = first.Close()
		e.expectFree(t)
	})
}

// Compression is off, whatever a client offers, and a frame that is compressed is an error.
func TestLiveNoCompression(t *testing.T) {
	testLiveAttack(t, nil, nil, func(t *testing.T, e *liveEnv) {
		c, resp := e.connectRaw(t, talkQuery, "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits")
		if got := resp.Header.Get("Sec-WebSocket-Extensions"); resp.StatusCode != http.StatusSwitchingProtocols || got != "" {
			t.Errorf("status %d, extensions %q", resp.StatusCode, got)
		}
		c.sendBytes(frameOf(compressed, "\xaa\x56\x4a\x04"))
		if _, code := c.drainUntilCut(time.Now()); code != int(websocket.StatusProtocolError) {
			t.Errorf("closed with %d", code)
		}
	})
}

// Pages from other sites, and from names that resolve to this machine, cannot open a conversation.
func TestLiveForeignPages(t *testing.T) {
	testLiveAttack(t, &server.Options{AllowedHosts: []string{"localhost"}}, nil, func(t *testing.T, e *liveEnv) {
		for _, c := range []struct {
			header string
			status int
		}{
			{"Origin: http://localhost", 101},
			{"Origin: https://evil.example", 403},
			{"Origin: http://localhost.evil.example", 403},
			{"Origin: null", 403},
			{"Sec-Fetch-Site: cross-site", 403},
		} {
			conn, resp := e.connectRaw(t, talkQuery, c.header)
			if resp.StatusCode != c.status {
				t.Errorf("%s: %d, want %d", c.header, resp.StatusCode, c.status)
			}
			_ = conn.Close()
			synctest.Wait()
		}
		req := httptest.NewRequestWithContext(context.Background(), "GET", "/run_live?"+talkQuery, nil)
		req.Host = "rebound.example"
		w := httptest.NewRecorder()
		e.Server.ServeHTTP(w, req)
		servertest.ExpectResponse(t, w, 403, "Forbidden: host not allowed")
	})
}
