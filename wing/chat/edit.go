package chat

import (
	"strings"

	"golang.org/x/term"

	"agenthost/internal/terminal"
	"agenthost/wing/chat/lineedit"
)

// handleInput handles a key or a paste.
func (t *Terminal) handleInput(in input) {
	if in.key != "ctrl+c" {
		t.leaving = false
	}
	t.ended = false
	t.notice = ""
	if in.pasted {
		t.searching = false
		if kept := t.editor.Insert(in.text, true); !kept || in.cut {
			t.notice = "the paste was too long: it was cut"
		}
		t.updateMenu()
		return
	}
	if t.menu != nil && t.handleMenuKey(in.key) {
		return
	}
	switch in.key {
	case "enter":
		t.enterLine()
		return
	case "ctrl+c":
		t.handleInterrupt()
		return
	case "ctrl+d":
		if t.editor.IsEmpty() {
			if t.prompt != nil {
				t.closeLocked()
			} else {
				t.ended, t.notice = true, "leaving after the answer; ^C stops it"
			}
			return
		}
	case "ctrl+l":
		width, _ := t.size()
		t.region.rows, t.region.row, t.region.width = nil, 0, width
		_, _ = t.region.out.Write([]byte("\x1b[H\x1b[2J")) // the next frame has the same error
		return
	case "ctrl+z":
		t.suspendProgram()
		return
	case "ctrl+r":
		t.searching = t.prompt == nil || !t.prompt.Question
		t.updateMenu()
		return
	case "esc":
		t.searching = false
		return
	case "tab":
		t.dismissed = false
		t.updateMenu()
		if t.menu != nil && len(t.menu.items) == 1 {
			t.acceptItem()
		}
		return
	}
	before := t.editor.Text()
	switch {
	case in.text != "" && !strings.HasPrefix(in.key, "ctrl+") && !strings.HasPrefix(in.key, "alt+"):
		t.editor.Insert(in.text, false)
	case t.editor.HandleKey(in.key):
	case in.key == "up" || in.key == "ctrl+p":
		t.editEarlier()
	case in.key == "down" || in.key == "ctrl+n":
		t.editEntry(t.opts.History.Next(before))
	}
	if t.editor.Text() != before {
		t.dismissed = false
		t.updateMenu()
	} else if !t.searching {
		t.menu = nil
	}
}

// handleMenuKey handles a key of the open menu. It returns false for others.
func (t *Terminal) handleMenuKey(key string) bool {
	switch key {
	case "up", "ctrl+p":
		t.menu.moveMark(-1)
	case "down", "ctrl+n", "ctrl+r":
		t.menu.moveMark(1)
	case "tab":
		t.acceptItem()
	case "enter":
		if !t.menu.chosen && !t.searching {
			return false
		}
		t.acceptItem()
	case "esc", "ctrl+g":
		t.menu, t.searching, t.dismissed = nil, false, true
	case "ctrl+c":
		if !t.searching {
			return false
		}
		t.menu, t.searching, t.dismissed = nil, false, true
	default:
		return false
	}
	return true
}

// acceptItem puts the menu's item into the editor.
func (t *Terminal) acceptItem() {
	item := t.menu.items[t.menu.at]
	if item.whole {
		t.editEntry(lineedit.Entry{Text: item.Text, Pasted: item.pasted}, true)
	} else {
		t.editor.ReplaceBefore(t.menu.word, item.Text)
	}
	t.menu, t.searching, t.dismissed = nil, false, true
}

// updateMenu shows the suggestions for the text before the cursor.
func (t *Terminal) updateMenu() {
	t.menu = nil
	switch {
	case t.searching:
		t.menu = &menu{}
		for _, e := range t.opts.History.Search(t.editor.Text(), 100) {
			t.menu.items = append(t.menu.items, Suggestion{Text: e.Text, whole: true, pasted: e.Pasted})
		}
		if len(t.menu.items) == 0 {
			t.menu, t.notice = nil, "no earlier message contains it"
		}
	case t.dismissed || t.opts.Complete == nil || t.prompt != nil && t.prompt.Question:
	default:
		before := t.editor.BeforeCursor()
		if word, items := t.opts.Complete(before); len(items) > 0 {
			t.menu = &menu{items: items, word: word}
		}
	}
}

