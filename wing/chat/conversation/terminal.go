package conversation

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"unicode"

	"agenthost/internal/command"
	"agenthost/internal/terminal"
	"agenthost/wing/chat"
	"agenthost/wing/chat/lineedit"
)

// OpenTerminal opens the terminal for a conversation. It returns nil if the conversation has plain
// lines: with plain, in a terminal that cannot move its cursor, and if a program reads or writes
// them.
func OpenTerminal(env command.Env, costs *Costs, plain bool) (*chat.Terminal, error) {
	in, _ := env.In.(*os.File)
	out, _ := terminal.Unfiltered(env.Out).(*os.File)
	if plain || !terminal.IsTerminal(in) || !terminal.IsTerminal(out) || os.Getenv("TERM") == "dumb" {
		return nil, nil
	}
	history, err := lineedit.OpenHistory(historyFile())
	if err != nil {
		fmt.Fprintf(env.Err, "agenthost: the history of messages is not available: %s\n", err)
	}
	t, err := chat.Open(chat.Options{
		In: in, Out: out, Styles: terminal.StylesOf(env.Out), History: history, Interrupt: env.Interrupts.Interrupt,
		Status: costs.DescribeStatus,
	})
	return t, command.FailWith(err)
}

// historyFile returns the file with the messages of earlier conversations, in the user's folder for
// state, or "" if the user has none.
func historyFile() string {
	dir := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, ".local", "state")
		if local := os.Getenv("LOCALAPPDATA"); goruntime.GOOS == "windows" && local != "" {
			dir = local
		}
	}
	return filepath.Join(dir, "agenthost", "history.jsonl")
}

// printGreeting prints what the person talks to.
func (t *Conversation) printGreeting() {
	styles := terminal.StylesOf(t.opts.Env.Out)
	root := t.opts.Host.App(t.key.App).Root()
	line := styles.Format(terminal.Title, t.key.App)
	if text := root.Description(); text != "" {
		line += styles.Format(terminal.Muted, " · "+terminal.CleanLine(text))
	}
	t.opts.Terminal.Print(line + "\n" + styles.Format(terminal.Muted, terminal.Truncate("session "+t.key.ID, t.opts.Terminal.Width()-1)) + "\n")
}

// printCost prints the cost of an answer, unless the status line shows it.
func (t *Conversation) printCost() {
	if t.opts.Terminal == nil {
		t.opts.Costs.printCost(t.opts.Env.Err)
	}
}

// setBusy reports whether an answer is under way while a prompt is open.
func (t *Conversation) setBusy(busy bool) {
	if t.opts.Terminal != nil {
		t.opts.Terminal.SetBusy(busy)
	}
}

// printApproval prints the call that waits for approval, with all of its arguments. Each line of a
// text begins with a bar, so that an argument cannot pretend to be another one.
func (t *Conversation) printApproval(q *question) {
	styles := terminal.StylesOf(t.opts.Env.Out)
	t.opts.Terminal.PrintGap()
	t.opts.Terminal.Print(styles.Format(terminal.Warning, "! "+terminal.CleanLine(q.tool)+" waits for your approval"))
	for _, key := range slices.Sorted(maps.Keys(q.args)) {
		name := styles.Format(terminal.Muted, "  "+terminal.CleanLine(key)+": ")
		text, ok := q.args[key].(string)
		hasControls := strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' })
		if !ok || hasControls || !strings.Contains(text, "\n") {
			t.opts.Terminal.Print(name + terminal.CleanLine(terminal.CompactJSON(q.args[key])))
			continue
		}
		t.opts.Terminal.Print(name)
		for line := range strings.Lines(text) {
			t.opts.Terminal.Print(styles.Format(terminal.Muted, "  │ ") + terminal.CleanLine(strings.TrimRight(line, "\n")))
		}
	}
}
