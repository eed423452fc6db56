package main

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agenthost/internal/command"
)

// TestRunReloadsSavedFiles saves files during a conversation: the next answer uses the
// saved version, a file with errors is reported and changes nothing, and the
// conversation continues after its folder is deleted.
func TestRunReloadsSavedFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "guide")
	save := func(file, text string) { t.Helper(); saveFile(t, dir, file, text) }
	save("app.yaml", "models: {demo: {provider: scripted, script: s.yaml}}\n")
	save("s.yaml", "- text: \"Turn {turn}: {instruction}\"\n")
	save("root_agent.yaml", "name: guide\nmodel: demo\ninstruction: be kind.\n")

	stdin, input := io.Pipe()
	output, stdout := io.Pipe()
	exitCode := make(chan int, 1)
	go func() {
		exitCode <- run(t.Context(), []string{"run", dir, "--session-db", "memory:", "--artifacts", "memory:"}, command.Env{In: stdin, Out: stdout, Err: stdout})
		stdout.Close()
	}()
	lines := bufio.NewScanner(output)
	wait := func(text string) { t.Helper(); readUntil(t, lines, text) }
	expectAnswer := func(want string) {
		t.Helper()
		if _, err := io.WriteString(input, "hi\n"); err != nil {
			t.Fatal(err)
		}
		wait(want)
	}
	wait("Talking to guide")
	expectAnswer("Turn 1: be kind.")
	save("root_agent.yaml", "name: guide\nmodel: demo\ninstruction: be terse.\n")
	wait("guide was reloaded: the next answer uses it")
	expectAnswer("Turn 2: be terse.")
	save("root_agent.yaml", "name: guide\nmodel: demo\ninstructon: be terse.\n")
	wait(`root_agent.yaml:3:1: unknown field "instructon"`)
	wait("| ^")
	wait("guide was not reloaded: the previous version stays active")
	expectAnswer("Turn 3: be terse.")
	save("root_agent.yaml", "name: guide\nmodel: demo\ninstruction: be terse.\n")
	wait("guide is valid again")
	expectAnswer("Turn 4: be terse.")
	save("app.yaml", "models: {demo: {provider: scripted, script: s.yaml}}\nreload: {sessions: new_sessions}\n")
	wait("guide was reloaded, but reload: sessions is new_sessions: this session keeps its revision")
	expectAnswer("Turn 5: be terse.")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	expectAnswer("Turn 6: be terse.")
	input.Close()
	for lines.Scan() {
	}
	if code := <-exitCode; code != command.ExitOK {
		t.Errorf("exit status %d, want 0", code)
	}
}

// saveFile writes a file, and creates its folder if it is missing.
func saveFile(t *testing.T, dir, file, text string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// readUntil reads a program's output up to a line with the text.
func readUntil(t *testing.T, lines *bufio.Scanner, text string) {
	t.Helper()
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return
		}
	}
	t.Fatalf("the program exited before it printed %q", text)
}
