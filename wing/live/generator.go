package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/safe"
	"agenthost/pkg/model"
)

// A Generator generates one agent's answers over live connections: the opposite of
// [textlive.OverText]. The connection stays open while the agent executes calls, so that a model
// that composes functions in its own code continues with their results. A request that does not
// answer the model's calls begins a new connection. Every model's calls are executed at once,
// because some models complete a call's turn before its response and others only with their answer.
// It is for one goroutine. Close it after use.
type Generator struct {
	llm   model.LiveLLM
	setup func(*model.Request) *model.LiveSetup
	conn  *readConn
	// receiver has what the connection has sent for an answer.
	receiver *Receiver
	// pending are the call IDs that the model waits for.
	pending []string
	// endsTurns reports that the model may complete a call's turn before its response, and turnOpen
	// that it may still do so.
	endsTurns, turnOpen bool
}

var _ model.LLM = (*Generator)(nil)

// NewGenerator returns a generator without a connection. setup returns the connection's setup for a
// request; the generator sets its history.
func NewGenerator(llm model.LiveLLM, setup func(*model.Request) *model.LiveSetup) *Generator {
	return &Generator{llm: llm, setup: setup}
}

// Name returns the model's name.
func (g *Generator) Name() string { return g.llm.Name() }

// Generate generates one answer; see [model.LLM]. Speech becomes its transcript, without the audio.
// A connection that ends between a call and the answer is replaced.
func (g *Generator) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		a := &liveAnswer{stream: req.Stream, yield: yield}
		continued, err := g.sendResponses(ctx, req.Contents), error(nil)
		if continued {
			err = g.receiveAnswer(ctx, a)
		}
		var end *model.LiveCloseError
		if !continued || errors.As(err, &end) && !a.begun {
			if err = g.connectModel(ctx, req); err == nil {
				err = g.receiveAnswer(ctx, a)
			}
		}
		if err != nil || a.stopped {
			_ = g.Close() // the answer is over
		}
		if canceled := ctx.Err(); err != nil && canceled != nil { // the connection may have ended first
			err = canceled
		}
		if errors.As(err, &end) { // the connection ended during the answer
			err = &model.Error{Message: err.Error(), Err: err}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// sendResponses sends the responses that the model waits for, and returns whether it has
// them.
func (g *Generator) sendResponses(ctx context.Context, contents []*genai.Content) bool {
	if len(g.pending) == 0 || len(contents) == 0 {
		return false
	}
	last := contents[len(contents)-1]
	var all []*genai.FunctionResponse
	for _, p := range last.Parts {
		if p.FunctionResponse == nil || !slices.Contains(g.pending, p.FunctionResponse.ID) {
			return false
		}
		all = append(all, p.FunctionResponse)
	}
	if len(all) != len(g.pending) {
		return false
	}
	g.pending = nil
	return g.conn.Send(ctx, &model.LiveFrame{Responses: all}) == nil
}

// connectModel opens a connection, and sends it the conversation.
func (g *Generator) connectModel(ctx context.Context, req *model.Request) error {
	_ = g.Close() // its answers are complete
	setup, traits := g.setup(req), g.llm.LiveTraits(req.Model)
	g.endsTurns, g.turnOpen = !traits.ExecutesCallsAtOnce, false
	traits.ExecutesCallsAtOnce = true
	history, question := req.Contents, ""
	if traits.RealtimeText && len(history) > 0 {
		// The model accepts text only as speech: it answers the last text if that is the user's, and else
		// continues.
		question = ContinueText
		last := history[len(history)-1]
		if text := model.TextOf(last); last.Role == genai.RoleUser && text != "" && len(last.Parts) <= 1 {
			history, question = history[:len(history)-1], text
		}
		setup.History = &genai.HistoryConfig{InitialHistoryInClientContent: true}
		if len(history) == 0 {
			setup.History = nil
		}
	}
	conn, err := g.llm.ConnectLive(ctx, setup)
	if err != nil {
		return err
	}
	g.conn = startReading(ctx, conn)
	g.receiver = NewReceiver(traits, cmp.Or(req.Model, g.llm.Name()), conn.SessionID())
	if len(history) > 0 {
		err = conn.Send(ctx, &model.LiveFrame{Turns: history, TurnComplete: true})
	}
	if err == nil && question != "" {
		err = conn.Send(ctx, &model.LiveFrame{Text: question})
	}
	return err
}

// ContinueText asks a model to answer another connection's history. It is not stored.
const ContinueText = "Continue the conversation: answer the user."

// maxAnswerBytes and maxAnswerParts bound an answer whose turn the model never completes.
const (
	maxAnswerBytes = 16 << 20
	maxAnswerParts = 10_000
)

// receiveAnswer receives messages until the model has answered or waits for responses.
func (g *Generator) receiveAnswer(ctx context.Context, a *liveAnswer) error {
	for {
		m, err := g.conn.nextMessage(ctx)
		if err != nil {
			return err
		}
		for _, resp := range g.receiver.Receive(m) {
			if g.turnOpen && resp.TurnComplete && a.isEmpty() {
				g.turnOpen = false // the calls' turn ends
				continue
			}
			if !a.addResponse(resp) {
				return nil
			}
		}
		if a.bytes > maxAnswerBytes || len(a.whole.Parts) > maxAnswerParts {
			return &model.Error{Message: fmt.Sprintf("the live model sent more than %d parts or %d MiB without completing its turn", maxAnswerParts, maxAnswerBytes>>20)}
		}
		if a.ended || a.calls != nil {
			g.pending = idsOf(a.calls)
			g.turnOpen = !a.ended && g.endsTurns
			a.completeAnswer()
			return nil
		}
	}
}

// idsOf returns the calls' IDs; nil if one has none, because its response could not name it.
func idsOf(calls []*genai.FunctionCall) []string {
	ids := make([]string, 0, len(calls))
	for _, c := range calls {
		if c.ID == "" {
			return nil
		}
		ids = append(ids, c.ID)
	}
	return ids
}

// Close ends the connection, if there is one.
func (g *Generator) Close() error {
	if g.conn == nil {
		return nil
	}
	conn := g.conn
	g.conn, g.receiver, g.pending = nil, nil, nil
	return conn.Close()
}

// A readConn is a connection that is read also while the agent executes calls: its peer
// expects answers to pings.
type readConn struct {
	model.LiveConn
	stop     context.CancelCauseFunc
	messages chan *model.LiveMessage
	// err is why the connection ended, once messages is closed.
	err error
}

// readAhead is how many messages wait for the next answer.
const readAhead = 64

var errAnswerOver = errors.New("the answer's live connection is closed")

// startReading reads the connection in a goroutine, until it ends or is closed.
func startReading(ctx context.Context, conn model.LiveConn) *readConn {
	ctx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	c := &readConn{LiveConn: conn, stop: stop, messages: make(chan *model.LiveMessage, readAhead)}
	go func() {
		defer close(c.messages)
		defer safe.Recover(func(p *safe.Panic) { c.err = &model.Error{Message: "the live model panicked", Err: p} })
		for {
			m, err := conn.Receive(ctx)
			if err != nil {
				c.err = err
				return
			}
			select {
			case c.messages <- m:
			case <-ctx.Done():
				c.err = context.Cause(ctx)
				return
			}
		}
	}()
	return c
}

// maxSilence is how long a model may send nothing while it answers.
const maxSilence = 5 * time.Minute

var errSilent = &model.Error{Status: "DEADLINE_EXCEEDED", Message: "the live model sent nothing for 5 minutes"}

// nextMessage returns the next message, or the error that ended the connection.
func (c *readConn) nextMessage(ctx context.Context) (*model.LiveMessage, error) {
	silence := time.NewTimer(maxSilence)
	defer silence.Stop()
	select {
	case <-silence.C:
		return nil, errSilent
	case m, open := <-c.messages:
		if !open {
			return nil, c.err
		}
		return m, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close ends the connection, and waits for the goroutine.
func (c *readConn) Close() error {
	c.stop(errAnswerOver)
	err := c.LiveConn.Close()
	for open := true; open; {
		_, open = <-c.messages
	}
	return err
}

// A liveAnswer collects the responses of one answer.
type liveAnswer struct {
	stream bool
	yield  func(*model.Response, error) bool

	whole genai.Content
	last  model.Response
	calls []*genai.FunctionCall
	bytes int
	// begun reports that a part was yielded, ended that the turn is complete, and stopped
	// that the consumer takes no more.
	begun, ended, stopped bool
}

// addResponse adds a response, and yields its parts when streaming. It returns false when the
// consumer has stopped.
func (a *liveAnswer) addResponse(resp *model.Response) bool {
	if resp.UsageMetadata != nil {
		a.last.UsageMetadata, a.last.CustomMetadata = resp.UsageMetadata, resp.CustomMetadata
	}
	if resp.ModelVersion != "" {
		a.last.ModelVersion = resp.ModelVersion
	}
	if g := resp.GroundingMetadata; g != nil && !reflect.ValueOf(*g).IsZero() {
		a.last.GroundingMetadata = resp.GroundingMetadata
	}
	if resp.TurnCompleteReason != "" {
		a.last.TurnCompleteReason = resp.TurnCompleteReason
	}
	a.last.Interrupted = a.last.Interrupted || resp.Interrupted
	a.ended = a.ended || resp.TurnComplete
	content := textContentOf(resp)
	if content == nil {
		return true
	}
	if resp.Partial && !a.stream {
		return true
	}
	if resp.Partial {
		a.begun = true
		a.stopped = !a.yield(&model.Response{Content: content, Partial: true, ModelVersion: a.last.ModelVersion}, nil)
		return !a.stopped
	}
	for _, p := range content.Parts {
		a.bytes += len(p.Text)
		if p.FunctionCall != nil {
			a.calls = append(a.calls, p.FunctionCall)
		}
	}
	a.whole.Parts = append(a.whole.Parts, content.Parts...)
	return true
}

// textContentOf returns a response's content without audio, which transcripts replace; nil if there
// is none.
func textContentOf(resp *model.Response) *genai.Content {
	if t := resp.OutputTranscription; t != nil && t.Text != "" {
		return model.ModelText(t.Text)
	}
	if resp.Content == nil {
		return nil
	}
	isAudio := func(p *genai.Part) bool { return p.InlineData != nil }
	if !slices.ContainsFunc(resp.Content.Parts, isAudio) {
		return resp.Content
	}
	kept := slices.DeleteFunc(slices.Clone(resp.Content.Parts), isAudio)
	if len(kept) == 0 {
		return nil
	}
	return &genai.Content{Role: resp.Content.Role, Parts: kept}
}

// isEmpty reports whether no part of the answer has arrived.
func (a *liveAnswer) isEmpty() bool { return !a.begun && len(a.whole.Parts) == 0 }

// completeAnswer yields the complete response.
func (a *liveAnswer) completeAnswer() {
	whole := a.last
	whole.TurnComplete = a.ended
	if len(a.whole.Parts) > 0 {
		whole.Content = &genai.Content{Role: genai.RoleModel, Parts: a.whole.Parts}
	}
	if a.ended && len(a.calls) == 0 {
		whole.FinishReason = genai.FinishReasonStop
	}
	a.stopped = !a.yield(&whole, nil)
}
