package live_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakegemini"
	"agenthost/internal/runconfig"
	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
	"agenthost/wing/gemini"
	"agenthost/wing/live"
)

// A liveTrace is a live run recorded from ADK; the file's head describes the format.
type liveTrace struct {
	Name, Backend string
	Timing        bool
	Agent         traceAgent
	RunConfig     json.RawMessage `json:"run_config"`
	History       []json.RawMessage
	Plugin        string
	Steps         []traceStep
	Frames        []map[string]any
	Events        []map[string]any
	Stored        []map[string]any
	End           struct{ Result, Error string }
}

type traceAgent struct {
	Name, Model string
	Tools       []struct {
		Name               string
		ResponseScheduling string `json:"response_scheduling"`
	}
	SubAgents  []traceAgent                 `json:"sub_agents"`
	Before     string                       `json:"before_agent_callback"`
	BeforeTool string                       `json:"before_tool_callback"`
	OutputKey  string                       `json:"output_key"`
	Generate   *genai.GenerateContentConfig `json:"generate_content_config"`
}

type traceStep struct {
	Server      map[string]any
	Client      json.RawMessage
	ServerClose int `json:"server_close"`
	Reason      string
	WaitMS      int `json:"wait_ms"`
}

// loadLiveTraces returns what adk-python's run_live did with a live API's scripted messages: its
// frames, events and stored events, without generated IDs and times.
func loadLiveTraces(t *testing.T) []*liveTrace {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "adk_traces.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var traces []*liveTrace
	for line := range bytes.Lines(text) {
		trace := &liveTrace{}
		if err := json.Unmarshal(line, trace); err != nil {
			t.Fatal(err)
		}
		traces = append(traces, trace)
	}
	return traces
}

// TestLiveTraces: live.Run does what ADK's run_live does, but for those in liveDifferences.
func TestLiveTraces(t *testing.T) {
	for _, trace := range loadLiveTraces(t) {
		t.Run(trace.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := playTrace(t, trace)
				want := &traceResult{Frames: dropZeros(trace.Frames), Events: trace.Events, Stored: trace.Stored, End: trace.End.Result}
				applyDifference(trace.Name, want)
				for _, difference := range findTraceDifferences(want, got) {
					t.Error(difference)
				}
			})
		})
	}
}

// TestLiveTraceComparison: a trace that lacks one event, frame or stored event is not equal to the
// whole one.
func TestLiveTraceComparison(t *testing.T) {
	for _, trace := range loadLiveTraces(t) {
		whole := func() *traceResult {
			return &traceResult{Frames: trace.Frames, Events: trace.Events, Stored: trace.Stored, End: trace.End.Result}
		}
		for part, cut := range map[string]func(*traceResult) bool{
			"frames": func(r *traceResult) bool {
				ok := len(r.Frames) > 0
				r.Frames = r.Frames[:max(0, len(r.Frames)-1)]
				return ok
			},
			"events": func(r *traceResult) bool {
				ok := len(r.Events) > 0
				r.Events = r.Events[:max(0, len(r.Events)-1)]
				return ok
			},
			"stored": func(r *traceResult) bool {
				ok := len(r.Stored) > 0
				r.Stored = r.Stored[:max(0, len(r.Stored)-1)]
				return ok
			},
			"end": func(r *traceResult) bool { r.End = ""; return true },
		} {
			got := whole()
			if cut(got) && len(findTraceDifferences(whole(), got)) == 0 {
				t.Errorf("%s: nothing reported without the last of %s", trace.Name, part)
			}
		}
		if got := findTraceDifferences(whole(), whole()); len(got) > 0 {
			t.Errorf("%s differs from itself: %v", trace.Name, got)
		}
	}
}

// A traceResult is what a live run did.
type traceResult struct {
	Frames, Events, Stored []map[string]any
	End                    string
}

