package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"sync"

	"agenthost/internal/command"
	"agenthost/internal/terminal"
	"agenthost/pkg/loader"
)

// runLoop handles lines until /quit, or until the input or ctx ends. It hot-reloads the app when
// files in dir are saved.
func (t *conversation) runLoop(ctx context.Context, l *loader.Loader, dir string) error {
	ctx, end := t.openInput(ctx, l, dir)
	defer end()
	prompt := ""
	if terminal.IsTerminal(t.env.In) {
		prompt = "> "
	}
	for t.answerPending(ctx) {
		line, ok := t.readLine(ctx, prompt)
		if !ok {
			return nil
		}
		if err := t.handleLine(ctx, line); err != nil {
			fmt.Fprintf(t.env.Err, "%s\n", err)
		}
	}
	return nil
}

// openInput reads lines and watches the files in dir, until end is called.
func (t *conversation) openInput(ctx context.Context, l *loader.Loader, dir string) (input context.Context, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	t.reloads = make(chan loader.Status, 1)
	t.reportedRevision = t.host.App(t.key.App).Revision()
	watching.Go(func() { t.watchFiles(ctx, l, dir) })
	fmt.Fprintf(t.env.Err, "Talking to %s, session %s. Type /quit to exit.\n", t.key.App, t.key.ID)
	t.lines, t.prompted = make(chan string), map[string]bool{}
	go func() {
		defer close(t.lines)
		for in := bufio.NewScanner(t.env.In); in.Scan(); {
			select {
			case t.lines <- in.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() {
		cancel()
		watching.Wait()
	}
}

// readLine reads a line; it returns false at /quit, and when the input or ctx ends.
func (t *conversation) readLine(ctx context.Context, prompt string) (string, bool) {
	fmt.Fprint(t.env.Err, prompt)
	for {
		select {
		case <-ctx.Done():
			t.endPrompt(prompt)
			return "", false
		case s := <-t.reloads:
			before := ""
			if prompt != "" {
				before = "\n"
			}
			if t.printReload(s, before) {
				fmt.Fprint(t.env.Err, prompt)
			}
		case line, ok := <-t.lines:
			t.printQueuedReload()
			if !ok {
				t.endPrompt(prompt)
			}
			line = strings.TrimSpace(line)
			return line, ok && line != "/quit"
		}
	}
}

// endPrompt ends a prompt line that the user has not answered.
func (t *conversation) endPrompt(prompt string) {
	if prompt != "" {
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
