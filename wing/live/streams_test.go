package live_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
	"agenthost/wing/live"
)

// pollingTool is a tool that streams by being called again and again.
func pollingTool(name string, stream *tool.Stream, run func(context.Context, *tool.Call) (*tool.Result, error)) *testTool {
	return &testTool{name: name, capabilities: tool.Capabilities{Stream: stream}, run: run}
}

func resultOf(v any) *tool.Result { return &tool.Result{Response: map[string]any{"result": v}} }

const pendingFrame = `{"status":"The function is running asynchronously and the results are pending."}`

// TestLiveStream: a tool that streams is called with a pause until the model stops it. Results
// that equal the last one are not sent, and results are not stored.
func TestLiveStream(t *testing.T) {
	m, calls := callsAtOnce(), &atomic.Int32{}
	watch := pollingTool("watch", &tool.Stream{Every: time.Second}, func(context.Context, *tool.Call) (*tool.Result, error) {
		return resultOf(calls.Add(1) / 2), nil
	})
	testLive(t, m, liveAgent(m, watch), nil, func(l *liveTest) {
		c := m.conn(1)
		c.call("c1", "watch", nil)
		l.settle(3500 * time.Millisecond)
		c.call("c2", "stop_streaming", map[string]any{"function_name": "watch"})
		l.settle(time.Minute)
		c.call("c3", "stop_streaming", map[string]any{"function_name": "watch"})
		synctest.Wait()
		checkText(t, "frames", `response c1 watch {"result":0}
response c1 watch `+pendingFrame+`
response c1 watch {"result":1}
response c1 watch {"result":2}
response c2 stop_streaming {"status":"Successfully stopped streaming function watch"}
response c3 stop_streaming {"status":"No active streaming function named watch found"}`, c.sent())
		checkText(t, "stored", `root: call watch
root: watch→`+pendingFrame+`
root: call stop_streaming
root: stop_streaming→{"status":"Successfully stopped streaming function watch"}
root: call stop_streaming
root: stop_streaming→{"status":"No active streaming function named watch found"}`, l.stored())
		if got := calls.Load(); got != 4 {
			t.Errorf("%d calls, want 4", got)
		}
	})
}

// TestLiveStreamDeclared: functions that the model need not wait for are declared as such,
// with stop_streaming, unless the service has no such functions. Then results are texts.
func TestLiveStreamDeclared(t *testing.T) {
	for _, traits := range []model.LiveTraits{{}, {NoAsyncCalls: true}} {
		m := &liveModel{traits: traits}
		watch := pollingTool("watch", &tool.Stream{Every: time.Second}, func(context.Context, *tool.Call) (*tool.Result, error) { return resultOf("dry"), nil })
		testLive(t, m, liveAgent(m, watch, sleepingTool("plain", time.Second, &atomic.Int32{})), nil, func(l *liveTest) {
			var got []string
			for _, d := range m.conn(1).setup.Tools[0].FunctionDeclarations {
				got = append(got, strings.TrimSpace(d.Name+" "+string(d.Behavior)))
			}
			m.conn(1).call("c1", "watch", nil)
			m.conn(1).completeTurn()
			synctest.Wait()
			want, frames := "watch NON_BLOCKING, plain, stop_streaming", "response c1 watch {\"result\":\"dry\"}\nresponse c1 watch "+pendingFrame
			if traits.NoAsyncCalls {
				want, frames = "watch, plain, stop_streaming", "user: Function watch returned: {\"result\":\"dry\"}; complete=true\nresponse c1 watch "+pendingFrame
			}
			checkText(t, "declared", want, strings.Join(got, ", "))
			checkText(t, "frames", frames, m.conn(1).sent())
		})
	}
}

