package conversation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"agenthost/internal/command"
	"agenthost/internal/terminal"
	"agenthost/pkg/runtime"
	"agenthost/pkg/store"
	"agenthost/wing/chat"
)

// listCommands returns the commands that a person can type in a conversation.
func (t *Conversation) listCommands() chat.Commands {
	commands := chat.Commands{
		{Name: "/help", Help: "list the commands and keys", Run: t.printHelp},
		{Name: "/agents", Args: "[NAME]", Help: "list the agents, or describe one", Complete: suggestAgents(t.opts.Host, t.key.App), Run: t.printAgents},
		{Name: "/state", Args: "[KEY]", Help: "print the session's state", Run: t.printState},
		{Name: "/set", Args: "KEY=VALUE", Help: "set state with the next message", Run: t.setState},
		{Name: "/attach", Args: "FILE", Help: "send a file with the next message, as @FILE does", Complete: chat.SuggestFiles, Run: t.attachFile},
		{Name: "/rewind", Args: "[TURNS]", Help: "undo the last turn, or several", Run: t.rewindTurns},
		{Name: "/retry", Help: "undo the last turn and send its message again", Run: t.retryTurn},
		{Name: "/edit", Args: "[TEXT]", Help: "undo the last turn and send another message instead", Run: t.editTurn},
		{Name: "/fork", Help: "continue in a copy of the session", Run: t.forkSession},
	}
	if t.opts.ListCommands != nil {
		commands = append(commands, t.opts.ListCommands(t)...)
	}
	return append(commands, chat.Commands{
		{Name: "/model", Args: "[NAME]", Help: "list the models, or let one answer for all agents", Run: t.switchModel},
		{Name: "/sessions", Args: "[ID]", Help: "list the newest sessions, or continue one", Run: t.switchSession},
		{Name: "/copy", Help: "copy the last answer to the clipboard", Run: t.copyAnswer},
		{Name: "/answer", Help: "ask again for pending calls", Run: func(context.Context, string) error { clear(t.prompted); return nil }}, // answerPending prompts
		{Name: "/session", Help: "print the session's ID", Run: func(context.Context, string) error { return t.printLine(t.key.ID) }},
		{Name: "/quit", Help: "leave; the session can be continued", Run: func(context.Context, string) error { return nil }}, // readLine ends the conversation
	}...)
}

func (t *Conversation) printLine(text string) error {
	_, err := fmt.Fprintln(t.opts.Env.Out, text)
	return err
}

func (t *Conversation) printHelp(context.Context, string) error {
	if err := t.printPairs(t.commands.Rows()); err != nil || t.opts.Terminal == nil {
		return err
	}
	t.opts.Terminal.PrintGap()
	return t.printPairs([][2]string{
		{"Enter", "send; after a backslash, begin another line"},
		{"alt+enter ^J", "begin another line"},
		{"↑ ↓ ^R", "earlier messages with this beginning; search them"},
		{"Tab", "complete a command, an agent or a file"},
		{"^A ^E", "go to the start or end of the line"},
		{"^W ^U ^K ^Y", "delete a word, the line before, after; insert it"},
		{"^_ alt+z", "undo, redo"},
		{"^C", "stop the answer; discard the message; twice: leave"},
		{"^D ^L ^Z", "leave; clear the screen; suspend"},
	})
}

// printPairs prints names and their descriptions as a table, or below each other where a table is
// too wide.
func (t *Conversation) printPairs(rows [][2]string) error {
	const narrow = 72
	table := terminal.NewTable(terminal.Column{}, terminal.Column{})
	for _, row := range rows {
		if width := terminal.WidthOf(t.opts.Env.Out); width == 0 || width >= narrow {
			table.AddRow(row[0], row[1])
		} else if _, err := fmt.Fprintf(t.opts.Env.Out, "%s\n  %s\n", row[0], row[1]); err != nil {
			return err
		}
	}
	return table.Print(t.opts.Env.Out)
}

// suggestAgents returns the completion of an app's agents.
func suggestAgents(host *runtime.Host, app string) func(prefix string) []chat.Suggestion {
	return func(prefix string) []chat.Suggestion {
		var found []chat.Suggestion
		var add func(a *runtime.AgentInfo)
		add = func(a *runtime.AgentInfo) {
			if strings.HasPrefix(a.Name, prefix) {
				found = append(found, chat.Suggestion{Text: a.Name, Note: a.Description})
			}
			for _, child := range a.Agents {
				add(child)
			}
		}
		add(host.App(app).AgentInfo())
		return found
	}
}

