package conversation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"agenthost/internal/command"
	"agenthost/internal/terminal"
	"agenthost/wing/chat"
)

// openPrompt shows a prompt.
func (t *Conversation) openPrompt(p chat.Prompt) {
	if t.opts.Terminal != nil {
		t.opts.Terminal.OpenPrompt(p)
		return
	}
	fmt.Fprint(t.opts.Env.Err, p.Text)
}

// readLine reads a line; it returns false at /quit, and when the input or ctx ends.
func (t *Conversation) readLine(ctx context.Context, p chat.Prompt) (string, bool) {
	t.openPrompt(p)
	for {
		select {
		case <-ctx.Done():
			t.endPrompt(p.Text)
			return "", false
		case s := <-t.reloads:
			before := ""
			if p.Text != "" && t.opts.Terminal == nil {
				before = "\n"
			}
			if t.printReload(s, before) && t.opts.Terminal == nil {
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
func (t *Conversation) endPrompt(prompt string) {
	if prompt != "" && t.opts.Terminal == nil {
		fmt.Fprintln(t.opts.Env.Err)
	}
}

// messagePrompt returns the prompt for a message: none if no person reads it.
func (t *Conversation) messagePrompt() string {
	if terminal.IsTerminal(t.opts.Env.In) {
		return "> "
	}
	return ""
}

// printFailure prints why an answer or a command failed.
func (t *Conversation) printFailure(err error) {
	text := err.Error()
	if t.opts.Terminal != nil && errors.Is(err, command.ErrAnswerStopped) {
		text = "answer stopped" // here ^C does not end the conversation at once
	}
	_ = terminal.Print(t.opts.Env.Err, terminal.StylesOf(t.opts.Env.Err).Format(terminal.Warning, text)+"\n") // a terminal that is gone ends the input
}
