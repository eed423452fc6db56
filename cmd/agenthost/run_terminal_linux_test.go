package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"golang.org/x/sys/unix"

	"agenthost/internal/command"
)

// A terminalRun is agenthost run in a pseudoterminal whose screen is emulated.
type terminalRun struct {
	t      *testing.T
	cmd    *exec.Cmd
	side   *os.File
	screen *vt.Emulator
	// received is all that the terminal has received.
	received []byte
}

// startTerminalRun starts a conversation with the app in dir/clerk.
func startTerminalRun(t *testing.T, dir string, width, height int, flags ...string) *terminalRun {
	t.Helper()
	side, tty := openTerminal(t)
	if err := unix.IoctlSetWinsize(int(side.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(height), Col: uint16(width)}); err != nil {
		t.Fatal(err)
	}
	r := &terminalRun{t: t, side: side, screen: vt.NewEmulator(width, height)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // then waitFor fails, and shows the screen
	t.Cleanup(cancel)
	r.cmd = exec.CommandContext(ctx, "agenthost", append([]string{"run", "clerk", "--session", "s"}, flags...)...)
	r.cmd.Dir, r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = dir, tty, tty, tty
	r.cmd.Env = append(os.Environ(), "TERM=xterm-256color", "NO_COLOR=", "XDG_STATE_HOME="+filepath.Join(dir, "state"))
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	return r
}

func (r *terminalRun) typeKeys(text string) {
	r.t.Helper()
	if _, err := r.side.WriteString(text); err != nil {
		r.t.Fatal(err)
	}
}

// showLines returns the lines that have scrolled away and those of the screen, without trailing
// spaces.
func (r *terminalRun) showLines() string {
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

// waitFor reads until the lines contain the text.
func (r *terminalRun) waitFor(text string) {
	r.t.Helper()
	buf := make([]byte, 4096)
	for !strings.Contains(r.showLines(), text) {
		n, err := r.side.Read(buf)
		r.received = append(r.received, buf[:n]...)
		if _, writeErr := r.screen.Write(buf[:n]); writeErr != nil {
			r.t.Fatal(writeErr)
		}
		if err != nil && !strings.Contains(r.showLines(), text) {
			r.t.Fatalf("the program ended before it showed %q:\n%s", text, r.showLines())
		}
	}
}

// expectExit waits for the end of the program, and checks that it has restored the terminal.
func (r *terminalRun) expectExit(want int) {
	r.t.Helper()
	_ = r.cmd.Wait() // the state has the code
	if got := r.cmd.ProcessState.ExitCode(); got != want {
		r.t.Errorf("exit status %d, want %d:\n%s", got, want, r.showLines())
	}
	state, err := unix.IoctlGetTermios(int(r.side.Fd()), unix.TCGETS)
	if err != nil || state.Lflag&unix.ICANON == 0 || state.Lflag&unix.ECHO == 0 {
		r.t.Errorf("the terminal is not restored: %v, %v", state, err)
	}
}

// saveClerk saves an app that repeats the message and never ends the answer to "hold".
func saveClerk(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range interruptedApp {
		saveFile(t, filepath.Join(dir, "clerk"), name, strings.ReplaceAll(text, "%s", "http://127.0.0.1:9"))
	}
	return dir
}

// In a terminal, keys edit the message, and a pasted text is one message. The next conversation has
// the history.
func TestRunEditsMessage(t *testing.T) {
	dir := saveClerk(t)
	r := startTerminalRun(t, dir, 80, 24)
	r.waitFor("/help")
	r.typeKeys("where is oder 7?\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D\x1b[Dr\r")
	r.waitFor("You wrote: where is order 7?\n")
	r.waitFor("answered in")
	r.typeKeys("\x1b[200~two\nlines\x1b[201~\r")
	r.waitFor("You wrote: two\nlines\n")
	r.typeKeys("\x04")
	r.waitFor("continue with: agenthost run clerk --session s")
	r.expectExit(command.ExitOK)

	r = startTerminalRun(t, dir, 80, 24)
	r.waitFor("/help")
	r.typeKeys("\x1b[A\x1b[A\x1b[A\r")
	r.waitFor("You wrote: where is order 7?\n")
	r.typeKeys("\x04")
	r.waitFor("continue with: ")
	r.expectExit(command.ExitOK)
}

// In a terminal, ^C stops the answer and keeps the conversation. At the prompt, the second ^C leaves
// and prints how to continue.
func TestRunStopsAnswerInTerminal(t *testing.T) {
	for _, live := range []string{"", "--live"} {
		t.Run(live, func(t *testing.T) {
			r := startTerminalRun(t, saveClerk(t), 80, 24, strings.Fields(live)...)
			r.waitFor("/help")
			r.typeKeys("hold\r")
			r.waitFor("← peek")
			r.typeKeys("\x03")
			r.waitFor("answer stopped\n")
			r.typeKeys("next\r")
			r.waitFor("You wrote: next\n")
			r.waitFor("answered in")
			r.typeKeys("\x03")
			r.waitFor("^C again or ^D leaves")
			r.typeKeys("\x03")
			r.waitFor("continue with: agenthost run clerk --session s" + strings.TrimSuffix(" "+live, " "))
			r.expectExit(command.ExitOK)
		})
	}
}
