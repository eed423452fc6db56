package live_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
	"agenthost/wing/live"
)

// A liveModel is a live model whose connections a test holds in its hands.
type liveModel struct {
	traits model.LiveTraits
	mu     sync.Mutex
	conns  []*liveTestConn
	// refuse, if set, decides about attempts to connect, counted from 1.
	refuse   func(attempt int, setup *model.LiveSetup) error
	attempts int
}

func (m *liveModel) Name() string { return "live" }

func (m *liveModel) Generate(context.Context, *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) { yield(nil, errors.New("not live")) }
}

func (m *liveModel) LiveTraits(string) model.LiveTraits { return m.traits }

func (m *liveModel) ConnectLive(_ context.Context, setup *model.LiveSetup) (model.LiveConn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.attempts++
	if m.refuse != nil {
		if err := m.refuse(m.attempts, setup); err != nil {
			return nil, err
		}
	}
	c := &liveTestConn{
		id: fmt.Sprintf("live-%d", len(m.conns)+1), setup: setup, traits: m.traits,
		in: make(chan *model.LiveMessage, 1000), closed: make(chan struct{}), stalled: make(chan struct{}),
	}
	close(c.stalled)
	m.conns = append(m.conns, c)
	return c, nil
}

// conn returns a connection, counted from 1.
func (m *liveModel) conn(i int) *liveTestConn {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.conns[i-1]
}

func (m *liveModel) connections() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.conns)
}

type liveTestConn struct {
	id     string
	setup  *model.LiveSetup
	traits model.LiveTraits
	in     chan *model.LiveMessage

	mu      sync.Mutex
	frames  []string
	end     error
	closed  chan struct{}
	byHost  bool
	stalled chan struct{} // is open while the model does not read
}

func (c *liveTestConn) SessionID() string { return c.id }

func (c *liveTestConn) Send(ctx context.Context, frame *model.LiveFrame) error {
	c.mu.Lock()
	stalled := c.stalled
	c.mu.Unlock()
	select {
	case <-stalled:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closed:
	}
	select {
	case <-c.closed:
		return errors.New("connection closed")
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frames = append(c.frames, formatFrame(frame))
	return nil
}

func (c *liveTestConn) Receive(ctx context.Context) (*model.LiveMessage, error) {
	select {
	case m := <-c.in:
		return m, nil
	default:
	}
	select {
	case m := <-c.in:
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.closed:
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.end == nil {
			return nil, errors.New("connection closed")
		}
		return nil, c.end
	}
}

func (c *liveTestConn) Close() error { return c.drop(nil, true) }

func (c *liveTestConn) drop(err error, byHost bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.closed:
	default:
		c.end, c.byHost = err, byHost
		close(c.closed)
	}
	return nil
}

// sent returns the frames that the host has sent, one a line.
func (c *liveTestConn) sent() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.frames, "\n")
}

func (c *liveTestConn) closedByHost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byHost
}

func (c *liveTestConn) speak(text string) { c.in <- &model.LiveMessage{Content: model.ModelText(text)} }

func (c *liveTestConn) call(id, name string, args map[string]any) {
	c.in <- &model.LiveMessage{Calls: []*genai.FunctionCall{{ID: id, Name: name, Args: args}}}
}

func (c *liveTestConn) completeTurn() { c.in <- &model.LiveMessage{TurnComplete: true} }

func (c *liveTestConn) giveHandle(handle string) {
	c.in <- &model.LiveMessage{Resumption: &model.LiveResumption{NewHandle: handle, Resumable: handle != ""}}
}

