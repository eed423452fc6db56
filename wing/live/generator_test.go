package live_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/fake/fakegemini"
	"agenthost/internal/textlive"
	"agenthost/pkg/model"
	"agenthost/wing/gemini"
	"agenthost/wing/live"
)

// generatorTest is a generator for a fake Live API, with what it has generated.
type generatorTest struct {
	*testing.T
	server *fakegemini.Server
	gen    *live.Generator
	log    []string
}

func newGeneratorTest(t *testing.T, name string, handle func(*fakegemini.LiveConn)) *generatorTest {
	server := fakegemini.New()
	t.Cleanup(server.Close)
	server.HandleLive(handle)
	llm := gemini.New(name, &gemini.Options{
		APIKey: "k", BaseURL: server.URL(), HTTP: server.Client(), Lookup: func(string) (string, bool) { return "", false },
	})
	g := live.NewGenerator(model.LiveOf(llm), func(req *model.Request) *model.LiveSetup {
		return &model.LiveSetup{Model: req.Model, Tools: req.Config.Tools, Modalities: []genai.Modality{genai.ModalityText}}
	})
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return &generatorTest{T: t, server: server, gen: g}
}

// generateAnswer generates one answer, and appends a line for each response.
func (g *generatorTest) generateAnswer(ctx context.Context, contents ...*genai.Content) *genai.Content {
	g.Helper()
	var last *genai.Content
	req := &model.Request{Contents: contents, Config: &genai.GenerateContentConfig{}, Stream: true}
	for resp, err := range g.gen.Generate(ctx, req) {
		switch {
		case err != nil:
			g.log = append(g.log, "error: "+err.Error())
		case resp.Partial:
			g.log = append(g.log, "chunk: "+model.TextOf(resp.Content))
		default:
			last = resp.Content
			text, _ := json.Marshal(last)
			g.log = append(g.log, fmt.Sprintf("whole: %s complete=%v", text, resp.TurnComplete))
		}
	}
	return last
}

func (g *generatorTest) expectLog(want ...string) {
	g.Helper()
	if !slices.Equal(g.log, want) {
		g.Errorf("got\n%s\nwant\n%s", strings.Join(g.log, "\n"), strings.Join(want, "\n"))
	}
	g.log = nil
}

// frameKinds returns the kinds of a connection's frames, with their turn counts.
func frameKinds(c *fakegemini.LiveConn) string {
	var kinds []string
	for _, f := range c.Frames() {
		for kind, value := range f {
			if content, ok := value.(map[string]any); ok && kind == "clientContent" {
				turns, _ := content["turns"].([]any)
				kind = fmt.Sprintf("%s of %d", kind, len(turns))
			}
			kinds = append(kinds, kind)
		}
	}
	return strings.Join(kinds, ", ")
}

// exchange is what the fake service sends after each client frame.
func exchange(answers ...[]string) func(*fakegemini.LiveConn) {
	return func(c *fakegemini.LiveConn) {
		if c.Accept("") != nil {
			return
		}
		for _, messages := range answers {
			if _, err := c.Receive(); err != nil {
				return
			}
			for _, m := range messages {
				if c.Send(m) != nil {
					return
				}
			}
		}
		_, _ = c.Receive() // until the client leaves
	}
}

const (
	askWeather   = `{"toolCall":{"functionCalls":[{"id":"f1","name":"lookup","args":{"city":"Rome"}}]}}`
	turnComplete = `{"serverContent":{"turnComplete":true}}`
)

func textMessage(text string) string {
	return `{"serverContent":{"modelTurn":{"parts":[{"text":` + fmt.Sprintf("%q", text) + `}]}}}`
}

func weatherResponse() *genai.Content {
	return &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{
		ID: "f1", Name: "lookup", Response: map[string]any{"sky": "clear"},
	}}}}
}

// A model that composes functions in its code continues on its call's connection, and gets only the
// response.
func TestGeneratorContinues(t *testing.T) {
	g := newGeneratorTest(t, "gemini-3.1-flash-live-preview", exchange(
		[]string{`{"serverContent":{"modelTurn":{"parts":[{"executableCode":{"language":"PYTHON","code":"lookup(city='Rome')"}}]}}}`, askWeather},
		[]string{textMessage("It is "), textMessage("clear."), turnComplete},
	))
	question := model.UserText("Weather in Rome?")
	call := g.generateAnswer(t.Context(), question)
	g.generateAnswer(t.Context(), question, call, weatherResponse())
	g.expectLog(
		`whole: {"parts":[{"executableCode":{"code":"lookup(city='Rome')","language":"PYTHON"}},{"functionCall":{"id":"f1","args":{"city":"Rome"},"name":"lookup"}}],"role":"model"} complete=false`,
		"chunk: It is ", "chunk: clear.",
		`whole: {"parts":[{"text":"It is clear."}],"role":"model"} complete=true`,
	)
	if conns := g.server.LiveConns(); len(conns) != 1 || frameKinds(conns[0]) != "setup, realtimeInput, toolResponse" {
		t.Errorf("%d connections, frames %s", len(conns), frameKinds(conns[0]))
	}
}

