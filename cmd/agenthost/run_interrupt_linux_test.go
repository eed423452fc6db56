package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"agenthost/internal/command"
)

// interruptedApp answers "hold" by calling look, after which it never answers; "look" by calling a
// service; and any other message at once.
var interruptedApp = map[string]string{
	"app.yaml": "models: {demo: {provider: scripted, script: s.yaml}}\nrun_config: {response_modalities: [TEXT]}\n",
	"root_agent.yaml": `name: clerk
model: demo
instruction: Help.
tools:
- expr: {name: peek, description: Peeks., value: "'seen'"}
- http: {name: look, description: Looks., url: "%s/look"}
`,
	"s.yaml": `- when: responses.peek != nil && user == "hold"
  text: never
  delay: 1h
- when: user == "hold"
  calls: [{name: peek}]
- when: user == "look"
  calls: [{name: look}]
- text: "You wrote: {user}"
`,
}

// With --plain, ^C during an answer stops the answer: the conversation continues. ^C or ^D at the
// prompt ends it, and prints the command that continues it.
func TestRunInterruptedInTerminal(t *testing.T) {
	for _, live := range []string{"", "--live"} {
		for _, leave := range []string{"\x03", "\x04"} {
			t.Run(fmt.Sprintf("%q%s", leave, live), func(t *testing.T) {
				c := startInterruptedRun(t, strings.Fields(live)...)
				c.waitFor("> ")
				c.write("hold\n")
				c.waitFor("peek ← ")
				c.write("\x03")
				c.waitFor("answer stopped: ^C or ^D now ends the conversation\r\n> ")
				c.write("next\n")
				c.waitFor("You wrote: next\r\n> ")
				c.write(leave)
				c.waitFor("\r\ncontinue with: agenthost run 'my apps/clerk' --session s" + strings.TrimSuffix(" "+live, " ") + "\r\n")
				c.expectExit(command.ExitOK)
			})
		}
	}
}

// A stopped answer is stored as one that was interrupted: an open call has an error as its
// response, otherwise an event has the code INVOCATION_ABORTED. The next message is answered.
func TestRunStoresStoppedAnswer(t *testing.T) {
	c := startInterruptedRun(t)
	c.waitFor("> ")
	c.write("hold\n")
	c.waitFor("peek ← ")
	c.write("\x03")
	c.waitFor("answer stopped")
	c.write("look\n")
	<-c.looking
	c.write("\x03")
	c.waitFor("answer stopped")
	c.write("next\n")
	c.waitFor("You wrote: next\r\n> ")
	c.write("/quit\n")
	c.expectExit(command.ExitOK)
	show := exec.CommandContext(t.Context(), "agenthost", "session", "show", "my apps/clerk", "s", "--json")
	show.Dir = c.cmd.Dir
	events, err := show.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, events)
	}
	for _, want := range []string{`"errorCode": "INVOCATION_ABORTED"`, "This call was canceled because the client left."} {
		if !bytes.Contains(events, []byte(want)) {
			t.Errorf("the session does not contain %s:\n%s", want, events)
		}
	}
}

// With piped input, an interrupt during an answer stops it too, and the next line is answered.
func TestRunInterruptedWithPipe(t *testing.T) {
	c := newInterruptedRun(t)
	input, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.start()
	if _, err := input.Write([]byte("hold\nnext\n")); err != nil {
		t.Fatal(err)
	}
	c.waitFor("peek ← ")
	if err := c.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	c.waitFor("answer stopped: ^C or ^D now ends the conversation")
	c.waitFor("You wrote: next")
	input.Close()
	c.waitFor("continue with: agenthost run 'my apps/clerk' --session s")
	c.expectExit(command.ExitOK)
}

// An interruptedRun is agenthost run in a terminal.
type interruptedRun struct {
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File // the program's end of the terminal
	side *os.File // the person's end
	// looking receives a value for each call to the service, which never responds.
	looking chan struct{}
	output  []byte
}

// startInterruptedRun starts a conversation with plain lines in a terminal.
func startInterruptedRun(t *testing.T, flags ...string) *interruptedRun {
	c := newInterruptedRun(t, append(flags, "--plain")...)
	c.cmd.Stdin = c.tty
	c.start()
	return c
}

func newInterruptedRun(t *testing.T, flags ...string) *interruptedRun {
	t.Helper()
	c := &interruptedRun{t: t, looking: make(chan struct{}, 1)}
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		c.looking <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(service.Close)
	dir := t.TempDir()
	for name, text := range interruptedApp {
		saveFile(t, filepath.Join(dir, "my apps/clerk"), name, strings.ReplaceAll(text, "%s", service.URL))
	}
	c.side, c.tty = openTerminal(t)
	c.cmd = exec.CommandContext(t.Context(), "agenthost", append([]string{"run", "my apps/clerk", "--session", "s"}, flags...)...)
	c.cmd.Dir, c.cmd.Stdout, c.cmd.Stderr = dir, c.tty, c.tty
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1}
	return c
}

func (c *interruptedRun) start() {
	c.t.Helper()
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.tty.Close()
}

// openTerminal opens a pseudoterminal: a person's end, and a program's.
func openTerminal(t *testing.T) (side, tty *os.File) {
	t.Helper()
	side, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { side.Close() })
	if err := unix.IoctlSetPointerInt(int(side.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(side.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return side, tty
}

func (c *interruptedRun) write(text string) {
	c.t.Helper()
	if _, err := c.side.WriteString(text); err != nil {
		c.t.Fatal(err)
	}
}

// waitFor reads the output up to this string.
func (c *interruptedRun) waitFor(text string) {
	c.t.Helper()
	buf := make([]byte, 1024)
	for {
		if _, rest, ok := bytes.Cut(c.output, []byte(text)); ok {
			c.output = rest
			return
		}
		n, err := c.side.Read(buf)
		c.output = append(c.output, buf[:n]...)
		if err != nil {
			c.t.Fatalf("the program ended before it printed %q: %q", text, c.output)
		}
	}
}

func (c *interruptedRun) expectExit(want int) {
	c.t.Helper()
	_ = c.cmd.Wait() // the state has the code
	if got := c.cmd.ProcessState.ExitCode(); got != want {
		c.t.Errorf("exit status %d, want %d: %q", got, want, c.output)
	}
}
