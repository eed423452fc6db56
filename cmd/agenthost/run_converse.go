package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"agenthost/internal/command"
	"agenthost/internal/terminal"
	"agenthost/pkg/loader"
	"agenthost/wing/chat"
)

// runLoop handles lines until /quit, or until the input or ctx ends. It hot-reloads the app when
// files in dir are saved.
func (t *conversation) runLoop(ctx context.Context, l *loader.Loader, dir string) error {
	ctx, end := t.openInput(ctx, l, dir)
	defer end()
	for t.answerPending(ctx) {
		line, ok := t.readLine(ctx, chat.Prompt{Text: t.messagePrompt()})
		if !ok {
			return nil
		}
		if err := t.handleLine(ctx, line); err != nil {
			t.printFailure(err)
		}
	}
	return nil
}

// messagePrompt returns the prompt for a message: none if no person reads it.
func (t *conversation) messagePrompt() string {
	if terminal.IsTerminal(t.env.In) {
		return "> "
	}
	return ""
}

// printFailure prints why an answer or a command failed.
func (t *conversation) printFailure(err error) {
	text := err.Error()
	if t.person != nil && errors.Is(err, command.ErrAnswerStopped) {
		text = "answer stopped" // here ^C does not end the conversation at once
	}
	_ = terminal.Print(t.env.Err, terminal.StylesOf(t.env.Err).Format(terminal.Warning, text)+"\n") // a terminal that is gone ends the input
}

// openInput reads lines and watches the files in dir, until end is called.
func (t *conversation) openInput(ctx context.Context, l *loader.Loader, dir string) (input context.Context, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	t.reloads = make(chan loader.Status, 1)
	t.reportedRevision = t.host.App(t.key.App).Revision()
	watching.Go(func() { t.watchFiles(ctx, l, dir) })
	t.prompted = map[string]bool{}
	if t.person != nil {
		t.printGreeting()
		t.lines = t.person.Lines()
	} else {
		fmt.Fprintf(t.env.Err, "Talking to %s, session %s. Type /quit to exit.\n", t.key.App, t.key.ID)
		lines := make(chan string)
		t.lines = lines
		go func() {
			defer close(lines)
			for in := bufio.NewScanner(t.env.In); in.Scan(); {
				select {
				case lines <- in.Text():
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	return ctx, func() {
		cancel()
		watching.Wait()
	}
}

// openPrompt shows a prompt.
func (t *conversation) openPrompt(p chat.Prompt) {
	if t.person != nil {
		t.person.OpenPrompt(p)
		return
	}
	fmt.Fprint(t.env.Err, p.Text)
}

// readLine reads a line; it returns false at /quit, and when the input or ctx ends.
func (t *conversation) readLine(ctx context.Context, p chat.Prompt) (string, bool) {
	t.openPrompt(p)
	for {
		select {
		case <-ctx.Done():
			t.endPrompt(p.Text)
			return "", false
		case s := <-t.reloads:
			before := ""
			if p.Text != "" && t.person == nil {
				before = "\n"
			}
			if t.printReload(s, before) && t.person == nil {
				t.openPrompt(p)
			}
		case line, ok := <-t.lines:
			t.printQueuedReload()
			if !ok {
				t.endPrompt(p.Text)
			}
			line = strings.TrimSpace(line)
			return line, ok && line != "/quit"
		}
	}
}

// endPrompt ends a prompt line that the user has not answered.
func (t *conversation) endPrompt(prompt string) {
	if prompt != "" && t.person == nil {
		fmt.Fprintln(t.env.Err)
	}
}

// handleLine runs a command, or sends the line as a message.
func (t *conversation) handleLine(ctx context.Context, line string) error {
	switch {
	case line == "":
		return nil
	case line == "/session":
		fmt.Fprintln(t.env.Out, t.key.ID)
		return nil
	case line == "/answer":
		clear(t.prompted) // answerPending prompts
		return nil
	case line == "/state" && !t.stored:
		return t.env.PrintJSON(map[string]any{})
	case line == "/state":
		sess, err := t.host.Store().Sessions.Get(ctx, t.key, nil)
		if err != nil {
			return err
		}
		return t.env.PrintJSON(sess.State.All())
	case strings.HasPrefix(line, "/"):
		return fmt.Errorf("unknown command %s: the commands are /state, /session, /answer and /quit", line)
	}
	return t.runStoppable(ctx, func(ctx context.Context) error { return t.sendText(ctx, line) })
}

// runStoppable runs part of the conversation that an interrupt (^C) stops, with [errAnswerStopped].
func (t *conversation) runStoppable(ctx context.Context, part func(context.Context) error) error {
	ctx, end := t.env.Interrupts.WithStop(ctx)
	defer end()
	err := part(ctx)
	if err != nil && command.IsAnswerStopped(ctx) {
		return command.ErrAnswerStopped
	}
	return err
}

// printContinue prints the command that continues the conversation, if it has a message.
func (t *conversation) printContinue(command string) {
	if command != "" && t.stored {
		fmt.Fprintf(t.env.Err, "continue with: %s\n", command)
	}
}