// A 2.x model may complete a call's turn before the response, or only with its answer: its calls
// are executed at once.
func TestGeneratorExecutesCallsAtOnce(t *testing.T) {
	answer := []string{textMessage("Clear."), turnComplete}
	for name, answers := range map[string][][]string{
		"turn that stays open":           {{askWeather}, answer},
		"turn that ends before":          {{askWeather, turnComplete}, answer},
		"turn that ends with the answer": {{askWeather}, append([]string{turnComplete}, answer...)},
		"call with the end of its turn":  {{`{"serverContent":{"turnComplete":true},` + askWeather[1:]}, answer},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGeneratorTest(t, "gemini-live-2.5-flash", exchange(answers...))
			question := model.UserText("Weather in Rome?")
			call := g.generateAnswer(t.Context(), question)
			g.log = nil // complete or not
			g.generateAnswer(t.Context(), question, call, weatherResponse())
			g.expectLog("chunk: Clear.", `whole: {"parts":[{"text":"Clear."}],"role":"model"} complete=true`)
			if conns := g.server.LiveConns(); len(conns) != 1 || len(model.CallsOf(call)) != 1 {
				t.Errorf("%d connections, call %v, want 1 connection and 1 call", len(conns), call)
			}
		})
	}
}

// A connection that ends during a call is replaced: the new one gets the call and its response
// as history. One that ends within an answer is an error, because its text was sent.
func TestGeneratorReplacesConnection(t *testing.T) {
	g := newGeneratorTest(t, "gemini-live-2.5-flash", func(c *fakegemini.LiveConn) {
		switch c.Number {
		case 1:
			exchange([]string{askWeather, turnComplete})(c)
		case 2:
			exchange([]string{textMessage("Clear."), turnComplete})(c)
		default:
			if c.Accept("") == nil {
				_, _ = c.Receive()
				_ = c.Send(textMessage("It"))
				c.Close(1011, "internal error")
			}
		}
	})
	question := model.UserText("Weather in Rome?")
	call := g.generateAnswer(t.Context(), question)
	g.server.LiveConns()[0].Close(1006, "")
	g.generateAnswer(t.Context(), question, call, weatherResponse())
	g.generateAnswer(t.Context(), question)
	g.expectLog(
		`whole: {"parts":[{"functionCall":{"id":"f1","args":{"city":"Rome"},"name":"lookup"}}],"role":"model"} complete=false`,
		"chunk: Clear.",
		`whole: {"parts":[{"text":"Clear."}],"role":"model"} complete=true`,
		"chunk: It",
		"error: model: the live connection was closed with code 1011: internal error",
	)
	if got := frameKinds(g.server.LiveConns()[1]); got != "setup, clientContent of 3" {
		t.Errorf("frames of the second connection: %s", got)
	}
}

// Speech yields the transcript's text, and a request that the service refuses its error.
func TestGeneratorSpeechAndRefusal(t *testing.T) {
	g := newGeneratorTest(t, "gemini-live-2.5-flash", func(c *fakegemini.LiveConn) {
		if c.Number > 1 {
			c.Close(1007, "Tool use is not supported.")
			return
		}
		fakegemini.EchoLive(c)
	})
	g.generateAnswer(t.Context(), model.UserText("hello"))
	g.generateAnswer(t.Context(), model.UserText("again"))
	g.expectLog(
		"chunk: You sent: hello",
		`whole: {"parts":[{"text":"You sent: hello"}],"role":"model"} complete=true`,
		"error: model: the live connection was closed with code 1007: Tool use is not supported.",
	)
}

// Canceling the caller's context ends an answer and its connection.
func TestGeneratorCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	left := make(chan struct{})
	g := newGeneratorTest(t, "gemini-live-2.5-flash", func(c *fakegemini.LiveConn) {
		defer close(left)
		if c.Accept("") != nil {
			return
		}
		_, _ = c.Receive()
		cancel()
		_, _ = c.Receive()
	})
	g.generateAnswer(ctx, model.UserText("hello"))
	<-left
	g.expectLog("error: context canceled")
}

// A model that sends nothing for some minutes fails.
func TestGeneratorSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &generatorTest{T: t, gen: live.NewGenerator(textlive.OverText(silentModel{}, nil), func(*model.Request) *model.LiveSetup { return &model.LiveSetup{} })}
		began := time.Now()
		g.generateAnswer(t.Context(), model.UserText("hello"))
		g.expectLog("error: model: the live model sent nothing for 5 minutes")
		if took := time.Since(began); took != 5*time.Minute {
			t.Errorf("it failed after %s", took)
		}
	})
}

// A silentModel never answers.
type silentModel struct{}

func (silentModel) Name() string { return "silent" }

func (silentModel) Generate(ctx context.Context, _ *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		<-ctx.Done()
		yield(nil, ctx.Err())
	}
}