// editEarlier shows the previous message: one that waits in the queue, or the history's.
func (t *Terminal) editEarlier() {
	if n := len(t.queue); n > 0 && t.editor.IsEmpty() {
		t.editor.SetText(t.queue[n-1].text)
		t.queue = t.queue[:n-1]
		return
	}
	if t.prompt == nil || !t.prompt.Question {
		t.editEntry(t.opts.History.Previous(t.editor.Text()))
	}
}

func (t *Terminal) editEntry(e lineedit.Entry, ok bool) {
	if !ok {
		return
	}
	t.editor.SetText("")
	t.editor.Insert(e.Text, e.Pasted)
	t.dismissed = true
}

// enterLine ends the line: it answers the prompt, or waits in the queue. A backslash at the end
// continues the message in another line.
func (t *Terminal) enterLine() {
	text := t.editor.Text()
	question := t.prompt != nil && t.prompt.Question
	if strings.HasSuffix(text, `\`) && t.editor.BeforeCursor() == text && !question {
		t.editor.ReplaceBefore(1, "\n")
		return
	}
	line := message{text, t.editor.Mentions()}
	if !question && strings.TrimSpace(text) == "" {
		t.editor.Reset()
		return
	}
	if !question {
		if err := t.opts.History.Add(lineedit.Entry{Text: text, Pasted: t.editor.HasPasted()}); err != nil {
			t.notice = "the history was not stored: " + err.Error()
		}
	}
	t.editor.Reset()
	t.menu, t.searching, t.dismissed = nil, false, false
	if question {
		t.sendLine(line)
		return
	}
	t.queue = append(t.queue, line)
	t.sendQueued()
}

// sendQueued answers an open prompt for a message with the oldest message of the queue.
func (t *Terminal) sendQueued() {
	if t.prompt == nil || t.prompt.Question || len(t.queue) == 0 {
		return
	}
	line := t.queue[0]
	t.queue = t.queue[1:]
	t.sendLine(line)
}

// sendLine answers the open prompt.
func (t *Terminal) sendLine(line message) {
	shown := line.text
	if t.prompt.Secret && shown != "" {
		shown = "(entered)"
	}
	t.printEcho(shown)
	if t.prompt.Question && t.draft != nil {
		t.editor, t.draft = *t.draft, nil
	}
	if !t.prompt.Keep {
		t.prompt = nil
	}
	t.mentions = line.mentions
	select {
	case t.lines <- line.text:
	default: // the lines before were not read
	}
}

// printEcho prints what the person has entered. Empty lines separate messages from answers.
func (t *Terminal) printEcho(text string) {
	var b strings.Builder
	if !t.prompt.Question && !t.spaced {
		b.WriteString("\n")
	}
	for i, row := range strings.Split(terminal.Clean(text), "\n") {
		start := t.prompt.Text
		if i > 0 {
			start = strings.Repeat(" ", terminal.TextWidth(start))
		}
		b.WriteString(t.opts.Styles.Format(terminal.Title, start+row) + "\n")
	}
	if !t.prompt.Question {
		b.WriteString("\n")
	}
	t.printLocked(b.String())
}

// handleInterrupt handles ^C: during an answer it stops the answer, and what waits goes back to the
// editor; at a prompt it discards the text, and the second one leaves.
func (t *Terminal) handleInterrupt() {
	switch {
	case t.prompt == nil || t.busy:
		if n := len(t.queue); n > 0 && t.editor.IsEmpty() {
			var texts []string
			for _, q := range t.queue {
				texts = append(texts, q.text)
			}
			t.editor.SetText(strings.Join(texts, "\n"))
		}
		t.queue = nil
		if t.opts.Interrupt != nil {
			go func() {
				defer t.endOnPanic()
				t.opts.Interrupt()
			}()
		}
	case !t.editor.IsEmpty():
		t.editor.SetText("")
		t.menu, t.searching = nil, false
	case t.leaving:
		t.closeLocked()
	default:
		t.leaving, t.notice = true, "^C again or ^D leaves"
	}
}

// suspendProgram stops the process until its shell continues it.
func (t *Terminal) suspendProgram() {
	if t.former == nil {
		return
	}
	t.restoreMode()
	suspendProcess()
	_, _ = term.MakeRaw(int(t.opts.In.Fd())) // as in Open, where it worked
	_, _ = t.region.out.Write([]byte("\x1b[?2004h\r\n"))
	t.region.rows, t.region.row = nil, 0
}
