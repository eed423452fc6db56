package live_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"agenthost/internal/fake/fakegemini"
	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/wing/gemini"
	"agenthost/wing/live"
)

// A cutConn is a connection that ends after N bytes from the peer.
type cutConn struct {
	net.Conn
	left *atomic.Int64
}

func (c *cutConn) Read(p []byte) (int, error) {
	left := c.left.Load()
	if left <= 0 {
		_ = c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), left)])
	c.left.Add(-int64(n))
	return n, err
}

// A cutService is a live model whose first connection is cut.
type cutService struct {
	fake *fakegemini.Server
	left atomic.Int64
	llm  model.LLM
}

// newCutService returns a service that answers the first text with a transcript, two chunks of
// text and a completed turn.
func newCutService() *cutService {
	s := &cutService{}
	fake, client := fakegemini.NewInMemory()
	s.fake = fake
	fake.HandleLive(func(c *fakegemini.LiveConn) {
		_ = c.Accept("live")
		if _, err := c.Receive(); err != nil {
			return
		}
		for _, message := range []string{
			`{"serverContent":{"outputTranscription":{"text":"Good "}}}`,
			`{"serverContent":{"modelTurn":{"parts":[{"text":"day"}]}}}`,
			`{"serverContent":{"modelTurn":{"parts":[{"text":", sir"}]},"outputTranscription":{"text":"day"}}}`,
			`{"serverContent":{"turnComplete":true},"usageMetadata":{"promptTokenCount":3,"responseTokenCount":2,"totalTokenCount":5}}`,
		} {
			_ = c.Send(message)
		}
		_, _ = c.Receive()
	})
	transport := client.Transport.(*http.Transport)
	dial := transport.DialContext
	connections := 0
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if connections++; connections == 1 && err == nil {
			conn = &cutConn{conn, &s.left}
		}
		return conn, err
	}
	s.llm = gemini.New("gemini-live-2.5-flash", &gemini.Options{
		BaseURL: "http://gemini.test", APIKey: "key", HTTP: client, Lookup: func(string) (string, bool) { return "", false },
	})
	return s
}

// A cutRun is a conversation whose connection to the model is cut.
type cutRun struct {
	events, stored []*session.Event
	err            error
	// unread is how many bytes the cut was after the conversation's end.
	unread int64
}

// runUntilCut holds a conversation with one text, and ends it when the turn is complete.
func runUntilCut(t *testing.T, e *testenv.Env, offset int, opts *runtime.AppOptions) *cutRun {
	t.Helper()
	s := newCutService()
	defer s.fake.Close()
	s.left.Store(int64(offset))
	deployApp(t, e, runtime.NewLLM("root", &runtime.LLMOptions{Model: s.llm}), opts)
	key := e.Session(t, "app", fmt.Sprint("s", offset), nil)
	queue := live.NewQueue()
	if err := queue.Send(t.Context(), &live.Request{Content: model.UserText("hello")}); err != nil {
		t.Fatal(err)
	}
	r := &cutRun{}
	for ev, err := range live.Run(t.Context(), e.Host, &live.RunRequest{App: "app", UserID: key.User, SessionID: key.ID, Requests: queue}) {
		if err != nil {
			r.err = err
			break
		}
		if r.events = append(r.events, ev); ev.TurnComplete {
			queue.Close()
		}
	}
	r.unread = s.left.Load()
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.stored = sess.Events()
	wantSessionFree(t, e, key)
	return r
}

// texts returns the model's text and transcript from partial events, or from the others.
func textsOf(events []*session.Event, partial bool) string {
	var text, transcript strings.Builder
	for _, ev := range events {
		if ev.Partial != partial || ev.Author != "root" {
			continue
		}
		text.WriteString(model.TextOf(ev.Content))
		if ev.OutputTranscription != nil {
			transcript.WriteString(ev.OutputTranscription.Text)
		}
	}
	return text.String() + "|" + transcript.String()
}

// cutKind returns whether the connection was cut in the handshake or later; an empty string
// without an error.
func cutKind(err error) string {
	switch code := runtime.AsRunError(err); {
	case err == nil:
		return ""
	case code.Code == "MODEL_ERROR" && strings.Contains(code.Message, "connecting to the live model failed: "):
		return "1 handshake"
	case code.Code == runtime.CodeLiveDisconnected && strings.Contains(code.Message, "the live connection was closed with code 1006: "):
		return "2 conversation"
	}
	return ""
}

// TestLiveCutAtEveryByte: wherever the connection to the model is cut, the run ends with an error
// about the cut connection, what the client saw is stored and nothing else, and the session is
// free. With session_resumption, the conversation continues on another connection.
func TestLiveCutAtEveryByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := testenv.New(t, nil)
		const whole = 1 << 20
		all := runUntilCut(t, e, whole, nil)
		if all.err != nil || textsOf(all.stored, false) != "day, sir|Good day" {
			t.Fatalf("without a cut: %v, %s", all.err, formatLiveEvents(all.stored))
		}
		last := ""
		for offset := range whole - int(all.unread) {
			r := runUntilCut(t, e, offset, nil)
			complete := slices.ContainsFunc(r.events, func(ev *session.Event) bool { return ev.TurnComplete })
			if kind := cutKind(r.err); kind == "" && complete {
				continue // the client was faster than the cut
			} else if kind < last || kind == "" {
				t.Fatalf("cut at byte %d: %q %v, after %q", offset, kind, r.err, last)
			} else {
				last = kind
			}
			// A run whose first connection fails may end before it reads the request.
			sent := len(r.stored) > 0 && r.stored[0].Text() == "hello"
			if !sent && len(r.stored)+len(r.events) > 0 || textsOf(r.events, true) != textsOf(r.stored, false) {
				t.Fatalf("cut at byte %d: the client saw\n%sstored is\n%s", offset, formatLiveEvents(r.events), formatLiveEvents(r.stored))
			}
		}
	})
}

// TestLiveCutAndResumed: with session_resumption the conversation survives every cut: the user's
// text is stored once, and the last answer is whole.
func TestLiveCutAndResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := testenv.New(t, nil)
		const whole = 1 << 20
		size := whole - int(runUntilCut(t, e, whole, withResumption()).unread)
		for offset := range size {
			r := runUntilCut(t, e, offset, withResumption())
			hellos := 0
			for _, ev := range r.stored {
				if ev.Text() == "hello" {
					hellos++
				}
			}
			complete := slices.IndexFunc(r.stored, func(ev *session.Event) bool { return ev.TurnComplete })
			if r.err != nil || hellos != 1 || complete < 0 || !strings.HasSuffix(textsOf(r.stored, false), "Good day") {
				t.Fatalf("cut at byte %d: %v, stored\n%s", offset, r.err, formatLiveEvents(r.stored))
			}
		}
	})
}
