package main

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRunReloadsSavedFiles saves files in the middle of a conversation: the next answer
// is of what was saved, a broken file is told and changes nothing, and a folder
// that goes away ends nothing.
func TestRunReloadsSavedFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "guide")
	save := func(file, text string) { t.Helper(); saveFile(t, dir, file, text) }
	save("app.yaml", "models: {demo: {provider: scripted, script: s.yaml}}\n")
	save("s.yaml", "- text: \"Turn {turn}: {instruction}\"\n")
	save("root_agent.yaml", "name: guide\nmodel: demo\ninstruction: be kind.\n")

	said, say := io.Pipe()
	heard, tell := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(t.Context(), []string{"run", dir, "--session-db", "memory:", "--artifacts", "memory:"}, stdio{said, tell, tell})
		tell.Close()
	}()
	lines := bufio.NewScanner(heard)
	wait := func(text string) { t.Helper(); readUntil(t, lines, text) }
	ask := func(want string) {
		t.Helper()
		if _, err := io.WriteString(say, "hi\n"); err != nil {
			t.Fatal(err)
		}
		wait(want)
	}
	wait("Talking to guide")
	ask("Turn 1: be kind.")
	save("root_agent.yaml", "name: guide\nmodel: demo\ninstruction: be terse.\n")
	wait("guide was changed: the next answer has it")
	ask("Turn 2: be terse.")
	save("root_agent.yaml", "name: guide\nmodel: demo\ninstructon: be terse.\n")
	wait(`root_agent.yaml:3:1: unknown field "instructon"`)
	wait("| ^")
	wait("guide goes on as it was")
	ask("Turn 3: be terse.")
	save("root_agent.yaml", "name: guide\nmodel: demo\ninstruction: be terse.\n")
	wait("guide is right again")
	ask("Turn 4: be terse.")
	save("app.yaml", "models: {demo: {provider: scripted, script: s.yaml}}\nreload: {sessions: new_sessions}\n")
	wait("guide was changed, and says reload: sessions: new_sessions: this session goes on as it was")
	ask("Turn 5: be terse.")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	ask("Turn 6: be terse.")
	say.Close()
	for lines.Scan() {
	}
	if code := <-ended; code != exitOK {
		t.Errorf("exit status %d, want 0", code)
	}
}

// saveFile writes a file of a folder, which is made where it is missing.
func saveFile(t *testing.T, dir, file, text string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// readUntil reads what a program prints up to a line with the text.
func readUntil(t *testing.T, lines *bufio.Scanner, text string) {
	t.Helper()
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return
		}
	}
	t.Fatalf("the program ended before it said %q", text)
}
