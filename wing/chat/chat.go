// Package chat is a conversation with a person at a terminal: an editor for messages, the answers
// above it, and a status line below. It has no apps and no models: the caller reads messages,
// prints answers, and hands in the commands that a person can type.
//
// # The screen
//
// Finished lines belong to the terminal: they are printed once and scroll away as in any program, so
// that searching, selecting and copying work as usual. Only the region below them is redrawn: the
// unfinished end of an answer, the editor, and the status line or a menu. A change rewrites the rows
// that differ, in one write, so that nothing flickers. The region never exceeds the terminal's
// height, because rows that have scrolled away cannot be redrawn.
//
// # Control characters
//
// Text from models, tools and files reaches the terminal only through [Terminal.Out],
// [Terminal.Err], [Answer] and the editor. They show control characters and those that change the
// text direction as \x1b or \u202e.
package chat

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"agenthost/internal/safe"
	"agenthost/internal/terminal"
	"agenthost/wing/chat/lineedit"
)

// Options are the settings of a terminal.
type Options struct {
	// In and Out are the two directions of the terminal.
	In, Out *os.File
	// Styles are those of the output.
	Styles terminal.Styles
	// History has earlier messages.
	History *lineedit.History
	// Complete returns suggestions for the text before the cursor, and how many characters at its
	// end they replace. It may be nil.
	Complete func(before string) (word int, items []Suggestion)
	// Interrupt is called for ^C while no prompt is open.
	Interrupt func()
	// Status returns the parts of the status line, the most important first. It may be nil.
	Status func() []string
}

// A message is what a person has entered.
type message struct {
	text     string
	mentions []string
}

// A Prompt asks for a line.
type Prompt struct {
	// Text is in front of the editor.
	Text string
	// Question reports that the line answers a question instead of being a message: the history
	// does not store it, and what was typed before the question does not answer it.
	Question bool
	// Secret reports that the line is not shown after it was entered.
	Secret bool
	// Keep reports that the prompt stays open for further lines.
	Keep bool
}

// A Terminal shows a conversation. It is safe for concurrent use.
type Terminal struct {
	opts  Options
	lines chan string

	mu       sync.Mutex
	closed   bool
	former   *term.State
	size     func() (width, height int)
	region   region
	keyboard keyboard
	// above is what the next frame prints above the region.
	above strings.Builder
	// spaced reports that the last line above is empty.
	spaced bool
	// tails are the unfinished lines and answers, the oldest first.
	tails []tail

	editor lineedit.Buffer
	prompt *Prompt // nil while none is open
	busy   bool
	// mentions are those of the last line that was sent.
	mentions []string
	menu     *menu
	// searching reports that the menu searches the history; dismissed that the menu stays closed
	// until the text changes.
	searching, dismissed bool
	// queue has the messages that were entered while no prompt was open.
	queue []message
	// draft is the text that a question has pushed aside.
	draft *lineedit.Buffer
	// ended reports that ^D during an answer ends the conversation after it, leaving that the next
	// ^C does, and notice replaces the status line
	// until the next key.
	ended, leaving bool
	notice         string

	lastDraw  time.Time
	drawTimer *time.Timer
	escTimer  *time.Timer
	stop      chan struct{}
}

// maxUnread limits the lines of a [Prompt] with Keep that were not read yet.
const maxUnread = 16

// drawInterval is the least time between two frames that only show new text.
const drawInterval = 30 * time.Millisecond

// escapeDelay is how long the bytes of one key may be apart.
const escapeDelay = 50 * time.Millisecond

// Open prepares the terminal, and reads keys until [Terminal.Close]. Its goroutines end the process
// with their panic after they have restored the terminal.
func Open(opts Options) (*Terminal, error) {
	former, err := term.MakeRaw(int(opts.In.Fd()))
	if err != nil {
		return nil, fmt.Errorf("preparing the terminal: %w", err)
	}
	t := newTerminal(opts, opts.Out, func() (int, int) {
		width, height, err := term.GetSize(int(opts.Out.Fd()))
		if err != nil || width <= 0 || height <= 0 {
			return 80, 24
		}
		return width, height
	})
	t.former = former
	_, _ = io.WriteString(opts.Out, "\x1b[?2004h") // bracketed paste; draw reports errors
	t.drawFrame()
	go func() {
		defer t.endOnPanic()
		t.readKeys(opts.In)
	}()
	go func() {
		defer t.endOnPanic()
		t.watchSize()
	}()
	return t, nil
}

func newTerminal(opts Options, out io.Writer, size func() (int, int)) *Terminal {
	if opts.History == nil {
		opts.History, _ = lineedit.OpenHistory("")
	}
	return &Terminal{
		opts: opts, lines: make(chan string, maxUnread), size: size, region: region{out: out},
		stop: make(chan struct{}),
	}
}

