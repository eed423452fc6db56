package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"agenthost/internal/command"
	"agenthost/internal/terminal"
	"agenthost/pkg/loader"
	"agenthost/wing/chat"
)

// runLoop handles lines until /quit, or until the input or ctx ends. It hot-reloads the app when its
// files are saved.
func (t *conversation) runLoop(ctx context.Context) error {
	ctx, end := t.openInput(ctx)
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

// openInput reads lines and watches the app's files, until end is called.
func (t *conversation) openInput(ctx context.Context) (input context.Context, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	t.reloads = make(chan loader.Status, 1)
	t.reportedRevision = t.host.App(t.key.App).Revision()
	t.watchContext, t.releaseModel = ctx, func() {}
	t.startWatching(t.env.NewLoader(t.options))
	t.prompted = map[string]bool{}
	t.setCommands(t.listCommands())
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
		t.stopWatching()
		t.releaseModel()
	}
}

// setCommands sets the commands that the user can type. The terminal completes them on another
// goroutine, which therefore reads no field of t.
func (t *conversation) setCommands(commands chat.Commands) {
	t.commands = commands
	if t.person == nil {
		return
	}
	t.person.SetCompletion(func(before string) (int, []chat.Suggestion) {
		if word, items := commands.Suggest(before); len(items) > 0 {
			return word, items
		}
		return chat.SuggestMention(before)
	})
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

// commandLine matches lines that are commands: other words that begin with a slash, such as a path,
// are messages.
var commandLine = regexp.MustCompile(`^/[a-zA-Z-]*(\s|$)`)

// handleLine runs a command, or sends the line as a message.
func (t *conversation) handleLine(ctx context.Context, line string) error {
	switch {
	case line == "":
		return nil
	case commandLine.MatchString(line):
		command, arg, err := t.commands.Find(line)
		if err != nil {
			return err
		}
		return command.Run(ctx, arg)
	}
	if err := t.attachMentions(ctx); err != nil {
		return err
	}
	if invocation := t.replaces; invocation != "" {
		t.replaces = ""
		return t.rewindBefore(ctx, invocation, t.buildMessage(line))
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
	if command == "" || !t.stored {
		return
	}
	if line := "continue with: " + command; t.person != nil {
		t.person.PrintGap()
		t.person.Print(line) // not wrapped, so that it can be copied
	} else {
		fmt.Fprintln(t.env.Err, line)
	}
}
