package chat

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"agenthost/internal/terminal"
)

// A tail is what has begun above the editor and may still change.
type tail interface {
	// renderTail returns how it looks now, finishTail how it looks at its end.
	renderTail() string
	finishTail() string
}

// addTail adds a tail unless it is there.
func (t *Terminal) addTail(added tail) {
	if !slices.Contains(t.tails, added) {
		t.tails = append(t.tails, added)
	}
}

func (t *Terminal) removeTail(removed tail) {
	t.tails = slices.DeleteFunc(t.tails, func(other tail) bool { return other == removed })
}

// A stream is a writer to the terminal: whole lines go above the editor, an unfinished one is shown
// until it ends.
type stream struct {
	t    *Terminal
	rest string
	// wrap breaks long lines between words.
	wrap bool
}

// maxTailBytes limits an unfinished line. A longer one is ended.
const maxTailBytes = 64 << 10

// NewOutput returns a stream that cleans its text; see [terminal.Output]. With wrap, it breaks long
// lines between words.
func (t *Terminal) NewOutput(wrap bool) *terminal.Output {
	width, _ := t.size()
	return terminal.NewOutput(&stream{t: t, wrap: wrap}, terminal.Settings{Terminal: true, Styles: t.opts.Styles.Enabled(), Width: width})
}

func (s *stream) renderTail() string { return s.rest }

func (s *stream) finishTail() string {
	rest := s.rest
	s.rest = ""
	return rest
}

// Write implements [io.Writer]. It reports no errors: when the terminal is gone, its input ends.
func (s *stream) Write(p []byte) (int, error) {
	t := s.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		t.above.Write(p)
		t.drawLocked()
		return len(p), nil
	}
	t.addTail(s)
	text := s.rest + string(p)
	end := strings.LastIndexByte(text, '\n') + 1
	if end == 0 && len(text) > maxTailBytes {
		text += "\n"
		end = len(text)
	}
	if lines := text[:end]; end > 0 {
		if width, _ := t.size(); s.wrap {
			lines = ansi.Wordwrap(lines, width, "")
		}
		t.printLocked(lines)
	}
	if s.rest = text[end:]; s.rest == "" {
		t.removeTail(s)
	}
	t.drawSoon()
	return len(p), nil
}

// An Answer is Markdown that arrives in chunks. Finished blocks go above the editor, the last one is
// shown as it grows.
type Answer struct {
	t        *Terminal
	markdown *terminal.Markdown
}

// NewAnswer begins an answer, after an empty line.
func (t *Terminal) NewAnswer() *Answer {
	t.PrintGap()
	width, _ := t.size()
	return &Answer{t, terminal.NewMarkdown(width-1, t.opts.Styles)}
}

func (a *Answer) renderTail() string { return a.markdown.Tail() }

func (a *Answer) finishTail() string { return a.markdown.Finish() }

// Append adds a chunk.
func (a *Answer) Append(chunk string) {
	a.t.mu.Lock()
	defer a.t.mu.Unlock()
	if a.t.closed {
		return
	}
	a.t.addTail(a)
	if finished := a.markdown.Append(chunk); finished != "" {
		a.t.printLocked(finished)
	}
	a.t.drawSoon()
}

// Finish ends the answer.
func (a *Answer) Finish() {
	a.t.mu.Lock()
	defer a.t.mu.Unlock()
	a.t.removeTail(a)
	if rest := a.markdown.Finish(); rest != "" && !a.t.closed {
		a.t.printLocked(rest)
	}
	a.t.drawLocked()
}

// PrintGap prints an empty line, unless the last one is empty.
func (t *Terminal) PrintGap() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.spaced {
		t.printLocked("")
	}
}
