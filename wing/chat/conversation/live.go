package conversation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/command"
	"agenthost/internal/safe"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/wing/chat"
)

// A liveConversation is a live conversation in the terminal: lines can be written while the agent
// answers, and interrupt it. Lines that do not come from a terminal wait until the answer ends.
type liveConversation struct {
	*Conversation
	prompt string
	// run and its events are nil while there is none.
	run    *LiveRun
	events chan liveEvent
	// answering reports that the agent is about to answer, or answers; outdated that the
	// app was reloaded since the run began; ending that the run is about to end.
	answering, outdated, ending bool
	// interrupted counts the answers that a message has interrupted and that have not ended yet.
	interrupted int
	printer     *eventPrinter
	// stopRun cancels the run. An interrupt (^C) calls it while the agent answers.
	stopRun context.CancelCauseFunc
	// questions are the pending calls that the next lines answer, reply the answers so far.
	questions []*genai.FunctionCall
	reply     []*genai.Part
}

// A liveEvent is a live run's event, or its error.
type liveEvent struct {
	event *session.Event
	err   error
}

// sendLive sends one message in a live conversation and prints the answer.
func (t *Conversation) sendLive(ctx context.Context, text string) error {
	l := t.newLiveConversation()
	if err := l.sendMessage(ctx, model.UserText(text)); err != nil {
		return err
	}
	var failure error
	for l.events != nil {
		e, ok := <-l.events
		if err := l.receiveEvent(ctx, e, ok); err != nil {
			failure = err
		}
		if !l.answering {
			l.endRun()
		}
	}
	t.printCost()
	return failure
}

func (t *Conversation) newLiveConversation() *liveConversation {
	return &liveConversation{Conversation: t, printer: t.newPrinter()}
}

// runLiveLoop handles lines and events until /quit, or until the input or ctx ends. It hot-reloads
// the app when its files are saved; the run then begins again after the answer.
func (t *Conversation) runLiveLoop(ctx context.Context) error {
	ctx, end := t.openInput(ctx)
	defer end()
	// The live run has the session: nothing else can write to it or replace its app.
	t.setCommands(slices.DeleteFunc(t.listCommands(), func(c chat.Command) bool {
		return slices.Contains([]string{"/rewind", "/retry", "/edit", "/fork", "/model", "/sessions", "/attach"}, c.Name)
	}))
	c := t.newLiveConversation()
	c.prompt = t.messagePrompt()
	c.askPending(ctx)
	c.printPrompt()
	lines := t.lines
	for lines != nil || c.events != nil {
		waiting := lines
		if c.prompt == "" && c.answering || c.ending {
			waiting = nil
		}
		select {
		case line, ok := <-waiting:
			if line = strings.TrimSpace(line); !ok || line == "/quit" {
				if !ok {
					t.endPrompt(c.prompt)
				}
				lines = nil
				c.endRun()
				continue
			}
			c.printError(c.handleLine(ctx, line))
			c.printPrompt()
		case e, ok := <-c.events:
			if err := c.receiveEvent(ctx, e, ok); err != nil {
				c.printError(err)
				c.printPrompt()
			}
		case s := <-t.reloads:
			before := s.Revision != t.reportedRevision
			t.printReload(s, "")
			if c.outdated = c.outdated || before && s.OK; c.outdated && !c.answering {
				c.endRun()
			}
		case <-ctx.Done():
			t.endPrompt(c.prompt)
			return nil
		}
	}
	return nil
}

func (c *liveConversation) printError(err error) {
	if err != nil {
		c.printer.view.endLine()
		c.printFailure(err)
	}
}

// printPrompt prompts for a line, unless the agent answers.
func (c *liveConversation) printPrompt() {
	switch {
	case c.answering:
	case len(c.questions) > 0:
		c.openPrompt(chat.Prompt{Text: newQuestion(c.questions[0], nil).prompt, Question: true})
	default:
		c.openPrompt(chat.Prompt{Text: c.prompt, Keep: true})
	}
}

// handleLine answers a question, runs a command, or sends the line as a message.
func (c *liveConversation) handleLine(ctx context.Context, line string) error {
	if len(c.questions) > 0 {
		return c.answerQuestion(ctx, line)
	}
	if line == "/answer" {
		clear(c.prompted)
		c.askPending(ctx)
		return nil
	}
	if line == "" || strings.HasPrefix(line, "/") {
		return c.Conversation.handleLine(ctx, line)
	}
	return c.sendMessage(ctx, model.UserText(line))
}