// findTraceDifferences returns what differs.
func findTraceDifferences(want, got *traceResult) []string {
	var all []string
	for _, part := range []struct {
		name      string
		want, got []map[string]any
	}{{"frames", want.Frames, got.Frames}, {"events", want.Events, got.Events}, {"stored", want.Stored, got.Stored}} {
		if diff := cmp.Diff(formatMaps(part.want), formatMaps(part.got)); diff != "" {
			all = append(all, part.name+" (-want +got):\n"+diff)
		}
	}
	if want.End != got.End {
		all = append(all, fmt.Sprintf("end %q, want %q", got.End, want.End))
	}
	return all
}

func formatMaps(list []map[string]any) []string {
	lines := []string{}
	for _, m := range list {
		text, _ := json.Marshal(m)
		lines = append(lines, string(text))
	}
	return lines
}

// playTrace runs a trace.
func playTrace(t *testing.T, trace *liveTrace) *traceResult {
	t.Helper()
	wire := newTraceWire(trace.Backend)
	defer wire.fake.Close()
	root := buildTraceAgent(t, wire, &trace.Agent)
	config := runtime.DefaultRunConfig()
	if trace.RunConfig != nil {
		c, ds := runconfig.Override(config, trace.RunConfig)
		if c == nil {
			t.Fatal(ds)
		}
		config = *c
	}
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	opts := &runtime.AppOptions{Config: &config}
	if trace.Plugin != "" {
		opts.Plugins = []*runtime.Plugin{tracePlugin(trace.Plugin)}
	}
	deployApp(t, e, root, opts)
	storeTraceHistory(t, e, key, trace.History)
	l := &liveTest{T: t, env: e, key: key, ended: make(chan struct{}), queue: live.NewQueue(), drain: make(chan struct{})}
	l.start()
	for _, step := range trace.Steps {
		playStep(l, wire, step)
	}
	got := &traceResult{Frames: wire.listFrames(t), End: "running"}
	l.mu.Lock()
	if l.done {
		got.End = "ended"
	}
	if l.err != nil {
		got.End = "raised"
	}
	l.mu.Unlock()
	got.Stored = normalizeEvents(t, l.storedEvents()[len(trace.History):])
	if len(got.Frames) == 0 && got.End == "raised" {
		got.Frames = []map[string]any{parseMap(`{"conn":1,"refused_before_connecting":true}`)}
	}
	l.mu.Lock()
	got.Events = normalizeEvents(t, l.events)
	l.mu.Unlock()
	l.cancel()
	<-l.ended
	wire.client.CloseIdleConnections()
	return got
}

func (l *liveTest) storedEvents() []*session.Event {
	l.Helper()
	sess, err := l.env.Store.Sessions.Get(context.Background(), l.key, nil)
	if err != nil {
		l.Fatal(err)
	}
	return sess.Events()
}

func playStep(l *liveTest, wire *traceWire, step traceStep) {
	l.Helper()
	switch {
	case step.Server != nil:
		text, err := json.Marshal(step.Server)
		if err != nil {
			l.Fatal(err)
		}
		if err := wire.last().Send(string(text)); err != nil {
			l.Fatal(err)
		}
	case step.ServerClose != 0:
		wire.closeLast(step.ServerClose, step.Reason)
	case step.Client != nil:
		r, err := live.DecodeRequest(step.Client)
		if err != nil {
			l.Fatal(err)
		}
		l.send(r)
	case step.WaitMS > 0:
		time.Sleep(time.Duration(step.WaitMS) * time.Millisecond)
	}
	l.settle(200 * time.Millisecond)
}

func storeTraceHistory(t *testing.T, e *testenv.Env, key session.Key, history []json.RawMessage) {
	t.Helper()
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range history {
		ev := &session.Event{}
		if err := json.Unmarshal(text, ev); err != nil {
			t.Fatal(err)
		}
		if err := e.Store.Sessions.Append(t.Context(), sess, ev); err != nil {
			t.Fatal(err)
		}
	}
}