// endOnPanic restores the terminal, so that the panic can be read.
func (t *Terminal) endOnPanic() {
	if v := recover(); v != nil {
		t.restoreMode()
		panic(v)
	}
}

// Close prints what is unfinished, removes the editor, and restores the terminal. Later
// output is printed as by any program. Close may be called more than once.
func (t *Terminal) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closeLocked()
}

func (t *Terminal) closeLocked() {
	if t.closed {
		return
	}
	t.endTails()
	t.closed = true
	close(t.stop)
	close(t.lines)
	width, _ := t.size()
	_ = t.region.drawFrame(&frame{above: t.above.String(), rows: []string{""}, width: width}) // no one is left to report to
	t.above.Reset()
	t.restoreMode()
}

// endTails ends the unfinished lines.
func (t *Terminal) endTails() {
	for _, unfinished := range t.tails {
		if rest := unfinished.finishTail(); rest != "" {
			t.printLocked(rest)
		}
	}
	t.tails = nil
}

// restoreMode brings back the terminal's former mode.
func (t *Terminal) restoreMode() {
	if t.former != nil {
		_, _ = io.WriteString(t.region.out, "\x1b[?2004l"+showCursor)
		_ = term.Restore(int(t.opts.In.Fd()), t.former)
	}
}

// Lines receives what the person enters, one line for each [Terminal.OpenPrompt]. It is closed when
// the person leaves the conversation.
func (t *Terminal) Lines() <-chan string { return t.lines }

// Mentions returns the words that begin with @ and were typed in the last line that was sent; see
// [lineedit.Buffer.Mentions].
func (t *Terminal) Mentions() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mentions
}

// SetBusy reports that an answer is under way although a prompt is open: ^C stops the answer.
func (t *Terminal) SetBusy(busy bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy = busy
}

// OpenPrompt shows a prompt. The next line answers it.
func (t *Terminal) OpenPrompt(p Prompt) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.endTails()
	p.Text = terminal.CleanLine(p.Text)
	if p.Question && t.draft == nil && !t.editor.IsEmpty() {
		draft := t.editor
		t.draft, t.editor = &draft, lineedit.Buffer{}
	}
	if t.prompt == nil {
		t.leaving = false
	}
	t.prompt, t.menu = &p, nil
	t.sendQueued()
	if t.ended && !p.Question && t.prompt != nil {
		t.closeLocked()
	}
	t.drawLocked()
}

// ClosePrompt takes the prompt back, if it is still open.
func (t *Terminal) ClosePrompt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prompt = nil
	t.drawLocked()
}

// SetDraft puts text into the editor.
func (t *Terminal) SetDraft(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.editor.SetText(text)
	t.drawLocked()
}

// Print prints text above the editor. It may contain styles, and must be clean; see
// [terminal.Clean].
func (t *Terminal) Print(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.printLocked(text)
	t.drawLocked()
}

// printLocked prints lines. The last one may lack its newline.
func (t *Terminal) printLocked(text string) {
	text = strings.TrimSuffix(text, "\n") + "\n"
	t.above.WriteString(text)
	t.spaced = text == "\n" || strings.HasSuffix(text, "\n\n")
}

// CopyText asks the terminal to put text on the clipboard, by the sequence OSC 52, which also works
// over ssh. It fails if the text is longer than terminals accept.
func (t *Terminal) CopyText(text string) error {
	const limit = 74994
	if len(text) > limit {
		return fmt.Errorf("the text has %d bytes: terminals copy at most %d", len(text), limit)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := io.WriteString(t.region.out, ansi.SetSystemClipboard(text))
	return err
}

// SetCompletion sets [Options].Complete.
func (t *Terminal) SetCompletion(complete func(before string) (word int, items []Suggestion)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.opts.Complete = complete
}

// Width returns the number of columns.
func (t *Terminal) Width() int {
	width, _ := t.size()
	return width
}

// Refresh redraws, because the status has changed.
func (t *Terminal) Refresh() { t.drawFrame() }

func (t *Terminal) drawFrame() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drawLocked()
}

// drawSoon draws after [drawInterval], so that a fast stream costs few frames.
func (t *Terminal) drawSoon() {
	wait := drawInterval - time.Since(t.lastDraw)
	if wait <= 0 {
		t.drawLocked()
		return
	}
	if t.drawTimer == nil {
		t.drawTimer = time.AfterFunc(wait, func() {
			defer safe.Recover(func(p *safe.Panic) { t.restoreMode(); panic(p.Value) })
			t.drawFrame()
		})
	}
}

