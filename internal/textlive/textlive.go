// Package textlive holds live conversations with models that have no live API: scripts, and models
// that generate text only.
package textlive

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/modelcall"
	"agenthost/internal/safe"
	"agenthost/pkg/model"
)

// OverTextOptions give speech to a model that generates text. The zero value has none.
type OverTextOptions struct {
	// Transcribe returns the user's words, or an empty string, when more audio arrives: the
	// duration of all audio since the last time it returned words, and whether the user has stopped
	// speaking. Nil refuses audio.
	Transcribe func(origin model.Origin, audio time.Duration, ended bool) string
	// Speak returns the audio for words, and how long to wait before what follows it. Nil answers
	// in text.
	Speak func(text string) (audio *genai.Blob, pause time.Duration)
	// Wait waits for a pause, or returns ctx's error; nil uses a timer.
	Wait func(ctx context.Context, d time.Duration) error
}

// OverText returns live conversations over a model that generates one answer for a request:
// each user turn is a call with the conversation so far, and a new one interrupts the answer
// to the last. Images belong to the next turn. opts may be nil.
func OverText(llm model.LLM, opts *OverTextOptions) model.LiveLLM {
	m := &textModel{LLM: llm}
	if opts != nil {
		m.opts = *opts
	}
	if m.opts.Wait == nil {
		m.opts.Wait = modelcall.WaitFor
	}
	return m
}

type textModel struct {
	model.LLM
	opts OverTextOptions
}

// LiveTraits returns the traits; calls are executed at once, because an answer that has
// them ends with them.
func (m *textModel) LiveTraits(string) model.LiveTraits {
	return model.LiveTraits{ExecutesCallsAtOnce: true, AnswersHistory: true, TextOnly: m.opts.Transcribe == nil}
}

// ConnectLive begins a conversation; see [model.LiveLLM]. It never fails.
func (m *textModel) ConnectLive(ctx context.Context, setup *model.LiveSetup) (model.LiveConn, error) {
	c := &textConn{model: m, setup: setup, messages: make(chan *model.LiveMessage, textMessages), pending: map[string]string{}}
	c.tools, c.async = splitAsync(setup.Tools)
	c.ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	c.speaks = m.opts.Speak != nil && slices.Contains(setup.Modalities, genai.ModalityAudio)
	return c, nil
}

// maxTextSteps bounds the model calls for one user turn.
const maxTextSteps = 100

// textMessages is how many messages wait for the receiver.
const textMessages = 64

var (
	errTextClosed  = errors.New("the live conversation is closed")
	errInterrupted = errors.New("the user interrupted the answer")
)

// The textConn of a conversation. The goroutine of an answer owns the model's side.
type textConn struct {
	model  *textModel
	setup  *model.LiveSetup
	speaks bool
	// tools are the setup's without the marks of async, the names of the functions that the
	// model need not wait for.
	tools  []*genai.Tool
	async  map[string]bool
	ctx    context.Context
	cancel context.CancelCauseFunc

	messages chan *model.LiveMessage

	// The rest is for the sending goroutine, and for an answer's goroutine while one runs: the
	// sending goroutine waits for its end before it changes anything.
	contents []*genai.Content
	images   []*genai.Part
	audio    time.Duration
	steps    int
	turns    int
	begun    bool // a turn has arrived
	userText string

	mu sync.Mutex
	// pending are the names of calls without a response by id, responses are the responses that
	// have arrived.
	pending   map[string]string
	responses []*genai.Part
	answer    *textAnswer
	// notes are responses from functions that the model did not wait for. The model receives them
	// when it is idle.
	notes []lateResponse
}

// A lateResponse is what the model receives as a user message, because its call already has one. It
// answers a note that is not silent.
type lateResponse struct {
	text   string
	silent bool
}

// splitAsync returns the tools without [genai.BehaviorNonBlocking], which other requests refuse,
// and the names of functions that have it.
func splitAsync(tools []*genai.Tool) ([]*genai.Tool, map[string]bool) {
	async := map[string]bool{}
	plain := make([]*genai.Tool, len(tools))
	for i, t := range tools {
		with := *t
		with.FunctionDeclarations = slices.Clone(t.FunctionDeclarations)
		for j, d := range with.FunctionDeclarations {
			if d.Behavior == genai.BehaviorNonBlocking {
				async[d.Name] = true
				one := *d
				one.Behavior = ""
				with.FunctionDeclarations[j] = &one
			}
		}
		plain[i] = &with
	}
	return plain, async
}

