package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"agenthost/internal/command"
	"agenthost/internal/terminal"
	"agenthost/wing/chat"
	"agenthost/wing/chat/lineedit"
)

// openTerminal opens the terminal for a conversation. It returns nil if the conversation has plain
// lines: with --plain, with --json, with TEXT, in a terminal that cannot move its cursor, and if a
// program reads or writes them.
func (f *runFlags) openTerminal(env command.Env, args []string, spent *costMeter) (*chat.Terminal, error) {
	in, _ := env.In.(*os.File)
	out, _ := terminal.Unfiltered(env.Out).(*os.File)
	if f.plain || f.json || f.resume || len(args) != 1 || !terminal.IsTerminal(in) || !terminal.IsTerminal(out) || os.Getenv("TERM") == "dumb" {
		return nil, nil
	}
	history, err := lineedit.OpenHistory(historyFile())
	if err != nil {
		fmt.Fprintf(env.Err, "agenthost: the history of messages is not available: %s\n", err)
	}
	t, err := chat.Open(chat.Options{
		In: in, Out: out, Styles: terminal.StylesOf(env.Out), History: history, Interrupt: env.Interrupts.Interrupt,
		Status: spent.describeStatus,
	})
	return t, command.FailWith(err)
}

// openOutput returns the stream in place of a standard one: that of the conversation's terminal, or
// with --plain one without colours and without a width. With wrap, the former breaks long lines
// between words.
func (f *runFlags) openOutput(w io.Writer, person *chat.Terminal, wrap bool) io.Writer {
	switch {
	case !terminal.IsTerminal(w):
		return w
	case person != nil:
		return person.NewOutput(wrap)
	case f.plain:
		return terminal.NewOutput(terminal.Unfiltered(w), terminal.Settings{Terminal: true})
	}
	return w
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
func (t *conversation) printGreeting() {
	styles := terminal.StylesOf(t.env.Out)
	root := t.host.App(t.key.App).Root()
	line := styles.Format(terminal.Title, t.key.App)
	if text := root.Description(); text != "" {
		line += styles.Format(terminal.Muted, " · "+terminal.CleanLine(text))
	}
	t.person.Print(line + "\n" + styles.Format(terminal.Muted, terminal.Truncate("session "+t.key.ID, t.person.Width()-1)) + "\n")
}

// printCost prints the cost of an answer, unless the status line shows it.
func (t *conversation) printCost() {
	if t.person == nil {
		t.spent.printCost(t.env.Err)
	}
}

// setBusy reports whether an answer is under way while a prompt is open.
func (t *conversation) setBusy(busy bool) {
	if t.person != nil {
		t.person.SetBusy(busy)
	}
}

// describeStatus returns the parts of the status line: the time of the answer, and the tokens and the
// cost of the conversation.
func (c *costMeter) describeStatus() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var parts []string
	switch {
	case !c.began.IsZero():
		parts = append(parts, "answering "+formatSeconds(time.Since(c.began)), "^C stops")
	case c.last > 0:
		parts = append(parts, "answered in "+formatSeconds(c.last))
	default:
		parts = append(parts, "/help")
	}
	if c.total.input+c.total.output > 0 {
		parts = append(parts, fmt.Sprintf("%s tokens in, %s out", formatThousands(c.total.input), formatThousands(c.total.output)))
	}
	if c.total.usd > 0 {
		parts = append(parts, "$"+formatDollars(c.total.usd))
	}
	return parts
}

func formatSeconds(d time.Duration) string {
	if d < 10*time.Second {
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
	return d.Round(time.Second).String()
}

// formatThousands formats a number of tokens, from 10 000 on in thousands.
func formatThousands(n int64) string {
	if n < 10_000 {
		return strconv.FormatInt(n, 10)
	}
	return strconv.FormatFloat(float64(n)/1000, 'f', 1, 64) + "k"
}

// printApproval prints the call that waits for approval, with all of its arguments. Each line of a
// text begins with a bar, so that an argument cannot pretend to be another one.
func (t *conversation) printApproval(q *question) {
	styles := terminal.StylesOf(t.env.Out)
	t.person.PrintGap()
	t.person.Print(styles.Format(terminal.Warning, "! "+terminal.CleanLine(q.tool)+" waits for your approval"))
	for _, key := range slices.Sorted(maps.Keys(q.args)) {
		name := styles.Format(terminal.Muted, "  "+terminal.CleanLine(key)+": ")
		text, ok := q.args[key].(string)
		hasControls := strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' })
		if !ok || hasControls || !strings.Contains(text, "\n") {
			t.person.Print(name + terminal.CleanLine(compactValue(q.args[key])))
			continue
		}
		t.person.Print(name)
		for line := range strings.Lines(text) {
			t.person.Print(styles.Format(terminal.Muted, "  │ ") + terminal.CleanLine(strings.TrimRight(line, "\n")))
		}
	}
}

// compactValue formats a value as JSON.
func compactValue(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