func buildTraceAgent(t *testing.T, wire *traceWire, a *traceAgent) runtime.Agent {
	t.Helper()
	opts := &runtime.LLMOptions{
		Model: wire.newModel(a.Model), Instruction: runtime.NewInstruction("Help.", nil), OutputKey: a.OutputKey,
		GenerateContentConfig: a.Generate, WithoutStopStreaming: true,
	}
	for _, one := range a.Tools {
		opts.Tools = append(opts.Tools, traceTool(t, one.Name, one.ResponseScheduling))
	}
	for _, sub := range a.SubAgents {
		opts.SubAgents = append(opts.SubAgents, buildTraceAgent(t, wire, &sub))
	}
	if a.Before != "" {
		opts.Callbacks.BeforeAgent = append(opts.Callbacks.BeforeAgent, func(context.Context, *runtime.CallbackContext) (*genai.Content, error) {
			return model.ModelText("closed today"), nil
		})
	}
	if a.BeforeTool != "" {
		opts.Callbacks.BeforeTool = append(opts.Callbacks.BeforeTool, func(_ context.Context, tl tool.Tool, _ *tool.Call) (*tool.Result, error) {
			return &tool.Result{Response: map[string]any{"instead": tl.Declaration().Name}}, nil
		})
		opts.Callbacks.AfterTool = append(opts.Callbacks.AfterTool, func(_ context.Context, _ tool.Tool, _ *tool.Call, r *tool.Result) (*tool.Result, error) {
			return &tool.Result{Response: map[string]any{"wrapped": r.Response}}, nil
		})
	}
	return runtime.NewLLM(a.Name, opts)
}

func tracePlugin(what string) *runtime.Plugin {
	p := &runtime.Plugin{Name: "p"}
	if strings.HasPrefix(what, "before_run") {
		p.BeforeRun = func(context.Context, *runtime.Invocation) (*genai.Content, error) {
			return model.ModelText("not now"), nil
		}
		return p
	}
	p.OnEvent = func(_ context.Context, _ *runtime.Invocation, ev *session.Event) (*session.Event, error) {
		if ev.OutputTranscription == nil || ev.Partial {
			return nil, nil
		}
		upper := *ev
		text := *ev.OutputTranscription
		text.Text = strings.ToUpper(text.Text)
		upper.OutputTranscription = &text
		upper.CustomMetadata = map[string]any{"stamped": true}
		return &upper, nil
	}
	return p
}

// traceTool returns a tool from the file's table.
func traceTool(t *testing.T, name, scheduling string) tool.Tool {
	t.Helper()
	f := newTraceTool(t, name)
	f.capabilities.Scheduling = genai.FunctionResponseScheduling(scheduling)
	if f.items == nil {
		return f
	}
	f.capabilities.Stream = &tool.Stream{}
	if name == "watch_video" {
		f.capabilities.Stream.Watch = "video"
	}
	return &traceStreamer{f}
}