// TestLiveStreamEnds: a stream ends with its time, with five failed calls in a row, when the
// model cancels its call, and with the conversation.
func TestLiveStreamEnds(t *testing.T) {
	for name, c := range map[string]struct {
		stream tool.Stream
		fails  bool
		end    func(*liveTest, *liveTestConn)
		want   string
		calls  int32
	}{
		"time":   {tool.Stream{Every: time.Second, For: 2500 * time.Millisecond}, false, nil, `{"result":"on"} PENDING {"status":"The stream of watch has ended after 2.5s."}`, 3},
		"always": {tool.Stream{Every: time.Second, For: 1500 * time.Millisecond, Always: true}, false, nil, `{"result":"on"} PENDING {"result":"on"} {"status":"The stream of watch has ended after 1.5s."}`, 2},
		"fails":  {tool.Stream{Every: time.Second}, true, nil, `{"error":"no luck"} PENDING {"error":"the stream has ended after 5 failed calls, the last with: no luck"}`, 5},
		"cancel": {tool.Stream{Every: time.Second}, false, func(l *liveTest, c *liveTestConn) {
			c.in <- &model.LiveMessage{CanceledCalls: []string{"c1"}}
		}, `{"result":"on"} PENDING`, 1},
		"leave": {tool.Stream{Every: time.Second}, false, func(l *liveTest, _ *liveTestConn) { l.cancel() }, `{"result":"on"} PENDING`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			m, calls := callsAtOnce(), &atomic.Int32{}
			watch := pollingTool("watch", &c.stream, func(context.Context, *tool.Call) (*tool.Result, error) {
				calls.Add(1)
				if c.fails {
					return nil, errors.New("no luck")
				}
				return resultOf("on"), nil
			})
			testLive(t, m, liveAgent(m, watch), nil, func(l *liveTest) {
				m.conn(1).call("c1", "watch", nil)
				l.settle(100 * time.Millisecond)
				if c.end != nil {
					c.end(l, m.conn(1))
				}
				l.settle(time.Minute)
				want := "response c1 watch " + strings.ReplaceAll(strings.ReplaceAll(c.want, "PENDING", pendingFrame), "} {", "}\nresponse c1 watch {")
				checkText(t, "frames", want, m.conn(1).sent())
				if got := calls.Load(); got != c.calls {
					t.Errorf("%d calls, want %d", got, c.calls)
				}
			})
		})
	}
}

// TestLiveStreamFailOnError: with on_error: fail, the first failure ends the run. A panic is a
// result, and ends the stream.
func TestLiveStreamFailOnError(t *testing.T) {
	m := callsAtOnce()
	watch := pollingTool("watch", &tool.Stream{Every: time.Second}, func(context.Context, *tool.Call) (*tool.Result, error) { return nil, errors.New("no luck") })
	watch.capabilities.FailOnError = true
	panics := pollingTool("panics", &tool.Stream{Every: time.Second}, func(context.Context, *tool.Call) (*tool.Result, error) { panic("ouch") })
	testLive(t, m, liveAgent(m, watch, panics), nil, func(l *liveTest) {
		m.conn(1).call("c1", "panics", nil)
		l.settle(time.Minute)
		checkText(t, "frames", "response c1 panics {\"error\":\"it panicked\"}\nresponse c1 panics "+pendingFrame, m.conn(1).sent())
		m.conn(1).call("c2", "watch", nil)
		<-l.ended
		if got := l.yielded(); !strings.Contains(got, "error: TOOL_FAILED: tool watch of agent root failed: no luck") {
			t.Errorf("events\n%s", got)
		}
	})
}

// TestLiveStreamWrites: what a stream writes to the state is stored at once, and each call has its
// own idempotency key.
func TestLiveStreamWrites(t *testing.T) {
	m := callsAtOnce()
	watch := pollingTool("watch", &tool.Stream{Every: time.Second, For: 1500 * time.Millisecond}, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		n, _ := c.State.Get("n")
		text, _ := n.(string)
		c.State.Set("n", text+"x")
		return resultOf(c.IdempotencyKey[len(c.IdempotencyKey)-5:]), nil
	})
	testLive(t, m, liveAgent(m, watch), nil, func(l *liveTest) {
		m.conn(1).call("c1", "watch", nil)
		l.settle(time.Minute)
		checkText(t, "frames", strings.ReplaceAll(`response c1 watch {"result":"/c1/0"}
response c1 watch PENDING
response c1 watch {"result":"/c1/1"}
response c1 watch {"status":"The stream of watch has ended after 1.5s."}`, "PENDING", pendingFrame), m.conn(1).sent())
		if got := fmt.Sprint(l.stateValue("n")); got != "xx" {
			t.Errorf("state n is %s, want xx", got)
		}
	})
}

// stateValue returns a stored state value.
func (l *liveTest) stateValue(key string) any {
	l.Helper()
	sess, err := l.env.Store.Sessions.Get(context.Background(), l.key, nil)
	if err != nil {
		l.Fatal(err)
	}
	v, _ := sess.State.Get(key)
	return v
}

