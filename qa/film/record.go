package film

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Typing speed.
const (
	keyDelay     = 55 * time.Millisecond
	thinkingTime = 700 * time.Millisecond
)

// A frame is a pane's content from time at on.
type frame struct {
	at    time.Duration
	title string
	lines []string
	// painted are the lines as SVG after "<text ", nil if their text decides how they look.
	painted []string
	// row and col are the cursor's position; row is -1 without a cursor.
	row, col int
}

// recorder plays a story and stores both panes' frames. After the first error, all methods do
// nothing.
type recorder struct {
	ctx      context.Context
	bin, dir string
	err      error

	process *exec.Cmd
	typing  io.WriteCloser
	printed chan string // the process's output lines; closed when the output ends

	now              time.Duration
	editor, terminal []frame
	text             []string // the lines in the editor
	screen           []string // the lines in the terminal
}

func newRecorder(ctx context.Context, bin, dir, text string) *recorder {
	r := &recorder{ctx: ctx, bin: bin, dir: dir, text: strings.Split(strings.TrimSuffix(text, "\n"), "\n"), screen: []string{"$ "}}
	r.drawEditor("", -1, 0)
	r.drawTerminal()
	return r
}

func (r *recorder) advanceClock(d time.Duration) { r.now += d }

func (r *recorder) drawEditor(status string, row, col int) {
	r.editor = append(r.editor, frame{at: r.now, title: file + status, lines: slices.Clone(r.text), row: row, col: col})
}

// drawTerminal adds a frame with the terminal's last lines, and the cursor at their end.
func (r *recorder) drawTerminal() {
	lines := slices.Clone(r.screen[max(0, len(r.screen)-terminalRows):])
	last := len(lines) - 1
	r.terminal = append(r.terminal, frame{at: r.now, title: "terminal", lines: lines, row: last, col: len([]rune(lines[last]))})
}

// typeText types text at the end of the terminal's last line.
func (r *recorder) typeText(text string) {
	r.advanceClock(thinkingTime)
	for _, c := range text {
		r.screen[len(r.screen)-1] += string(c)
		r.drawTerminal()
		r.advanceClock(keyDelay)
	}
	r.advanceClock(thinkingTime / 2)
}

// runCommand types a command, starts it, and shows its output up to a line with until.
func (r *recorder) runCommand(command, until string) {
	r.typeText(command)
	r.process = exec.CommandContext(r.ctx, r.bin, strings.Fields(command)[1:]...)
	r.process.Dir = r.dir
	r.process.Env = append(os.Environ(), "AGENTHOST_SESSION_DB=memory:", "AGENTHOST_ARTIFACTS=memory:")
	typing, err := r.process.StdinPipe()
	if err != nil {
		r.err = err
		return
	}
	out, in, err := os.Pipe()
	if err != nil {
		r.err = err
		return
	}
	r.typing, r.printed = typing, make(chan string)
	r.process.Stdout, r.process.Stderr = in, in
	r.err = r.process.Start()
	in.Close()
	go func() {
		defer close(r.printed)
		defer out.Close()
		for lines := bufio.NewScanner(out); lines.Scan(); {
			select {
			case r.printed <- lines.Text():
			case <-r.ctx.Done():
				return
			}
		}
	}()
	r.drawOutput(until)
}

// sendLine types a line in the conversation, and shows the output up to a line with
// until.
func (r *recorder) sendLine(line, until string) {
	r.typeText(line)
	if r.err != nil {
		return
	}
	if _, r.err = io.WriteString(r.typing, line+"\n"); r.err == nil {
		r.drawOutput(until)
	}
	r.advanceClock(readingTime)
}

// drawOutput shows output as it is printed, up to a line with until, then the prompt.
func (r *recorder) drawOutput(until string) {
	if r.err != nil {
		return
	}
	began, from := time.Now(), r.now
	for {
		select {
		case line, ok := <-r.printed:
			if !ok {
				r.err = fmt.Errorf("the program exited before it printed %q", until)
				return
			}
			r.now = from + time.Since(began)
			r.screen = append(r.screen, line)
			done := strings.Contains(line, until)
			if done {
				// A conversation's prompt in a terminal.
				r.screen = append(r.screen, "> ")
			}
			r.drawTerminal()
			if done {
				return
			}
		case <-r.ctx.Done():
			r.err = fmt.Errorf("waiting for %q: %w", until, r.ctx.Err())
			return
		}
	}
}

// editFile deletes old after prefix in the file, and types text instead.
func (r *recorder) editFile(prefix, old, text string) {
	row := slices.IndexFunc(r.text, func(line string) bool { return strings.Contains(line, prefix+old) })
	if row < 0 {
		r.err = fmt.Errorf("%s does not contain %q", file, prefix+old)
		return
	}
	before, after, _ := strings.Cut(r.text[row], prefix+old)
	before += prefix + old
	show := func(status string) {
		r.text[row] = before + after
		r.drawEditor(status, row, len([]rune(before)))
		r.advanceClock(2 * keyDelay)
	}
	r.advanceClock(thinkingTime)
	show("")
	r.advanceClock(thinkingTime)
	for range []rune(old) {
		before = before[:len(before)-1]
		show(" ●")
	}
	for _, c := range text {
		before += string(c)
		show(" ●")
	}
	r.advanceClock(thinkingTime)
}

// saveFile saves the file, and shows the output up to a line with until.
func (r *recorder) saveFile(until string) {
	if r.err == nil {
		r.err = os.WriteFile(r.filePath(), []byte(strings.Join(r.text, "\n")+"\n"), 0o600)
	}
	saved := r.now
	last := r.editor[len(r.editor)-1]
	r.drawEditor("   saved", last.row, last.col)
	r.drawOutput(until)
	r.drawEditor(fmt.Sprintf("   saved, reloaded %.2f s later", (r.now-saved).Seconds()), last.row, last.col)
	r.advanceClock(readingTime)
	r.drawEditor("", -1, 0)
}

// stopProcess stops the process.
func (r *recorder) stopProcess() {
	if r.process == nil || r.process.Process == nil {
		return
	}
	r.typing.Close()
	for range r.printed {
	}
	_ = r.process.Wait() // the exit status does not matter
}
