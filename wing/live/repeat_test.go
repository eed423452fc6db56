package live_test

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
	"agenthost/wing/live"
)

var errLiveDropped = &model.LiveCloseError{Code: live.CloseAbnormal}

func transcriptOf(text string) *model.LiveMessage {
	return &model.LiveMessage{OutputTranscription: &genai.Transcription{Text: text}}
}

// TestLiveDropAfterGeneration: an answer that was generated completely is not generated again
// when the connection ends before the turn does, and the turn ends.
func TestLiveDropAfterGeneration(t *testing.T) {
	m := &liveModel{}
	testLive(t, m, liveAgent(m), withResumption(), func(l *liveTest) {
		m.conn(1).giveHandle("h1")
		synctest.Wait()
		l.speak("hi")
		m.conn(1).in <- transcriptOf("Hello.")
		m.conn(1).in <- &model.LiveMessage{GenerationComplete: true}
		synctest.Wait()
		m.conn(1).drop(errLiveDropped, false)
		l.settle(time.Second)
		checkText(t, "frames", "", m.conn(2).sent())
		events := l.storedEvents()
		if last := events[len(events)-1]; !last.TurnComplete || last.Interrupted {
			t.Errorf("last event %+v, want the end of the turn", last.Response)
		}
	})
}

// TestLiveDropBeforeResponseIsAnswered: a model whose calls complete a turn has not answered
// the text before it has answered their responses: both are sent again, in their order.
func TestLiveDropBeforeResponseIsAnswered(t *testing.T) {
	m := &liveModel{}
	testLive(t, m, liveAgent(m, keyTool(new([]string))), withResumption(), func(l *liveTest) {
		m.conn(1).giveHandle("h1")
		synctest.Wait()
		l.speak("book it")
		m.conn(1).call("c1", "book", nil)
		m.conn(1).completeTurn()
		l.settle(time.Second)
		m.conn(1).drop(errLiveDropped, false)
		l.settle(time.Second)
		checkText(t, "frames", "user: book it; complete=true\nresponse c1 book {\"ok\":true}", m.conn(2).sent())
		m.conn(2).call("c1", "book", nil)
		m.conn(2).completeTurn()
		m.conn(2).in <- transcriptOf("Booked.")
		m.conn(2).completeTurn()
		l.settle(time.Second)
		m.conn(2).drop(errLiveDropped, false)
		l.settle(time.Second)
		checkText(t, "frames of the third connection", "", m.conn(3).sent())
	})
}

// keyTool is a tool that records its calls' idempotency keys.
func keyTool(keys *[]string) tool.Tool {
	return &testTool{name: "book", run: func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		*keys = append(*keys, c.IdempotencyKey)
		return &tool.Result{Response: map[string]any{"ok": true}}, nil
	}}
}

// storeLater copies events into the ended run, as if it had been killed after them.
func (l *liveTest) storeLater(events []*session.Event) {
	l.Helper()
	for i, ev := range events {
		later := *ev
		later.InvocationID, later.Author, later.ID = l.storedEvents()[0].InvocationID, "root", fmt.Sprint("later-", i)
		l.storeEvent(&later)
	}
}

func (l *liveTest) storeEvent(ev *session.Event) {
	l.Helper()
	sess, err := l.env.Store.Sessions.Get(l.Context(), l.key, nil)
	if err == nil {
		err = l.env.Store.Sessions.Append(l.Context(), sess, ev)
	}
	if err != nil {
		l.Fatal(err)
	}
}

// runKilled holds a conversation whose run ends after text input, stores more events for that run,
// and starts the next run, which resumes the handle from before the text.
func runKilled(t *testing.T, m *liveModel, book tool.Tool, more ...*session.Event) *liveTest {
	config := runtime.DefaultRunConfig()
	config.SessionResumption = &genai.SessionResumptionConfig{Handle: live.LatestHandle}
	l := runLive(t, m, liveAgent(m, book), &runtime.AppOptions{Config: &config})
	l.speak("book it")
	m.conn(1).giveHandle("h1")
	synctest.Wait()
	l.cancel()
	<-l.ended
	l.storeLater(more)
	again := &liveTest{T: t, env: l.env, key: l.key, ended: make(chan struct{}), queue: live.NewQueue()}
	again.start()
	return again
}