// TestLiveStreamWatches: each call to a tool that watches the camera waits for a new image, and
// receives the newest; one that watches the microphone receives all that it has recorded.
func TestLiveStreamWatches(t *testing.T) {
	see := func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		return resultOf(fmt.Sprintf("%s %d", c.Media.MIMEType, len(c.Media.Data))), nil
	}
	m := callsAtOnce()
	camera := pollingTool("camera", &tool.Stream{Every: time.Second, Watch: "video", Always: true}, see)
	microphone := pollingTool("microphone", &tool.Stream{Every: time.Second, Watch: "audio", Always: true}, see)
	testLive(t, m, liveAgent(m, camera, microphone), nil, func(l *liveTest) {
		c := m.conn(1)
		c.call("c1", "camera", nil)
		c.call("c2", "microphone", nil)
		l.settle(time.Second)
		for i := range 3 {
			l.send(&live.Request{Blob: &genai.Blob{MIMEType: "image/jpeg", Data: make([]byte, 10+i)}})
			l.send(&live.Request{Blob: &genai.Blob{MIMEType: "audio/pcm;rate=16000", Data: make([]byte, 320)}})
		}
		l.settle(time.Minute)
		var got []string
		for _, frame := range strings.Split(c.sent(), "\n") {
			if strings.Contains(frame, "result\"") {
				got = append(got, frame)
			}
		}
		slices.Sort(got)
		const wavHeader = 44
		checkText(t, "results", fmt.Sprintf(`response c1 camera {"result":"image/jpeg 10"}
response c1 camera {"result":"image/jpeg 12"}
response c2 microphone {"result":"audio/wav %d"}
response c2 microphone {"result":"audio/wav %d"}`, wavHeader+320, wavHeader+640), strings.Join(got, "\n"))
	})
}

// TestLiveBackground: with response_scheduling the model continues while the tool runs. The
// response is stored and sent when it is there, and not yielded; an error as well.
func TestLiveBackground(t *testing.T) {
	m, calls := callsAtOnce(), &atomic.Int32{}
	report := sleepingTool("report", time.Second, calls)
	report.capabilities.Scheduling = genai.FunctionResponseSchedulingInterrupt
	failing := &testTool{name: "failing", run: func(context.Context, *tool.Call) (*tool.Result, error) {
		time.Sleep(200 * time.Millisecond)
		return nil, errors.New("no luck")
	}}
	failing.capabilities.Scheduling = genai.FunctionResponseSchedulingSilent
	testLive(t, m, liveAgent(m, report, failing, sleepingTool("plain", 0, calls)), nil, func(l *liveTest) {
		c := m.conn(1)
		c.in <- &model.LiveMessage{Calls: []*genai.FunctionCall{{ID: "c1", Name: "report"}, {ID: "c2", Name: "plain"}, {ID: "c3", Name: "failing"}}}
		l.settle(300 * time.Millisecond)
		c.speak("I am writing it")
		c.completeTurn()
		l.settle(2 * time.Second)
		checkText(t, "frames", `response c2 plain {"ok":true}
response c3 failing {"error":"no luck"}
response c1 report {"ok":true}`, c.sent())
		checkText(t, "events", `root: call report call plain call failing
root: plain→{"ok":true}
root: I am writing it (partial)
root: I am writing it
root: (complete)`, l.yielded())
		checkText(t, "stored", `root: call report call plain call failing
root: plain→{"ok":true}
root: failing→{"error":"no luck"}
root: I am writing it
root: (complete)
root: report→{"ok":true}`, l.stored())
	})
}

// TestLiveStreamsLimit: streams count against max_function_calls.
func TestLiveStreamsLimit(t *testing.T) {
	m := callsAtOnce()
	config := runtime.DefaultRunConfig()
	config.MaxFunctionCalls = 2
	watch := pollingTool("watch", &tool.Stream{Every: time.Second}, func(context.Context, *tool.Call) (*tool.Result, error) { return resultOf("on"), nil })
	testLive(t, m, liveAgent(m, watch), &runtime.AppOptions{Config: &config}, func(l *liveTest) {
		for _, id := range []string{"c1", "c2", "c3"} {
			m.conn(1).call(id, "watch", nil)
			l.settle(100 * time.Millisecond)
		}
		if got := m.conn(1).sent(); !strings.HasSuffix(got, `response c3 watch {"error":"3 function calls of agent root at the same time exceed the limit of 2 (run_config: max_function_calls)"}`) {
			t.Errorf("frames\n%s", got)
		}
	})
}
