package provider

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/modelcall"
	"agenthost/internal/textlive"
	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

func newScriptedLive(t *testing.T, script string) model.LiveConn {
	t.Helper()
	n, ds := spec.Parse("s.yaml", []byte(script))
	decoded, more := DecodeScript(n)
	if err := append(ds, more...).Err(); err != nil {
		t.Fatal(err)
	}
	llm := model.LiveOf(NewScripted(decoded, &ScriptedOptions{Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}))
	conn, err := llm.ConnectLive(t.Context(), &model.LiveSetup{Modalities: []genai.Modality{genai.ModalityAudio}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// receiveTurn returns what the model sends until the turn is complete, or until it calls.
func receiveTurn(t *testing.T, conn model.LiveConn) (words, spoken string, audio int, calls []*genai.FunctionCall) {
	t.Helper()
	for {
		m, err := conn.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if m.InputTranscription != nil {
			words += m.InputTranscription.Text
		}
		if m.OutputTranscription != nil {
			spoken += m.OutputTranscription.Text
		}
		if m.Content != nil && m.Content.Parts[0].InlineData != nil {
			audio += len(m.Content.Parts[0].InlineData.Data)
		}
		if m.TurnComplete || m.Calls != nil {
			return words, spoken, audio, m.Calls
		}
	}
}

const liveScript = `
- transcript: {text: what time is it, after: 1s}
- transcript: {text: thanks}
- when: responses.clock != nil
  text: half past ten
- when: user == "what time is it"
  calls: [{name: clock}]
- text: "you are welcome: {user}"
`

// A script transcribes audio by its entries, calls a function, and speaks the answer.
func TestScriptedLive(t *testing.T) {
	conn := newScriptedLive(t, liveScript)
	send := func(f *model.LiveFrame) {
		t.Helper()
		if err := conn.Send(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	half := &genai.Blob{MIMEType: "audio/pcm;rate=16000", Data: make([]byte, 16000)}
	send(&model.LiveFrame{Blob: half})
	send(&model.LiveFrame{Blob: half})
	words, _, _, calls := receiveTurn(t, conn)
	if words != "what time is it" || len(calls) != 1 || calls[0].Name != "clock" || calls[0].ID == "" {
		t.Fatalf("words %q, calls %v", words, calls)
	}
	send(&model.LiveFrame{Responses: []*genai.FunctionResponse{{ID: calls[0].ID, Name: "clock", Response: map[string]any{"time": "10:30"}}}})
	if _, spoken, audio, _ := receiveTurn(t, conn); spoken != "half past ten" || audio != 3*11520 {
		t.Errorf("spoken %q, %d bytes of audio", spoken, audio)
	}
	send(&model.LiveFrame{Blob: half})
	send(&model.LiveFrame{AudioStreamEnd: true})
	if words, spoken, _, _ := receiveTurn(t, conn); words != "thanks" || spoken != "you are welcome: thanks" {
		t.Errorf("words %q, spoken %q", words, spoken)
	}
	send(&model.LiveFrame{Turns: []*genai.Content{model.UserText("typed")}, TurnComplete: true})
	if _, spoken, _, _ := receiveTurn(t, conn); spoken != "you are welcome: typed" {
		t.Errorf("spoken %q", spoken)
	}
}

// A transcript has no answer.
func TestScriptTranscriptErrors(t *testing.T) {
	for script, want := range map[string]string{
		"- {transcript: {text: a}, text: b}":   "s.yaml:1:16: transcript and text are mutually exclusive",
		"- {text: a, close: {code: 99}}":       "s.yaml:1:27: 99 is not a close code, must be 1000 to 4999",
		"- {calls: [{name: f}], close: {}}":    "s.yaml:1:31: close and calls are mutually exclusive: the reply is not completed",
		"- {transcript: {text: a}, close: {}}": "s.yaml:1:16: transcript and close are mutually exclusive",
		"- {times: 1}":                         "s.yaml:1:3: an entry requires text, json, calls, thought, parts, finish, close or error",
	} {
		n, _ := spec.Parse("s.yaml", []byte(script+"\n"))
		_, ds := DecodeScript(n)
		if err := ds.Err(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", script, err, want)
		}
	}
}

// An entry with close ends the connection before the reply is complete.
func TestScriptedClose(t *testing.T) {
	conn := newScriptedLive(t, "- {text: one two, close: {code: 1011, reason: overloaded}}\n")
	if err := conn.Send(t.Context(), &model.LiveFrame{Turns: []*genai.Content{model.UserText("hi")}, TurnComplete: true}); err != nil {
		t.Fatal(err)
	}
	var spoken string
	for {
		m, err := conn.Receive(t.Context())
		if err != nil {
			if want := "the live connection was closed with code 1011: overloaded"; err.Error() != want || spoken != "one two" {
				t.Errorf("spoken %q, error %q", spoken, err)
			}
			return
		}
		if m.TurnComplete {
			t.Fatal("the turn is complete")
		}
		if m.OutputTranscription != nil {
			spoken += m.OutputTranscription.Text
		}
	}
}

// A user who continues interrupts the answer; the model keeps the part that was sent.
func TestOverTextInterruption(t *testing.T) {
	speaking := make(chan struct{}, 1)
	llm := textlive.OverText(&scriptedModel{script: mustScript(t, "- {text: \"one two three: {user}\"}"), opts: ScriptedOptions{Name: "m", Wait: modelcall.WaitFor}}, &textlive.OverTextOptions{
		Speak: speakTone,
		Wait: func(ctx context.Context, _ time.Duration) error {
			select {
			case speaking <- struct{}{}:
				<-ctx.Done()
			default:
			}
			return ctx.Err()
		},
	})
	conn, err := llm.ConnectLive(t.Context(), &model.LiveSetup{Modalities: []genai.Modality{genai.ModalityAudio}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, text := range []string{"a", "b"} {
		if text == "b" {
			<-speaking
			speaking <- struct{}{} // the next answer is not held
		}
		if err := conn.Send(t.Context(), &model.LiveFrame{Turns: []*genai.Content{model.UserText(text)}, TurnComplete: true}); err != nil {
			t.Fatal(err)
		}
	}
	if _, spoken, _, _ := receiveTurn(t, conn); spoken != "one " {
		t.Errorf("spoken before the interruption: %q", spoken)
	}
	if _, spoken, _, _ := receiveTurn(t, conn); spoken != "one two three: b" {
		t.Errorf("spoken after it: %q", spoken)
	}
}

func mustScript(t *testing.T, text string) *Script {
	t.Helper()
	n, _ := spec.Parse("s.yaml", []byte(text))
	s, ds := DecodeScript(n)
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	return s
}

// The functions that a model need not wait for: it continues at once, and receives their results
// as texts. A silent one waits for the next turn; one that interrupts ends the answer.
func TestOverTextAsync(t *testing.T) {
	const script = `
- when: user startsWith "Function report"
  text: "the report: {user}"
- when: responses.report != nil and responses.report.status != nil
  text: I am working on it
- when: user == "report"
  calls: [{name: report}]
- text: "you wrote {user}"
`
	waits, waiting := make(chan struct{}, 1), make(chan struct{})
	llm := textlive.OverText(&scriptedModel{script: mustScript(t, script), opts: ScriptedOptions{Name: "m", Wait: modelcall.WaitFor}}, &textlive.OverTextOptions{
		Speak: speakTone,
		Wait: func(ctx context.Context, _ time.Duration) error {
			select {
			case <-waits:
				close(waiting)
				<-ctx.Done()
			default:
			}
			return ctx.Err()
		},
	})
	conn, err := llm.ConnectLive(t.Context(), &model.LiveSetup{
		Modalities: []genai.Modality{genai.ModalityAudio},
		Tools:      []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{Name: "report", Behavior: genai.BehaviorNonBlocking}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	write := func(text string) {
		t.Helper()
		if err := conn.Send(t.Context(), &model.LiveFrame{Turns: []*genai.Content{model.UserText(text)}, TurnComplete: true}); err != nil {
			t.Fatal(err)
		}
	}
	respond := func(id, key, v string, scheduling genai.FunctionResponseScheduling) {
		t.Helper()
		response := &genai.FunctionResponse{ID: id, Name: "report", Response: map[string]any{key: v}, Scheduling: scheduling}
		if err := conn.Send(t.Context(), &model.LiveFrame{Responses: []*genai.FunctionResponse{response}}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want string) {
		t.Helper()
		if _, spoken, _, _ := receiveTurn(t, conn); spoken != want {
			t.Errorf("spoken %q, want %q", spoken, want)
		}
	}
	write("report")
	_, _, _, calls := receiveTurn(t, conn)
	check("I am working on it")
	respond(calls[0].ID, "status", textlive.PendingStatus, "")
	respond(calls[0].ID, "is", "first", genai.FunctionResponseSchedulingSilent)
	write("hello")
	check("you wrote hello")
	respond(calls[0].ID, "is", "second", genai.FunctionResponseSchedulingWhenIdle)
	check(`the report: Function report returned: {"is":"second"}`)
	waits <- struct{}{}
	write("long story")
	<-waiting
	respond(calls[0].ID, "is", "third", genai.FunctionResponseSchedulingInterrupt)
	var spoken []string
	for range 2 {
		_, words, _, _ := receiveTurn(t, conn)
		spoken = append(spoken, words)
	}
	if got := strings.Join(spoken, "|"); !strings.HasSuffix(got, `|the report: Function report returned: {"is":"third"}`) {
		t.Errorf("spoken %q", got)
	}
}
