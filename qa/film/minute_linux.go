package film

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/vt"
	"golang.org/x/sys/unix"
)

// A terminalRecorder plays a story in a pseudoterminal, whose screen is emulated. After the first error, all
// methods do nothing.
type terminalRecorder struct {
	ctx context.Context
	// title names the film, and the screen has columns and rows.
	title         string
	columns, rows int
	// clean replaces what differs between machines in the output.
	clean     func(output []byte) []byte
	bin, dir  string
	side, tty *os.File
	screen    *vt.Emulator
	now       time.Duration
	frames    []frame
	process   *exec.Cmd
	err       error
}

// RecordFirstMinute creates an app and talks to it with the agenthost binary at path bin, in a
// temporary folder and a real terminal. It returns the recording as SVG, and all lines that the
// terminal has shown at the end.
func RecordFirstMinute(ctx context.Context, bin string) (svg []byte, lines string, err error) {
	dir, err := os.MkdirTemp("", "film")
	if err != nil {
		return nil, "", err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r := &terminalRecorder{ctx: ctx, title: "The first minute in a terminal", columns: 84, rows: 24, bin: bin, dir: dir}
	r.clean = func(output []byte) []byte { return bytes.ReplaceAll(output, []byte(dir), []byte("/apps/ana")) }
	if err := r.openTerminal(); err != nil {
		return nil, "", err
	}
	defer r.tty.Close()
	defer r.side.Close()
	r.runCommand("agenthost new hello --template tools", "saved version.")
	r.waitForEnd()
	r.runCommand("agenthost run hello", "/help")
	r.sendKeys("How much are two nights?", "answered in")
	r.sendKeys("/age", "list the agents")
	r.sendKeys("nts", "CLASS")
	r.sendKeys("Book it, please", "approve book? [y/n]")
	r.sendKeys("y", "Booked for 2 nights")
	r.waitFor("answered in")
	r.now += readingTime
	r.pressKey("\x04")
	r.waitFor("continue with")
	r.waitForEnd()
	r.now += 3 * readingTime
	if r.err != nil {
		return nil, "", r.err
	}
	return r.drawSVG(), r.listLines(), nil
}

// openTerminal opens the two sides of a pseudoterminal, and an empty screen.
func (r *terminalRecorder) openTerminal() error {
	r.screen = vt.NewEmulator(r.columns, r.rows)
	side, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	r.side = side
	if err := unix.IoctlSetPointerInt(int(side.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	number, err := unix.IoctlGetInt(int(side.Fd()), unix.TIOCGPTN)
	if err != nil {
		return err
	}
	if r.tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		return err
	}
	return unix.IoctlSetWinsize(int(side.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(r.rows), Col: uint16(r.columns)})
}

// runCommand types a command after a shell's prompt, starts it, and shows its output until it has the
// text. A command without output has none.
func (r *terminalRecorder) runCommand(line, until string) {
	r.writeText("$ ")
	r.now += thinkingTime
	for _, c := range line {
		r.writeText(string(c))
		r.now += keyDelay
	}
	r.now += thinkingTime
	r.writeText("\r\n")
	if r.err != nil {
		return
	}
	words := strings.Fields(line)
	if words[0] == "agenthost" {
		words[0] = r.bin
	}
	r.process = exec.CommandContext(r.ctx, words[0], words[1:]...)
	r.process.Dir, r.process.Stdin, r.process.Stdout, r.process.Stderr = r.dir, r.tty, r.tty, r.tty
	r.process.Env = append(os.Environ(), "TERM=xterm-256color", "NO_COLOR=", "XDG_STATE_HOME="+r.dir, "AGENTHOST_SESSION_DB=sqlite:///"+r.dir+"/sessions.db")
	r.process.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if r.err = r.process.Start(); r.err == nil && until != "" {
		r.waitFor(until)
		r.now += readingTime
	}
}

// writeText writes text to the screen, as a shell does.
func (r *terminalRecorder) writeText(text string) {
	if r.err == nil {
		_, r.err = r.screen.WriteString(text)
		r.addFrame()
	}
}

// sendKeys types a message and Enter, and shows the output until it has the text. The beginning of a
// command shows its completions, and has no Enter.
func (r *terminalRecorder) sendKeys(text, until string) {
	r.now += thinkingTime
	for i, c := range text {
		r.pressKey(string(c))
		r.waitForEcho(text[:i+len(string(c))])
		r.now += keyDelay
	}
	r.now += thinkingTime / 2
	if strings.HasPrefix(text, "/") {
		r.readUntil(func() bool { return strings.Contains(r.screen.String(), until) }, until, true)
	} else {
		r.pressKey("\r")
		r.waitFor(until)
	}
	r.now += readingTime
}

func (r *terminalRecorder) pressKey(key string) {
	if r.err == nil {
		_, r.err = r.side.WriteString(key)
	}
}

// waitForEcho shows the output until the cursor's line ends with the text before the cursor.
func (r *terminalRecorder) waitForEcho(text string) {
	r.readUntil(func() bool {
		at := r.screen.CursorPosition()
		line := []rune(strings.Split(r.screen.String(), "\n")[at.Y] + strings.Repeat(" ", r.columns))
		return strings.HasSuffix(string(line[:at.X]), text)
	}, "the echo of "+text, false)
}

// waitFor shows the output until the screen has the text, which is not where it was before.
func (r *terminalRecorder) waitFor(text string) {
	before := strings.Count(r.listLines(), text)
	if text == "answered in" { // the status line has one at most
		before = 0
	}
	r.readUntil(func() bool { return strings.Count(r.listLines(), text) > before }, text, true)
}

// readUntil shows the output until done. With realTime, the film's clock runs meanwhile.
func (r *terminalRecorder) readUntil(done func() bool, what string, realTime bool) {
	began, from := time.Now(), r.now
	buf := make([]byte, 4096)
	for r.err == nil && !done() {
		err := r.side.SetReadDeadline(time.Now().Add(20 * time.Second))
		n, readErr := r.side.Read(buf)
		err = errors.Join(err, readErr, r.ctx.Err())
		if err != nil {
			r.err = fmt.Errorf("waiting for %q: %w\n%s", what, err, r.listLines())
			return
		}
		if _, r.err = r.screen.Write(r.clean(buf[:n])); realTime {
			r.now = from + time.Since(began)
		}
		r.addFrame()
	}
}

// waitForEnd waits until the process has ended, and shows its last output.
func (r *terminalRecorder) waitForEnd() {
	if r.err != nil {
		return
	}
	r.err = r.process.Wait()
	r.now += thinkingTime
}

// listLines returns the lines that have scrolled away and those of the screen.
func (r *terminalRecorder) listLines() string {
	var rows []string
	for i := range r.screen.Scrollback().Len() {
		rows = append(rows, r.screen.Scrollback().Line(i).String())
	}
	rows = append(rows, strings.Split(r.screen.String(), "\n")...)
	for i, row := range rows {
		rows[i] = strings.TrimRight(row, " ")
	}
	return strings.TrimRight(strings.Join(rows, "\n"), "\n")
}

// addFrame adds what the screen shows, unless nothing has changed.
func (r *terminalRecorder) addFrame() {
	at := r.screen.CursorPosition()
	f := frame{at: r.now, title: "terminal", row: at.Y, col: at.X}
	for y := range r.rows {
		line, painted := r.paintRow(y)
		f.lines, f.painted = append(f.lines, line), append(f.painted, painted)
	}
	if n := len(r.frames); n > 0 {
		last := &r.frames[n-1]
		if slices.Equal(last.painted, f.painted) && last.row == f.row && last.col == f.col {
			return
		}
		if f.at-last.at < 20*time.Millisecond { // too short to be seen
			f.at = last.at
			*last = f
			return
		}
	}
	r.frames = append(r.frames, f)
}

// paintRow returns a row's text, and the row as SVG after "<text ".
func (r *terminalRecorder) paintRow(y int) (line, painted string) {
	var text, b strings.Builder
	class := ""
	b.WriteString(">")
	for x := range r.columns {
		c := r.screen.CellAt(x, y)
		if c == nil || c.Content == "" {
			c = &uv.Cell{Content: " "}
		}
		if next := classOf(c.Style); next != class && c.Content != " " {
			if class != "" {
				b.WriteString("</tspan>")
			}
			if class = next; class != "" {
				fmt.Fprintf(&b, `<tspan class="%s">`, class)
			}
		}
		text.WriteString(c.Content)
		b.WriteString(html.EscapeString(c.Content))
	}
	if class != "" {
		b.WriteString("</tspan>")
	}
	return text.String(), b.String()
}

// classOf returns the style's classes in the picture.
func classOf(s uv.Style) string {
	var classes []string
	if s.Attrs&uv.AttrBold != 0 {
		classes = append(classes, "bold")
	}
	if s.Attrs&uv.AttrFaint != 0 {
		classes = append(classes, "dim")
	}
	switch fmt.Sprint(s.Fg) {
	case "1":
		classes = append(classes, "bad")
	case "2":
		classes = append(classes, "good")
	case "3":
		classes = append(classes, "hot")
	case "6":
		classes = append(classes, "key")
	}
	return strings.Join(classes, " ")
}

// drawSVG returns the recording as SVG.
func (r *terminalRecorder) drawSVG() []byte {
	b, strip := new(bytes.Buffer), new(bytes.Buffer)
	width, height := max(width, 2*margin+int(float64(r.columns)*cell)), paneHeight(r.rows)
	texts := &textCache{ids: map[string]int{}}
	texts.drawStrip(strip, "terminal", r.frames, pane{0, width, height, true})
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">`+"\n", width, height)
	fmt.Fprintf(b, "<title>%s</title>\n<desc>%s</desc>\n<style>%s.bold{font-weight:600;fill:#fff}", r.title, html.EscapeString(r.listLines()), style)
	b.WriteString(renderAnimation("terminal", r.frames, height, r.now))
	fmt.Fprintf(b, "</style>\n<clipPath id=\"window\"><rect width=\"%d\" height=\"%d\" rx=\"10\"/></clipPath>\n<defs>\n%s</defs>\n", width, height, &texts.defs)
	fmt.Fprintf(b, `<g clip-path="url(#window)"><rect width="%d" height="%d" fill="#0d1117"/>`+"\n", width, height)
	b.Write(strip.Bytes())
	fmt.Fprintf(b, `</g><rect x=".5" y=".5" width="%d" height="%d" rx="10" fill="none" stroke="#30363d"/>`+"\n</svg>\n", width-1, height-1)
	return b.Bytes()
}