func formatFrame(f *model.LiveFrame) string {
	var b strings.Builder
	switch {
	case len(f.Turns) > 0:
		for _, c := range f.Turns {
			fmt.Fprintf(&b, "%s:", c.Role)
			for _, p := range c.Parts {
				b.WriteString(" " + p.Text)
			}
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "complete=%v", f.TurnComplete)
	case f.Blob != nil:
		fmt.Fprintf(&b, "blob %s %d", f.Blob.MIMEType, len(f.Blob.Data))
	case f.Text != "":
		b.WriteString("text " + f.Text)
	case len(f.Responses) > 0:
		for _, r := range f.Responses {
			text, _ := json.Marshal(r.Response)
			fmt.Fprintf(&b, "response %s %s %s ", r.ID, r.Name, text)
		}
	default:
		fmt.Fprintf(&b, "start=%v end=%v off=%v", f.ActivityStart, f.ActivityEnd, f.AudioStreamEnd)
	}
	return strings.TrimSpace(b.String())
}

// A liveTest is a live run in a synctest bubble: each step waits until nothing happens.
type liveTest struct {
	*testing.T
	env    *testenv.Env
	key    session.Key
	model  *liveModel
	queue  *live.Queue
	drain  chan struct{}
	cancel context.CancelFunc

	mu     sync.Mutex
	events []*session.Event
	err    error
	done   bool
	ended  chan struct{}
}

// runLive starts a live run with an agent, or with the tree's root.
func runLive(t *testing.T, m *liveModel, root runtime.Agent, opts *runtime.AppOptions) *liveTest {
	t.Helper()
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	deployApp(t, e, root, opts)
	l := &liveTest{T: t, env: e, key: key, model: m, ended: make(chan struct{}), queue: live.NewQueue(), drain: make(chan struct{})}
	l.start()
	return l
}

func (l *liveTest) start() {
	ctx, cancel := context.WithCancel(l.Context())
	l.cancel = cancel
	go func() {
		defer close(l.ended)
		for ev, err := range live.Run(ctx, l.env.Host, &live.RunRequest{App: "app", UserID: l.key.User, SessionID: l.key.ID, Requests: l.queue, Drain: l.drain}) {
			l.mu.Lock()
			if err != nil {
				l.err = err
			} else {
				l.events = append(l.events, ev)
			}
			l.mu.Unlock()
		}
		l.mu.Lock()
		l.done = true
		l.mu.Unlock()
	}()
	synctest.Wait()
}

// settle lets the given time pass.
func (l *liveTest) settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (l *liveTest) send(r *live.Request) {
	l.Helper()
	if err := l.queue.Send(l.Context(), r); err != nil {
		l.Fatal(err)
	}
	synctest.Wait()
}

func (l *liveTest) speak(text string) {
	l.Helper()
	l.send(&live.Request{Content: model.UserText(text)})
}

// stop ends the run as a client that leaves.
func (l *liveTest) stop() {
	l.queue.Close()
	<-l.ended
}

// yielded returns the run's events so far, one a line, and its error.
func (l *liveTest) yielded() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := formatLiveEvents(l.events)
	if l.err != nil {
		text += "error: " + runtime.AsRunError(l.err).Code + ": " + l.err.Error() + "\n"
	}
	return text
}

func (l *liveTest) stored() string {
	l.Helper()
	sess, err := l.env.Store.Sessions.Get(context.Background(), l.key, nil)
	if err != nil {
		l.Fatal(err)
	}
	return formatLiveEvents(sess.Events())
}