// A textAnswer is an answer in progress.
type textAnswer struct {
	interrupt context.CancelCauseFunc
	done      chan struct{}
}

// SessionID returns an empty string.
func (c *textConn) SessionID() string { return "" }

// Send sends a frame; see [model.LiveConn].
func (c *textConn) Send(_ context.Context, f *model.LiveFrame) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	switch {
	case len(f.Responses) > 0:
		c.addResponses(f.Responses)
	case f.Text != "":
		c.beginTurn([]*genai.Content{model.UserText(f.Text)}, true)
	case len(f.Turns) > 0:
		c.beginTurn(f.Turns, f.TurnComplete)
	case f.Blob != nil && strings.HasPrefix(f.Blob.MIMEType, "audio/"):
		c.receiveAudio(PCMDuration(f.Blob), false)
	case f.Blob != nil:
		c.images = []*genai.Part{{InlineData: f.Blob}} // the newest one counts
	case f.ActivityEnd, f.AudioStreamEnd:
		c.receiveAudio(0, true)
	}
	return nil
}

// receiveAudio adds audio, and begins a turn when there is a transcript.
func (c *textConn) receiveAudio(d time.Duration, ended bool) {
	if c.model.opts.Transcribe == nil {
		return
	}
	c.audio += d
	text := c.model.opts.Transcribe(c.setup.Origin, c.audio, ended)
	if text == "" {
		return
	}
	c.audio = 0
	c.interruptAnswer()
	c.sendMessage(&model.LiveMessage{InputTranscription: &genai.Transcription{Text: text, Finished: true}})
	c.beginTurn([]*genai.Content{model.UserText(text)}, true)
}

// beginTurn adds contents, and answers them if the turn is complete.
func (c *textConn) beginTurn(turns []*genai.Content, complete bool) {
	c.interruptAnswer()
	c.cancelCalls()
	c.addNotes()
	c.contents = append(c.contents, turns...)
	last := turns[len(turns)-1]
	isHistory := !c.begun && c.setup.History != nil && c.setup.History.InitialHistoryInClientContent
	c.begun = true
	switch {
	case isHistory:
		c.userText = c.setup.Origin.UserText
	case last.Role == genai.RoleUser && model.TextOf(last) != "":
		c.userText, c.steps = model.TextOf(last), 0
		c.turns++
	}
	if !complete || isHistory && last.Role != genai.RoleUser {
		return
	}
	if len(c.images) > 0 {
		c.contents = append(c.contents, &genai.Content{Role: genai.RoleUser, Parts: c.images})
		c.images = nil
	}
	c.startAnswer()
}

// addResponses adds responses, and continues the answer when all calls have one.
func (c *textConn) addResponses(all []*genai.FunctionResponse) {
	c.mu.Lock()
	interrupts, speaks := false, false
	for _, r := range all {
		if _, waits := c.pending[r.ID]; waits && (r.WillContinue == nil || !*r.WillContinue) {
			delete(c.pending, r.ID)
			c.responses = append(c.responses, &genai.Part{FunctionResponse: r})
		} else if c.async[r.Name] && !isPendingStatus(r) {
			note := newLateResponse(r)
			c.notes = append(c.notes, note)
			interrupts = interrupts || r.Scheduling == genai.FunctionResponseSchedulingInterrupt
			speaks = speaks || !note.silent
		}
	}
	complete := len(c.pending) == 0 && len(c.responses) > 0 && c.answer == nil
	notes := speaks && len(c.pending) == 0 && (interrupts || c.answer == nil)
	c.mu.Unlock()
	if complete || notes {
		c.interruptAnswer()
		c.startAnswer()
	}
}

// PendingStatus is the response to a call whose results follow later (adk-python
// flows/llm_flows/functions.py).
const PendingStatus = "The function is running asynchronously and the results are pending."