// drawLocked draws the current frame.
func (t *Terminal) drawLocked() {
	if t.drawTimer != nil {
		t.drawTimer.Stop()
		t.drawTimer = nil
	}
	if t.closed {
		if t.above.Len() > 0 {
			_, _ = io.WriteString(t.region.out, t.above.String()) // no one is left to report to
			t.above.Reset()
		}
		return
	}
	t.lastDraw = time.Now()
	f := t.buildFrame()
	t.above.Reset()
	_ = t.region.drawFrame(f) // a terminal that is gone ends the input, and so the conversation
}

// buildFrame lays out the region: the unfinished lines, queued messages, the editor, and below it a
// menu or the status line.
func (t *Terminal) buildFrame() *frame {
	width, height := t.size()
	styles := t.opts.Styles
	f := &frame{above: t.above.String(), width: width}
	var below []string
	switch {
	case t.menu != nil:
		below = t.menu.renderRows(styles, width)
	case t.notice != "":
		below = []string{styles.Format(terminal.Warning, terminal.Truncate(terminal.CleanLine(t.notice), width-1))}
	case t.opts.Status != nil:
		below = []string{styles.Format(terminal.Muted, fitStatus(t.opts.Status(), width-1))}
	}
	prompt := "> "
	if t.prompt != nil {
		prompt = t.prompt.Text
	}
	if t.searching {
		prompt = "search: "
	}
	question := ""
	if ansi.StringWidth(prompt)*2 > width { // a question above its answer
		question, prompt = prompt, "> "
	}
	layout := t.editor.Layout(prompt, width, min(10, max(1, height-len(below)-3)))
	var rows []string
	for _, unfinished := range t.tails {
		if rest := unfinished.renderTail(); rest != "" {
			rows = append(rows, wrapStyled(strings.TrimSuffix(rest, "\n"), width)...)
		}
	}
	for _, q := range t.queue {
		rows = append(rows, styles.Format(terminal.Muted, terminal.Truncate("next: "+terminal.CleanLine(firstLine(q.text)), width-1)))
	}
	if question != "" {
		rows = append(rows, wrapStyled(question, width)...)
	}
	isMessage := t.prompt == nil || !t.prompt.Question
	if isMessage && height > 6 && (!t.spaced || len(rows) > 0) {
		rows = append(rows, "") // as in the printed lines; see printEcho
	}
	if room := max(0, height-1-len(layout.Rows)-len(below)); len(rows) > room {
		rows = rows[len(rows)-room:]
	}
	f.row, f.column = len(rows)+layout.Row, layout.Column
	for i, row := range layout.Rows {
		if mark := strings.TrimSuffix(prompt, " "); i == 0 && layout.Above == 0 && strings.HasPrefix(row, mark) {
			layout.Rows[i] = styles.Format(terminal.Title, mark) + row[len(mark):]
		}
	}
	f.rows = append(append(rows, layout.Rows...), below...)
	return f
}

// wrapStyled breaks styled text into rows.
func wrapStyled(text string, width int) []string {
	text = strings.ReplaceAll(text, "\t", "    ")
	return strings.Split(ansi.Hardwrap(text, max(1, width), true), "\n")
}

// fitStatus joins the parts that fit, with at least the first one.
func fitStatus(parts []string, width int) string {
	line := ""
	for _, part := range parts {
		part = terminal.CleanLine(part)
		switch {
		case part == "":
		case line == "":
			line = terminal.Truncate(part, width)
		case ansi.StringWidth(line)+3+ansi.StringWidth(part) <= width:
			line += " · " + part
		default:
			return line
		}
	}
	return line
}

// readKeys handles what the terminal sends until it ends.
func (t *Terminal) readKeys(in io.Reader) {
	buf := make([]byte, 4096)
	for {
		n, err := in.Read(buf)
		if n > 0 {
			t.handleBytes(buf[:n], false)
		}
		if err != nil {
			if !errors.Is(err, os.ErrClosed) {
				t.Close()
			}
			return
		}
	}
}

// watchSize redraws when the terminal's size changes, and each second, because the status has the
// time.
func (t *Terminal) watchSize() {
	resized, end := notifyResize()
	defer end()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case <-t.stop:
			return
		case <-resized:
		case <-second.C:
		}
		t.drawFrame()
	}
}

// handleBytes decodes bytes and handles their keys. With final, an unfinished sequence is a key.
func (t *Terminal) handleBytes(chunk []byte, final bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.escTimer != nil {
		t.escTimer.Stop()
		t.escTimer = nil
	}
	inputs := t.keyboard.decodeInputs(chunk, final)
	for _, in := range inputs {
		t.handleInput(in)
	}
	if len(t.keyboard.pending) > 0 && !t.keyboard.pasting {
		t.escTimer = time.AfterFunc(escapeDelay, func() {
			defer safe.Recover(func(p *safe.Panic) { t.restoreMode(); panic(p.Value) })
			t.handleBytes(nil, true)
		})
	}
	if len(inputs) > 0 {
		t.drawLocked()
	}
}