// sendMessage sends a message, and begins a run if there is none.
func (c *liveConversation) sendMessage(ctx context.Context, message *genai.Content) error {
	if err := c.storeSession(ctx); err != nil {
		return err
	}
	if c.run == nil {
		c.startRun(ctx)
	}
	state := c.state
	c.state = nil
	if c.answering {
		c.interrupted++
	} else {
		c.opts.Costs.beginTurn()
	}
	c.answering = true
	c.setBusy(true)
	c.opts.Env.Interrupts.SetStopAnswer(c.stopRun)
	return c.run.Send(ctx, message, state)
}

// startRun begins a live run. Its events arrive in events, which is closed at its end.
func (c *liveConversation) startRun(ctx context.Context) {
	ctx, c.stopRun = context.WithCancelCause(ctx)
	run, events := c.opts.StartLive(ctx, c.key), make(chan liveEvent)
	c.run, c.events = run, events
	c.outdated, c.ending = false, false
	go func() {
		defer close(events)
		defer safe.Recover(func(p *safe.Panic) { events <- liveEvent{err: p} })
		for ev, err := range run.Events {
			if err != nil && command.IsAnswerStopped(ctx) {
				err = command.ErrAnswerStopped
			}
			events <- liveEvent{ev, err}
		}
	}()
}

// endRun lets the run end.
func (c *liveConversation) endRun() {
	if c.run != nil {
		c.ending = true
		c.run.Close()
	}
}

// receiveEvent prints an event. Ok is false when the run has ended.
func (c *liveConversation) receiveEvent(ctx context.Context, e liveEvent, ok bool) error {
	if !ok {
		c.printer.flushProblem()
		c.printer.view.endLine()
		c.endAnswer()
		c.stopRun(nil)
		c.run, c.events, c.ending, c.interrupted = nil, nil, false, 0
		return nil
	}
	if e.err != nil {
		c.printer.view.endLine()
		c.endAnswer()
		c.ending = true
		switch {
		case errors.Is(e.err, command.ErrAnswerStopped):
			return e.err
		case errors.Is(e.err, context.Canceled):
			return nil
		}
		return command.FailRun(e.err)
	}
	if err := c.printEvent(c.printer, e.event); err != nil {
		return command.FailWith(err)
	}
	switch {
	case e.event.TurnComplete && c.interrupted > 0:
		c.interrupted--
	case e.event.TurnComplete, len(e.event.LongRunningToolIDs) > 0:
		c.completeTurn(ctx)
	}
	return nil
}

// endAnswer ends that the agent answers, and that an interrupt stops it.
func (c *liveConversation) endAnswer() {
	c.answering = false
	c.opts.Costs.endTurn()
	c.setBusy(false)
	c.opts.Env.Interrupts.SetStopAnswer(nil)
}

// completeTurn prompts for the next line.
func (c *liveConversation) completeTurn(ctx context.Context) {
	c.printer.flushProblem()
	c.printer.view.endLine()
	c.endAnswer()
	c.printCost()
	if c.outdated {
		c.endRun()
	}
	c.askPending(ctx)
	c.printPrompt()
}

// askPending makes the next lines answer the session's pending calls.
func (c *liveConversation) askPending(ctx context.Context) {
	if c.opts.JSON || c.prompted == nil || len(c.questions) > 0 {
		return
	}
	c.questions = slices.DeleteFunc(c.unpromptedCalls(ctx), c.reportCredential)
	for _, call := range c.questions {
		c.prompted[call.ID] = true
	}
	c.printQuestion()
}

// reportCredential reports whether a call waits for a connection, which a live conversation
// does not authorize.
func (c *liveConversation) reportCredential(call *genai.FunctionCall) bool {
	consent := c.findConsent(call)
	if consent == nil {
		return false
	}
	if !c.prompted[call.ID] {
		fmt.Fprintf(c.opts.Env.Err, "%s: authorize it in a conversation without --live\n", consent.Pending)
	}
	c.prompted[call.ID] = true
	return true
}

func (c *liveConversation) printQuestion() {
	if len(c.questions) == 0 {
		return
	}
	if q := newQuestion(c.questions[0], nil); q.message != "" {
		fmt.Fprintf(c.opts.Env.Err, "%s\n", q.message)
	}
}

// answerQuestion answers the first question, and sends the answers when it was the last.
func (c *liveConversation) answerQuestion(ctx context.Context, line string) error {
	call := c.questions[0]
	q := newQuestion(call, nil)
	if line != "" || !q.optional {
		response, problem := q.parseLine(line)
		if response == nil {
			if problem == "" {
				return nil
			}
			return errors.New(problem)
		}
		c.reply = append(c.reply, newResponse(call, response))
	}
	c.questions = c.questions[1:]
	c.printQuestion()
	if len(c.questions) > 0 || len(c.reply) == 0 {
		return nil
	}
	parts := c.reply
	c.reply = nil
	return c.sendMessage(ctx, &genai.Content{Role: genai.RoleUser, Parts: parts})
}
