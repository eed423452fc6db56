package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
)

// controlsTerminal matches characters that control a terminal or the text direction, without
// carriage returns: terminals add them to newlines, and eval's progress has its own.
var controlsTerminal = regexp.MustCompile(`[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x{80}-\x{9f}\x{202a}-\x{202e}\x{2066}-\x{2069}]`)

// TestTerminalOfCommands: commands that show a hostile app's session, answer or file names write no
// character to a terminal that controls it. The control is the same commands' output to a file.
func TestTerminalOfCommands(t *testing.T) {
	const attack = "\x1b]0;owned\x07\x1b[2J\u202eevil\u009b31m"
	dir := t.TempDir()
	quoted := `"\e]0;owned\a\e[2J\u202eevil\u009b31m"`
	for name, text := range map[string]string{
		"root_agent.yaml": "name: clerk\nmodel: demo\ninstruction: Help.\ntools:\n- expr: {name: peek, description: Peeks., value: args.text, params: {text: string}}\n",
		"app.yaml":        "models: {demo: {provider: scripted, script: s.yaml}}\n",
		"s.yaml":          "- when: responses.peek != nil\n  text: " + quoted + "\n- calls: [{name: peek, args: {text: " + quoted + "}}]\n",
		"a.test.yaml":     "- name: a\n  user: hi\n  expect: [text == 'other']\n",
		"a.eval.yaml":     "metrics: {response_match: 1}\ncases:\n- name: a\n  user: hi\n  expect: {text: other}\n",
	} {
		saveFile(t, filepath.Join(dir, "clerk"), name, text)
	}
	saveFile(t, filepath.Join(dir, "bad"+attack), "root_agent.yaml", "name: a\nnaem: "+quoted+"\n")
	commands := [][]string{
		{"run", "clerk", "hi" + attack, "--session", "s"},
		{"session", "list", "clerk"},
		{"session", "show", "clerk", "s"},
		{"why", "clerk", "s"},
		{"plan", "clerk"},
		{"test", "clerk"},
		{"eval", "clerk", "-v"},
		{"check", "bad" + attack},
		{"config", "clerk"},
		{"preview", "clerk", "hi" + attack},
	}
	written, attacks, control := 0, 0, 0
	for _, args := range commands {
		out := runInTerminal(t, dir, args)
		written += len(out)
		if found := controlsTerminal.Find(out); found != nil {
			attacks++
			t.Errorf("agenthost %q writes %q to a terminal:\n%q", args, found, out)
		}
		plain := exec.CommandContext(t.Context(), "agenthost", args...)
		plain.Dir = dir
		if out, _ := plain.CombinedOutput(); controlsTerminal.Match(out) { // some commands fail
			control++
		}
	}
	if control < 3 {
		t.Errorf("control: %d of %d commands write control characters to a file", control, len(commands))
	}
	t.Logf("shown: %d commands, %d bytes to a terminal: %d commands with control characters; control, written to a file: %d", len(commands), written, attacks, control)
}

// runInTerminal runs a command without input, and returns what the terminal receives.
func runInTerminal(t *testing.T, dir string, args []string) []byte {
	t.Helper()
	side, tty := openTerminal(t)
	cmd := exec.CommandContext(t.Context(), "agenthost", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, tty, tty
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	var out bytes.Buffer
	_, _ = io.Copy(&out, side) // ends with an error when the program has closed the terminal
	_ = cmd.Wait()             // some commands fail
	return out.Bytes()
}
