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

// How fast somebody types.
const (
	keyDelay     = 55 * time.Millisecond
	thinkingTime = 700 * time.Millisecond
)

// A frame is what a pane shows from a moment on.
type frame struct {
	at    time.Duration
	title string
	lines []string
	// row and col are where the cursor stands; row is -1 where there is none.
	row, col int
}

// recorder plays a story, and keeps the frames of both panes. The first thing
// that goes wrong ends it: everything behind does nothing.
type recorder struct {
	ctx      context.Context
	bin, dir string
	err      error

	process *exec.Cmd
	typing  io.WriteCloser
	printed chan string // the lines of the process; closed at their end

	now              time.Duration
	editor, terminal []frame
	text             []string // what the editor has
	screen           []string // what the terminal has
}

func newRecorder(ctx context.Context, bin, dir, text string) *recorder {
	r := &recorder{ctx: ctx, bin: bin, dir: dir, text: strings.Split(strings.TrimSuffix(text, "\n"), "\n"), screen: []string{"$ "}}
	r.showEditor("", -1, 0)
	r.showTerminal()
	return r
}

func (r *recorder) advanceClock(d time.Duration) { r.now += d }

func (r *recorder) showEditor(status string, row, col int) {
	r.editor = append(r.editor, frame{r.now, file + status, slices.Clone(r.text), row, col})
}

// showTerminal shows the end of the terminal, the cursor behind its last line.
func (r *recorder) showTerminal() {
	lines := slices.Clone(r.screen[max(0, len(r.screen)-terminalRows):])
	last := len(lines) - 1
	r.terminal = append(r.terminal, frame{r.now, "terminal", lines, last, len([]rune(lines[last]))})
}

// typeText types a text behind what stands in the terminal's last line.
func (r *recorder) typeText(text string) {
	r.advanceClock(thinkingTime)
	for _, c := range text {
		r.screen[len(r.screen)-1] += string(c)
		r.showTerminal()
		r.advanceClock(keyDelay)
	}
	r.advanceClock(thinkingTime / 2)
}

// runCommand types a command and starts it; what it prints ends with until.
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
	r.showOutput(until)
}

// sendLine types a line in the conversation; the answer ends with until.
func (r *recorder) sendLine(line, until string) {
	r.typeText(line)
	if r.err != nil {
		return
	}
	if _, r.err = io.WriteString(r.typing, line+"\n"); r.err == nil {
		r.showOutput(until)
	}
	r.advanceClock(readingTime)
}

// showOutput shows what is printed, when it is, to the line with until. Then the
// terminal has its prompt again.
func (r *recorder) showOutput(until string) {
	if r.err != nil {
		return
	}
	began, from := time.Now(), r.now
	for {
		select {
		case line, ok := <-r.printed:
			if !ok {
				r.err = fmt.Errorf("the program ended before it said %q", until)
				return
			}
			r.now = from + time.Since(began)
			r.screen = append(r.screen, line)
			over := strings.Contains(line, until)
			if over {
				// A conversation at a terminal begins each line so.
				r.screen = append(r.screen, "> ")
			}
			r.showTerminal()
			if over {
				return
			}
		case <-r.ctx.Done():
			r.err = fmt.Errorf("waiting for %q: %w", until, r.ctx.Err())
			return
		}
	}
}

// editFile takes away what stands behind a text of the file, and types something.
func (r *recorder) editFile(behind, old, text string) {
	row := slices.IndexFunc(r.text, func(line string) bool { return strings.Contains(line, behind+old) })
	if row < 0 {
		r.err = fmt.Errorf("%s does not have %q", file, behind+old)
		return
	}
	before, after, _ := strings.Cut(r.text[row], behind+old)
	before += behind + old
	show := func(status string) {
		r.text[row] = before + after
		r.showEditor(status, row, len([]rune(before)))
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

// saveFile saves the file; what the conversation says of it ends with until.
func (r *recorder) saveFile(until string) {
	if r.err == nil {
		r.err = os.WriteFile(r.filePath(), []byte(strings.Join(r.text, "\n")+"\n"), 0o600)
	}
	saved := r.now
	last := r.editor[len(r.editor)-1]
	r.showEditor("   saved", last.row, last.col)
	r.showOutput(until)
	r.showEditor(fmt.Sprintf("   saved, told %.2f s later", (r.now-saved).Seconds()), last.row, last.col)
	r.advanceClock(readingTime)
	r.showEditor("", -1, 0)
}

// stopProcess ends the process.
func (r *recorder) stopProcess() {
	if r.process == nil || r.process.Process == nil {
		return
	}
	r.typing.Close()
	for range r.printed {
	}
	_ = r.process.Wait() // what it thinks of its end is not shown
}