func partEvent(part *genai.Part) *session.Event {
	ev := &session.Event{}
	ev.Content = &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{part}}
	return ev
}

// TestLiveRepeatedCallOfKilledRun: a killed run's call runs with the first attempt's key when the
// model repeats it, and is stored once. Its response, if it is stored, is sent instead.
func TestLiveRepeatedCallOfKilledRun(t *testing.T) {
	call := &genai.Part{FunctionCall: &genai.FunctionCall{ID: "c1", Name: "book"}}
	response := &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: "c1", Name: "book", Response: map[string]any{"first": true}}}
	for _, c := range []struct {
		name   string
		events []*session.Event
		frame  string
		runs   int
	}{
		{"no response", []*session.Event{partEvent(call)}, `response c1 book {"ok":true}`, 1},
		{"response", []*session.Event{partEvent(call), partEvent(response)}, `response c1 book {"first":true}`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, keys := callsAtOnce(), []string{}
				l := runKilled(t, m, keyTool(&keys), c.events...)
				m.conn(2).call("c1", "book", nil)
				l.settle(time.Second)
				checkText(t, "frames", "user: book it; complete=true\n"+c.frame, m.conn(2).sent())
				calls := 0
				for _, ev := range l.storedEvents() {
					calls += len(ev.Calls())
				}
				if calls != 1 {
					t.Errorf("the call is stored %d times", calls)
				}
				if want := l.storedEvents()[0].InvocationID + "/c1"; len(keys) != c.runs || c.runs > 0 && keys[0] != want {
					t.Errorf("keys %q, want %d of %s", keys, c.runs, want)
				}
				l.stop()
			})
		})
	}
}

// TestLiveResumeAfterAnswer: the next run sends text again if its turn only ended with a call, but
// not if it was answered, even if its turn's end is not stored.
func TestLiveResumeAfterAnswer(t *testing.T) {
	answer := &session.Event{}
	answer.OutputTranscription = &genai.Transcription{Text: "Booked.", Finished: true}
	end := &session.Event{}
	end.TurnComplete = true
	call := partEvent(&genai.Part{FunctionCall: &genai.FunctionCall{ID: "c1", Name: "book"}})
	response := partEvent(&genai.Part{FunctionResponse: &genai.FunctionResponse{ID: "c1", Name: "book"}})
	for _, c := range []struct {
		name, frames string
		events       []*session.Event
	}{
		{"not answered", "user: book it; complete=true", nil},
		{"answered", "", []*session.Event{answer}},
		{"called", "user: book it; complete=true", []*session.Event{call, response, end}},
		{"called and answered", "", []*session.Event{call, response, end, answer}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &liveModel{}
				l := runKilled(t, m, keyTool(new([]string)), c.events...)
				checkText(t, "frames", c.frames, m.conn(2).sent())
				l.stop()
			})
		})
	}
}

// TestLiveResumeTwice: a run that only stored the answer, without an end, counts: the run after it
// does not send the text again. One that only stored the user's text counts as well.
func TestLiveResumeTwice(t *testing.T) {
	answer := &session.Event{}
	answer.OutputTranscription = &genai.Transcription{Text: "Booked.", Finished: true}
	more := &session.Event{Author: session.UserAuthor}
	more.Content = model.UserText("and one more")
	for name, c := range map[string]struct {
		event  *session.Event
		frames string
	}{
		"answered": {answer, ""},
		"texts":    {more, "user: book it; complete=true\nuser: and one more; complete=true"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &liveModel{}
				l := runKilled(t, m, keyTool(new([]string)))
				l.cancel()
				<-l.ended
				ev := *c.event
				ev.ID, ev.InvocationID, ev.Author = "second", "second-run", cmp.Or(ev.Author, "root")
				l.storeEvent(&ev)
				again := &liveTest{T: t, env: l.env, key: l.key, ended: make(chan struct{}), queue: live.NewQueue()}
				again.start()
				checkText(t, "frames", c.frames, m.conn(3).sent())
				again.stop()
			})
		})
	}
}