// printAgents prints the tree of agents, or one agent.
func (t *Conversation) printAgents(_ context.Context, name string) error {
	root := t.opts.Host.App(t.key.App).AgentInfo()
	if name == "" {
		table := terminal.NewTable(terminal.Column{Title: "AGENT"}, terminal.Column{Title: "CLASS"}, terminal.Column{Title: "MODEL"}, terminal.Column{Title: "DESCRIPTION"})
		var add func(a *runtime.AgentInfo, indent string)
		add = func(a *runtime.AgentInfo, indent string) {
			table.AddRow(indent+a.Name, a.Kind, a.Model, a.Description)
			for _, child := range a.Agents {
				add(child, indent+"  ")
			}
		}
		add(root, "")
		return table.Print(t.opts.Env.Out)
	}
	a := root.Find(name)
	if a == nil {
		return fmt.Errorf("unknown agent %s: /agents lists the agents", name)
	}
	var rows [][2]string
	for _, row := range [][2]string{{"agent", a.Name}, {"class", a.Kind}, {"model", a.Model}, {"description", a.Description}} {
		if row[1] != "" {
			rows = append(rows, row)
		}
	}
	for _, tool := range a.Tools {
		if tool.Declaration != nil {
			rows = append(rows, [2]string{"tool", strings.TrimSpace(tool.Declaration.Name + "  " + tool.Declaration.Description)})
		}
	}
	if err := t.printPairs(rows); err != nil || a.Instruction == "" {
		return err
	}
	return t.printLine("\n" + strings.TrimRight(a.Instruction, "\n"))
}

func (t *Conversation) printState(ctx context.Context, key string) error {
	state := map[string]any{}
	if t.stored {
		sess, err := t.Session(ctx)
		if err != nil {
			return err
		}
		state = sess.State.All()
	}
	if key == "" {
		return t.opts.Env.PrintJSON(state)
	}
	value, ok := state[key]
	if !ok {
		return fmt.Errorf("state key %s not found", key)
	}
	return t.opts.Env.PrintJSON(value)
}

// setState sets a state key with the next message.
func (t *Conversation) setState(_ context.Context, pair string) error {
	state, err := command.ParseState([]string{pair})
	if err != nil {
		return fmt.Errorf("/set must be KEY=VALUE, got %q", pair)
	}
	if t.state == nil {
		t.state = map[string]any{}
	}
	for key, value := range state {
		t.state[key] = value
		fmt.Fprintf(t.opts.Env.Err, "%s is set with the next message\n", key)
	}
	return nil
}

// switchSession lists the newest sessions, or continues the conversation in another one.
func (t *Conversation) switchSession(ctx context.Context, id string) error {
	if id == "" {
		page, _, err := t.opts.Host.Store().Sessions.Page(ctx, &store.PageRequest{App: t.key.App, User: t.key.User, Size: 20})
		if err != nil {
			return err
		}
		table := terminal.NewTable(terminal.Column{Title: "SESSION", Whole: true}, terminal.Column{Title: "EVENTS", Right: true}, terminal.Column{Title: "LAST"})
		for _, sess := range page {
			mark := ""
			if sess.ID == t.key.ID {
				mark = " (this one)"
			}
			table.AddRow(sess.ID, fmt.Sprint(sess.Version), sess.LastUpdate.Local().Format("2006-01-02 15:04")+mark)
		}
		return table.Print(t.opts.Env.Out)
	}
	key := t.key
	key.ID = id
	if _, err := t.opts.Host.Store().Sessions.Get(ctx, key, nil); err != nil {
		return fmt.Errorf("%w; /sessions lists the sessions", err)
	}
	t.key, t.stored, t.replaces = key, true, ""
	clear(t.prompted)
	fmt.Fprintf(t.opts.Env.Err, "session %s continues\n", id)
	return nil
}

func (t *Conversation) copyAnswer(context.Context, string) error {
	switch {
	case t.opts.Terminal == nil:
		return errors.New("/copy needs a terminal, without --plain")
	case t.lastAnswer == "":
		return errors.New("there is no answer to copy yet")
	}
	if err := t.opts.Terminal.CopyText(t.lastAnswer); err != nil {
		return err
	}
	note := "the answer was sent to the clipboard"
	if os.Getenv("TMUX") != "" {
		note += "; tmux passes it on with: set -g set-clipboard on"
	}
	fmt.Fprintln(t.opts.Env.Err, note)
	return nil
}