func formatLiveEvents(events []*session.Event) string {
	var b strings.Builder
	for _, ev := range events {
		b.WriteString(ev.Author + ":")
		if ev.Content != nil {
			for _, p := range ev.Content.Parts {
				switch {
				case p.FunctionCall != nil:
					fmt.Fprintf(&b, " call %s", p.FunctionCall.Name)
				case p.FunctionResponse != nil:
					text, _ := json.Marshal(p.FunctionResponse.Response)
					fmt.Fprintf(&b, " %s→%s", p.FunctionResponse.Name, text)
				case p.InlineData != nil:
					fmt.Fprintf(&b, " %s", p.InlineData.MIMEType)
				default:
					b.WriteString(" " + p.Text)
				}
			}
		}
		if ev.InputTranscription != nil {
			b.WriteString(" input " + ev.InputTranscription.Text)
		}
		if ev.OutputTranscription != nil {
			b.WriteString(" output " + ev.OutputTranscription.Text)
		}
		if ev.Resumption != nil {
			b.WriteString(" handle " + ev.Resumption.NewHandle)
		}
		for _, flag := range []struct {
			set  bool
			name string
		}{{ev.Partial, "partial"}, {ev.TurnComplete, "complete"}, {ev.Interrupted, "interrupted"}} {
			if flag.set {
				b.WriteString(" (" + flag.name + ")")
			}
		}
		if ev.ErrorCode != "" {
			b.WriteString(" " + ev.ErrorCode + " " + ev.ErrorMessage)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func checkText(t *testing.T, what, want, got string) {
	t.Helper()
	if diff := cmp.Diff(strings.TrimSpace(want), strings.TrimSpace(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func liveAgent(m *liveModel, tools ...tool.Tool) *runtime.LLMAgent {
	return runtime.NewLLM("root", &runtime.LLMOptions{Model: m, Tools: tools})
}

func withResumption() *runtime.AppOptions {
	config := runtime.DefaultRunConfig()
	config.SessionResumption = &genai.SessionResumptionConfig{}
	return &runtime.AppOptions{Config: &config}
}

// TestLiveText: the client's text is stored and sent; chunks are yielded and not stored; the merged
// text is both. A client that closes the queue ends the run, and the model gets a close frame.
func TestLiveText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &liveModel{}
		l := runLive(t, m, liveAgent(m), nil)
		l.speak("hi")
		c := m.conn(1)
		checkText(t, "frames", "user: hi; complete=true", c.sent())
		c.speak("Hel")
		c.speak("lo")
		c.completeTurn()
		synctest.Wait()
		checkText(t, "events", "root: Hel (partial)\nroot: lo (partial)\nroot: Hello\nroot: (complete)", l.yielded())
		checkText(t, "stored", "user: hi\nroot: Hello\nroot: (complete)", l.stored())
		l.stop()
		if !c.closedByHost() {
			t.Error("the connection was not closed")
		}
	})
}

// TestLiveCall: a call runs, its response is stored and sent.
func TestLiveCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &liveModel{traits: model.LiveTraits{ExecutesCallsAtOnce: true}}
		l := runLive(t, m, liveAgent(m, &testTool{name: "time", run: func(context.Context, *tool.Call) (*tool.Result, error) {
			return &tool.Result{Response: map[string]any{"time": "10:30"}}, nil
		}}), nil)
		m.conn(1).call("c1", "time", nil)
		synctest.Wait()
		checkText(t, "frames", `response c1 time {"time":"10:30"}`, m.conn(1).sent())
		checkText(t, "stored", "root: call time\nroot: time→{\"time\":\"10:30\"}", l.stored())
		l.stop()
	})
}

// TestLiveReconnect: a connection that drops is replaced with the newest handle; what was
// sent and not confirmed is sent again; open text is stored as interrupted.
func TestLiveReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &liveModel{}
		l := runLive(t, m, liveAgent(m), withResumption())
		m.conn(1).giveHandle("h1")
		m.conn(1).giveHandle("")
		synctest.Wait()
		l.speak("hi")
		m.conn(1).speak("Hel")
		synctest.Wait()
		m.conn(1).drop(&model.LiveCloseError{Code: 1011}, false)
		l.settle(time.Second)
		if got := m.connections(); got != 2 {
			t.Fatalf("%d connections, want 2\n%s", got, l.yielded())
		}
		if got := m.conn(2).setup.Resumption.Handle; got != "h1" {
			t.Errorf("handle %q, want h1", got)
		}
		checkText(t, "frames", "user: hi; complete=true", m.conn(2).sent())
		checkText(t, "stored", "root: handle h1\nroot: handle \nuser: hi\nroot: Hel (interrupted)", l.stored())
		l.stop()
	})
}