func isPendingStatus(r *genai.FunctionResponse) bool { return r.Response["status"] == PendingStatus }

func newLateResponse(r *genai.FunctionResponse) lateResponse {
	text, err := json.Marshal(r.Response)
	if err != nil {
		text = []byte("{}")
	}
	return lateResponse{"Function " + r.Name + " returned: " + string(text), r.Scheduling == genai.FunctionResponseSchedulingSilent}
}

// addNotes adds the responses that have arrived, and the notes, to the conversation.
func (c *textConn) addNotes() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) > 0 {
		return
	}
	if len(c.responses) > 0 {
		c.contents = append(c.contents, &genai.Content{Role: genai.RoleUser, Parts: c.responses})
		c.responses = nil
	}
	for _, note := range c.notes {
		c.contents = append(c.contents, model.UserText(note.text))
		if !note.silent {
			c.userText, c.steps = note.text, 0
			c.turns++
		}
	}
	c.notes = nil
}

// cancelCalls answers the calls that are still running: models require a response to each.
func (c *textConn) cancelCalls() {
	c.mu.Lock()
	answers := c.responses
	var ids []string
	for id, name := range c.pending {
		ids = append(ids, id)
		answers = append(answers, &genai.Part{FunctionResponse: &genai.FunctionResponse{
			ID: id, Name: name, Response: map[string]any{"error": "canceled: the user continued before the response"},
		}})
	}
	c.responses = nil
	clear(c.pending)
	c.mu.Unlock()
	if len(answers) > 0 {
		c.contents = append(c.contents, &genai.Content{Role: genai.RoleUser, Parts: answers})
	}
	if len(ids) > 0 {
		c.sendMessage(&model.LiveMessage{CanceledCalls: ids})
	}
}

// interruptAnswer ends the answer in progress, and waits for its last message.
func (c *textConn) interruptAnswer() {
	c.mu.Lock()
	a := c.answer
	c.answer = nil
	c.mu.Unlock()
	if a != nil {
		a.interrupt(errInterrupted)
		<-a.done
	}
}

// startAnswer generates an answer in a separate goroutine.
func (c *textConn) startAnswer() {
	ctx, interrupt := context.WithCancelCause(c.ctx)
	a := &textAnswer{interrupt, make(chan struct{})}
	c.mu.Lock()
	c.answer = a
	c.mu.Unlock()
	go func() {
		defer close(a.done)
		defer interrupt(nil)
		defer safe.Recover(func(p *safe.Panic) { c.cancel(&model.Error{Message: "model " + c.model.Name() + " panicked", Err: p}) })
		for c.addNotes(); ; c.addNotes() {
			c.generateAnswer(ctx)
			if c.isAnswered(a) || ctx.Err() != nil {
				return
			}
		}
	}()
}

// isAnswered reports whether the answer is over: the model waits for responses, or no note
// has arrived meanwhile.
func (c *textConn) isAnswered(a *textAnswer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	spoken := slices.ContainsFunc(c.notes, func(n lateResponse) bool { return !n.silent })
	if len(c.pending) == 0 && (len(c.responses) > 0 || spoken) && c.ctx.Err() == nil {
		return false
	}
	if c.answer == a {
		c.answer = nil
	}
	return true
}

// generateAnswer calls the model and sends what it answers.
func (c *textConn) generateAnswer(ctx context.Context) {
	if c.steps++; c.steps > maxTextSteps {
		c.cancel(fmt.Errorf("model %s called functions %d times in a row without an answer", c.model.Name(), maxTextSteps))
		return
	}
	origin := c.setup.Origin
	origin.UserText, origin.Step, origin.Turn = c.userText, c.steps-1, max(c.turns, origin.Turn)
	req := &model.Request{
		Model: c.setup.Model, Contents: slices.Clone(c.contents), Stream: true, Origin: origin,
		Config: &genai.GenerateContentConfig{
			SystemInstruction: c.setup.SystemInstruction, Tools: c.tools, ThinkingConfig: c.setup.Thinking,
		},
	}
	var sent strings.Builder
	complete := false
	for resp, err := range c.model.Generate(ctx, req) {
		if err == nil && resp.ErrorCode != "" {
			err = &model.Error{Status: resp.ErrorCode, Message: resp.ErrorMessage}
		}
		if err == nil {
			err = c.sendAnswer(ctx, resp, &sent)
		}
		if err == nil {
			complete = complete || !resp.Partial
			continue
		}
		if ctx.Err() == nil {
			c.cancel(err)
		} else if !complete && errors.Is(context.Cause(ctx), errInterrupted) {
			c.recordInterrupted(sent.String())
		}
		return
	}
}

