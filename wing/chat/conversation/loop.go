package conversation

import (
	"bufio"
	"context"
	"fmt"
	"regexp"

	"agenthost/pkg/loader"
	"agenthost/wing/chat"
)

// openInput reads lines and watches the app's files, until end is called.
func (t *Conversation) openInput(ctx context.Context) (input context.Context, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	t.reloads = make(chan loader.Status, 1)
	t.reportedRevision = t.opts.Host.App(t.key.App).Revision()
	t.watchContext, t.releaseModel = ctx, func() {}
	t.startWatching(t.opts.Env.NewLoader(t.opts.Loading))
	t.prompted = map[string]bool{}
	t.setCommands(t.listCommands())
	if t.opts.Terminal != nil {
		t.printGreeting()
		t.lines = t.opts.Terminal.Lines()
	} else {
		fmt.Fprintf(t.opts.Env.Err, "Talking to %s, session %s. Type /quit to exit.\n", t.key.App, t.key.ID)
		lines := make(chan string)
		t.lines = lines
		go func() {
			defer close(lines)
			for in := bufio.NewScanner(t.opts.Env.In); in.Scan(); {
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
func (t *Conversation) setCommands(commands chat.Commands) {
	t.commands = commands
	if t.opts.Terminal == nil {
		return
	}
	t.opts.Terminal.SetCompletion(func(before string) (int, []chat.Suggestion) {
		if word, items := commands.Suggest(before); len(items) > 0 {
			return word, items
		}
		return chat.SuggestMention(before)
	})
}

// commandLine matches lines that are commands: other words that begin with a slash, such as a path,
// are messages.
var commandLine = regexp.MustCompile(`^/[a-zA-Z-]*(\s|$)`)

// handleLine runs a command, or sends the line as a message.
func (t *Conversation) handleLine(ctx context.Context, line string) error {
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