// TestLiveReplayedSpeech: a transcript whose audio is sent again is stored once, and also if the
// audio is not sent again after all.
func TestLiveReplayedSpeech(t *testing.T) {
	for name, refused := range map[string]bool{"resumed": false, "handle refused": true} {
		t.Run(name, func(t *testing.T) {
			m := &liveModel{traits: model.LiveTraits{CanReplay: true}}
			m.refuse = func(attempt int, _ *model.LiveSetup) error {
				if refused && attempt == 2 {
					return &model.LiveCloseError{Code: live.ClosePolicy}
				}
				return nil
			}
			testLive(t, m, liveAgent(m), withResumption(), func(l *liveTest) {
				m.conn(1).giveHandle("h1")
				synctest.Wait()
				l.send(&live.Request{Blob: &genai.Blob{MIMEType: "audio/pcm;rate=16000", Data: make([]byte, 2)}})
				chunk := &model.LiveMessage{InputTranscription: &genai.Transcription{Text: "hello"}}
				m.conn(1).in <- chunk
				synctest.Wait()
				m.conn(1).drop(errLiveDropped, false)
				l.settle(time.Second)
				if !refused {
					m.conn(2).in <- chunk
					m.conn(2).completeTurn()
					synctest.Wait()
				}
				spoken := 0
				for _, ev := range l.storedEvents() {
					if ev.InputTranscription != nil {
						spoken++
					}
				}
				if spoken != 1 {
					t.Errorf("the transcript is stored %d times", spoken)
				}
			})
		})
	}
}

// TestLiveRefusedReplay: a service that accepts a handle, and then refuses what is sent again, gets
// a new conversation; the run does not end.
func TestLiveRefusedReplay(t *testing.T) {
	m := &liveModel{}
	testLive(t, m, liveAgent(m), withResumption(), func(l *liveTest) {
		m.conn(1).giveHandle("h1")
		synctest.Wait()
		l.speak("hi")
		m.conn(1).drop(errLiveDropped, false)
		l.settle(time.Second)
		m.conn(2).drop(&model.LiveCloseError{Code: live.ClosePolicy, Reason: "unknown function call c1"}, false)
		l.settle(time.Second)
		if got := m.connections(); got != 3 {
			t.Fatalf("%d connections, want 3\n%s", got, l.yielded())
		}
		checkText(t, "frames", "user: hi; complete=true\nuser: Continue the conversation: answer the user.; complete=true", m.conn(3).sent())
		m.conn(3).drop(&model.LiveCloseError{Code: live.ClosePolicy}, false)
		l.settle(time.Second)
		if got := l.yielded(); !strings.Contains(got, "error: ") {
			t.Errorf("the run continued after a new conversation was refused:\n%s", got)
		}
	})
}

// TestLiveResponseToLostCall: a response to a call is not sent to a state that does not have the
// call, because its connection ended before the next handle.
func TestLiveResponseToLostCall(t *testing.T) {
	call := partEvent(&genai.Part{FunctionCall: &genai.FunctionCall{ID: "c1", Name: "book"}})
	call.LiveSessionID = "lost"
	handle := &session.Event{}
	handle.LiveSessionID, handle.Resumption = "next", &model.LiveResumption{NewHandle: "h2", Resumable: true}
	response := partEvent(&genai.Part{FunctionResponse: &genai.FunctionResponse{ID: "c1", Name: "book", Response: map[string]any{"first": true}}})
	synctest.Test(t, func(t *testing.T) {
		m := callsAtOnce()
		l := runKilled(t, m, keyTool(new([]string)), call, handle, response)
		checkText(t, "frames", "user: book it; complete=true", m.conn(2).sent())
		m.conn(2).call("c1", "book", nil)
		l.settle(time.Second)
		checkText(t, "frames after the call", "user: book it; complete=true\n"+`response c1 book {"first":true}`, m.conn(2).sent())
		l.stop()
	})
}