func newTraceTool(t *testing.T, name string) *traceFunc {
	t.Helper()
	plain := func(run func(*tool.Call) (map[string]any, error), args ...string) *traceFunc {
		properties := map[string]any{}
		for _, a := range args {
			properties[a] = map[string]any{"type": "string"}
		}
		return &traceFunc{name: name, properties: properties, run: run, capabilities: tool.Capabilities{LongRunning: name == "ask_human"}}
	}
	streaming := func(items func(context.Context, *tool.Call, func(any) bool) error, args ...string) *traceFunc {
		f := plain(nil, args...)
		f.items = items
		return f
	}
	switch name {
	case "get_weather":
		return plain(func(c *tool.Call) (map[string]any, error) {
			return map[string]any{"city": c.Args["city"], "celsius": 22}, nil
		}, "city")
	case "get_time":
		return plain(func(*tool.Call) (map[string]any, error) { return map[string]any{"result": "10:30"}, nil })
	case "broken":
		return plain(func(*tool.Call) (map[string]any, error) { return nil, errors.New("boom") })
	case "tool_state":
		return plain(func(c *tool.Call) (map[string]any, error) {
			c.State.Set("seen", "yes")
			return map[string]any{"ok": true}, nil
		})
	case "ask_human":
		return plain(func(*tool.Call) (map[string]any, error) { return nil, nil }, "question")
	case "stop_streaming":
		return plain(func(*tool.Call) (map[string]any, error) { return nil, errors.New("is handled by the runtime") }, "function_name")
	case "watch_price":
		return streaming(func(_ context.Context, c *tool.Call, yield func(any) bool) error {
			yield(fmt.Sprint(c.Args["symbol"], "=1"))
			time.Sleep(50 * time.Millisecond)
			yield(map[string]any{"price": 2})
			return nil
		}, "symbol")
	case "watch_forever":
		return streaming(func(ctx context.Context, c *tool.Call, yield func(any) bool) error {
			yield(fmt.Sprint(c.Args["symbol"], "=1"))
			for {
				select {
				case <-time.After(5 * time.Second):
					yield("tick")
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}, "symbol")
	case "watch_video":
		return streaming(func(ctx context.Context, c *tool.Call, yield func(any) bool) error {
			for {
				b, err := c.NextMedia(ctx)
				if err != nil {
					return err
				}
				yield(fmt.Sprintf("saw %s %d", b.MIMEType, len(b.Data)))
			}
		})
	case "slow_report":
		return plain(func(*tool.Call) (map[string]any, error) {
			time.Sleep(150 * time.Millisecond)
			return map[string]any{"report": "done"}, nil
		})
	}
	t.Fatalf("tool %s is not in the table", name)
	return nil
}

type traceFunc struct {
	name         string
	properties   map[string]any
	run          func(*tool.Call) (map[string]any, error)
	items        func(context.Context, *tool.Call, func(any) bool) error
	capabilities tool.Capabilities
}

// A traceStreamer is a traceFunc whose source streams.
type traceStreamer struct{ *traceFunc }

func (f *traceStreamer) Stream(ctx context.Context, c *tool.Call) iter.Seq2[*tool.Result, error] {
	return func(yield func(*tool.Result, error) bool) {
		err := f.items(ctx, c, func(item any) bool {
			response, ok := item.(map[string]any)
			if !ok {
				response = map[string]any{"result": item}
			}
			return yield(&tool.Result{Response: response}, nil)
		})
		if err != nil {
			yield(nil, err)
		}
	}
}

func (f *traceFunc) Declaration() *genai.FunctionDeclaration {
	d := &genai.FunctionDeclaration{Name: f.name, Description: "A tool."}
	if len(f.properties) > 0 {
		d.ParametersJsonSchema = map[string]any{"type": "object", "properties": f.properties}
	}
	return d
}

func (f *traceFunc) Capabilities() tool.Capabilities {
	return f.capabilities
}

func (f *traceFunc) Run(_ context.Context, c *tool.Call) (*tool.Result, error) {
	response, err := f.run(c)
	if err != nil || response == nil {
		return nil, err
	}
	return &tool.Result{Response: response}, nil
}

// A traceWire serves a trace's models: the fake Live API, which the real provider reaches through
// memory.
type traceWire struct {
	fake   *fakegemini.Server
	client *http.Client
	vertex bool
	mu     sync.Mutex
	conns  []*fakegemini.LiveConn
	closes map[int]int
}

func newTraceWire(backend string) *traceWire {
	w := &traceWire{vertex: backend == "vertex", closes: map[int]int{}}
	w.fake, w.client = fakegemini.NewInMemory()
	w.fake.HandleLive(func(c *fakegemini.LiveConn) {
		if c.Accept(fmt.Sprintf("live-%d", c.Number)) != nil {
			return
		}
		w.mu.Lock()
		w.conns = append(w.conns, c)
		w.mu.Unlock()
		for {
			if _, err := c.Receive(); err != nil {
				w.mu.Lock()
				if _, ours := w.closes[c.Number]; !ours {
					w.closes[c.Number] = int(websocket.CloseStatus(err))
				}
				w.mu.Unlock()
				return
			}
		}
	})
	return w
}

func (w *traceWire) newModel(name string) model.LLM {
	opts := &gemini.Options{
		HTTP: w.client, BaseURL: "http://gemini.test", APIKey: "key-1234", Lookup: func(string) (string, bool) { return "", false },
	}
	if w.vertex {
		opts.Backend = "vertex_ai"
	}
	return gemini.New(name, opts)
}

func (w *traceWire) last() *fakegemini.LiveConn {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.conns[len(w.conns)-1]
}

// closeLast closes the newest connection from the service's side.
func (w *traceWire) closeLast(code int, reason string) {
	c := w.last()
	w.mu.Lock()
	w.closes[c.Number] = 0
	w.mu.Unlock()
	c.Close(code, reason)
}

// listFrames returns the host's messages by connection, normalized like the file. A connection that
// the host has closed has its code at the end.
func (w *traceWire) listFrames(t *testing.T) []map[string]any {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []map[string]any
	for _, c := range w.conns {
		for _, f := range c.Frames() {
			f = maps.Clone(f)
			f["conn"] = float64(c.Number)
			if setup, ok := f["setup"].(map[string]any); ok {
				normalizeSetup(setup)
			}
			all = append(all, f)
		}
		if w.closes[c.Number] == 1000 {
			all = append(all, map[string]any{"conn": float64(c.Number), "close": 1000.0})
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	all = nil
	if err := json.Unmarshal(traceID.ReplaceAll(text, []byte("<adk-id>")), &all); err != nil {
		t.Fatal(err)
	}
	return dropZeros(all)
}

// normalizeSetup replaces a setup's texts.
func normalizeSetup(setup map[string]any) {
	if setup["systemInstruction"] != nil {
		setup["systemInstruction"] = parseMap(`{"role":"system","parts":[{"text":"<instruction>"}]}`)
	}
	tools, _ := setup["tools"].([]any)
	for _, group := range tools {
		list, _ := group.(map[string]any)["functionDeclarations"].([]any)
		for _, one := range list {
			d := one.(map[string]any)
			schema, _ := d["parametersJsonSchema"].(map[string]any)
			d["description"] = "<description>"
			delete(d, "parametersJsonSchema")
			delete(d, "parameters")
			if properties, _ := schema["properties"].(map[string]any); len(properties) > 0 {
				d["parametersJsonSchema"] = "<schema>"
			}
		}
	}
}

func dropZeros(frames []map[string]any) []map[string]any {
	var all []map[string]any
	for _, f := range frames {
		dropped, _ := dropZero(f).(map[string]any)
		// An empty object is a setting.
		for _, key := range []string{"inputAudioTranscription", "outputAudioTranscription", "sessionResumption"} {
			if setup, ok := f["setup"].(map[string]any); ok && setup[key] != nil && dropped["setup"].(map[string]any)[key] == nil {
				dropped["setup"].(map[string]any)[key] = map[string]any{}
			}
		}
		all = append(all, dropped)
	}
	return all
}

// dropZero removes null, false, 0 and "" from maps.
func dropZero(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for k, e := range v {
			switch e := dropZero(e).(type) {
			case nil:
			case bool:
				if e {
					m[k] = e
				}
			case float64:
				if e != 0 {
					m[k] = e
				}
			case string:
				if e != "" {
					m[k] = e
				}
			default:
				m[k] = e
			}
		}
		return m
	case []any:
		list := []any{}
		for _, e := range v {
			list = append(list, dropZero(e))
		}
		return list
	}
	return v
}

var (
	traceID        = regexp.MustCompile(`adk-[0-9a-z-]+`)
	recordingMilli = regexp.MustCompile(`_audio_[0-9]+\.wav`)
)

// normalizeEvents returns the events' JSON like the file: without ids, times and empty actions.
func normalizeEvents(t *testing.T, events []*session.Event) []map[string]any {
	t.Helper()
	var all []map[string]any
	for _, ev := range events {
		text, err := session.AppendEvent(nil, ev)
		if err != nil {
			t.Fatal(err)
		}
		text = recordingMilli.ReplaceAll(traceID.ReplaceAll(text, []byte("<adk-id>")), []byte("_audio_<ms>.wav"))
		var m map[string]any
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"id", "timestamp", "invocationId", "nodeInfo"} {
			delete(m, key)
		}
		if ids, ok := m["longRunningToolIds"].([]any); ok && len(ids) == 0 {
			delete(m, "longRunningToolIds")
		}
		actions, _ := m["actions"].(map[string]any)
		for k, v := range actions {
			if inner, ok := v.(map[string]any); ok && len(inner) == 0 {
				delete(actions, k)
			}
		}
		if len(actions) == 0 {
			delete(m, "actions")
		}
		all = append(all, m)
	}
	return all
}
