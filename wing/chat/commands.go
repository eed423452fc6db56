package chat

import (
	"context"
	"fmt"
	"strings"

	"agenthost/pkg/spec"
)

// A Command is what a person can type instead of a message.
type Command struct {
	// Name begins with a slash. Args names the arguments, and Help describes the command.
	Name, Args, Help string
	// Complete returns suggestions for the argument; it may be nil.
	Complete func(arg string) []Suggestion
	// Run executes the command.
	Run func(ctx context.Context, arg string) error
}

// Commands are the commands of a conversation.
type Commands []Command

// Find returns the command in a line, and its argument.
func (c Commands) Find(line string) (Command, string, error) {
	name, arg, _ := strings.Cut(strings.TrimSpace(line), " ")
	var names []string
	for _, command := range c {
		if command.Name == name {
			return command, strings.TrimSpace(arg), nil
		}
		names = append(names, command.Name)
	}
	if near := spec.Suggest(name, names); near != "" {
		return Command{}, "", fmt.Errorf("unknown command %s: did you mean %s? /help lists the commands", name, near)
	}
	return Command{}, "", fmt.Errorf("unknown command %s: /help lists the commands", name)
}

// Suggest returns the commands that complete the text before the cursor, or the arguments of one;
// and how many characters they replace.
func (c Commands) Suggest(before string) (word int, items []Suggestion) {
	if !strings.HasPrefix(before, "/") || strings.Contains(before, "\n") {
		return 0, nil
	}
	name, arg, hasArg := strings.Cut(before, " ")
	for _, command := range c {
		switch {
		case !hasArg && strings.HasPrefix(command.Name, name):
			text := command.Name
			if command.Args != "" {
				text += " "
			}
			items = append(items, Suggestion{Text: text, Note: command.Help})
		case hasArg && command.Name == name && command.Complete != nil:
			return len([]rune(arg)), command.Complete(arg)
		}
	}
	return len([]rune(name)), items
}

// Rows returns the commands with their arguments, and what they do.
func (c Commands) Rows() [][2]string {
	var rows [][2]string
	for _, command := range c {
		rows = append(rows, [2]string{strings.TrimSpace(command.Name + " " + command.Args), command.Help})
	}
	return rows
}