// sendAnswer sends a model response. The last one has the whole content.
func (c *textConn) sendAnswer(ctx context.Context, resp *model.Response, sent *strings.Builder) error {
	if text := model.TextOf(resp.Content); text != "" && (resp.Partial || sent.Len() == 0) {
		sent.WriteString(text)
		if err := c.sendText(ctx, text); err != nil {
			return err
		}
	}
	if resp.Partial {
		return nil
	}
	if resp.Content != nil && len(resp.Content.Parts) > 0 {
		c.contents = append(c.contents, resp.Content)
	}
	calls := model.CallsOf(resp.Content)
	last := &model.LiveMessage{Usage: resp.UsageMetadata, CustomMetadata: resp.CustomMetadata, Grounding: resp.GroundingMetadata}
	if len(calls) > 0 {
		calls = c.expectResponses(calls)
		last.Calls = calls
	} else {
		last.GenerationComplete, last.TurnComplete = true, true
	}
	return c.sendMessageWithin(ctx, last)
}

// expectResponses gives each call an id and waits for its response.
func (c *textConn) expectResponses(calls []*genai.FunctionCall) []*genai.FunctionCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.responses = nil
	clear(c.pending)
	for _, call := range calls {
		if call.ID == "" {
			call.ID = "call-" + rand.Text()
		}
		if c.async[call.Name] { // its responses are notes
			c.responses = append(c.responses, &genai.Part{FunctionResponse: &genai.FunctionResponse{
				ID: call.ID, Name: call.Name, Response: map[string]any{"status": PendingStatus},
			}})
			continue
		}
		c.pending[call.ID] = call.Name
	}
	return calls
}

// sendText sends an answer chunk, as text or as speech with its transcript.
func (c *textConn) sendText(ctx context.Context, text string) error {
	if !c.speaks {
		return c.sendMessageWithin(ctx, &model.LiveMessage{Content: model.ModelText(text)})
	}
	for word := range strings.SplitAfterSeq(text, " ") {
		if word == "" {
			continue
		}
		audio, pause := c.model.opts.Speak(word)
		err := c.sendMessageWithin(ctx, &model.LiveMessage{
			Content:             &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{InlineData: audio}}},
			OutputTranscription: &genai.Transcription{Text: word},
		})
		if err == nil {
			err = c.model.opts.Wait(ctx, pause)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// recordInterrupted ends an answer that the user interrupted: the model keeps the part
// that was sent.
func (c *textConn) recordInterrupted(sent string) {
	if sent != "" {
		c.contents = append(c.contents, model.ModelText(sent))
	}
	c.sendMessage(&model.LiveMessage{Interrupted: true})
	c.sendMessage(&model.LiveMessage{TurnComplete: true})
}

func (c *textConn) sendMessage(m *model.LiveMessage) { _ = c.sendMessageWithin(c.ctx, m) } // the end is reported by Receive

func (c *textConn) sendMessageWithin(ctx context.Context, m *model.LiveMessage) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	select {
	case c.messages <- m:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Receive returns the next message; see [model.LiveConn].
func (c *textConn) Receive(ctx context.Context) (*model.LiveMessage, error) {
	select {
	case m := <-c.messages:
		return m, nil
	default:
	}
	select {
	case m := <-c.messages:
		return m, nil
	case <-c.ctx.Done():
		return nil, context.Cause(c.ctx)
	case <-ctx.Done():
		c.cancel(context.Cause(ctx))
		return nil, context.Cause(ctx)
	}
}

// Close ends the conversation and the answer in progress; see [model.LiveConn].
func (c *textConn) Close() error {
	c.cancel(errTextClosed)
	return nil
}
