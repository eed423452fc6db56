package main

import (
	"bufio"
	"context"
	"io"
	"path/filepath"
	"testing"

	"agenthost/internal/command"
)

// TestTestWatch saves files while agenthost test --watch runs: the app's, the tests', and a file
// that the tests read. Test problems are printed.
func TestTestWatch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shop")
	save := func(file, text string) { t.Helper(); saveFile(t, dir, file, text) }
	save("root_agent.yaml", "name: clerk\ninstruction: Sell.\n")
	save("root_agent.test.yaml", "- name: sells\n  user: hi\n  model: [{text: Hello}]\n  expect: ['requests[0].instruction contains \"Sell\"']\n")

	ctx, cancel := context.WithCancel(t.Context())
	output, stdout := io.Pipe()
	exitCode := make(chan int, 1)
	go func() {
		exitCode <- run(ctx, []string{"test", "--watch", dir}, command.Env{Out: stdout, Err: stdout})
		stdout.Close()
	}()
	lines := bufio.NewScanner(output)
	wait := func(text string) { t.Helper(); readUntil(t, lines, text) }
	wait("1 test passed, 0 failed")
	save("root_agent.yaml", "name: clerk\ninstruction: Give away.\n")
	wait("FAIL shop: sells")
	wait("0 tests passed, 1 failed")
	save("root_agent.yaml", "name: clerk\ninstruction: Sell all.\n")
	wait("1 test passed, 0 failed")
	test := "- name: sells\n  user: hi\n  model: [{text: Hello}]\n  expect: ['text == \"Hello\"']\n"
	save("root_agent.test.yaml", test+"- name: greets\n  user: hi\n  model: [{text: Hello}]\n  expect: ['text == \"Bye\"']\n")
	wait("FAIL shop: greets")
	wait("1 test passed, 1 failed")
	save("root_agent.test.yaml", "- name: sells\n  usr: hi\n")
	wait(`unknown field "usr"`)
	save("root_agent.test.yaml", "- name: sells\n  user: hi\n  model: answers.yaml\n  expect: ['text == \"Hello\"']\n")
	wait("answers.yaml")
	save("answers.yaml", "- text: Bye\n")
	wait("FAIL shop: sells")
	save("answers.yaml", "- text: Hello\n")
	wait("1 test passed, 0 failed")
	cancel()
	for lines.Scan() {
	}
	if code := <-exitCode; code != command.ExitOK {
		t.Errorf("exit status %d, want 0", code)
	}
}
