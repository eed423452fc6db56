package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// The kernel ends a killed host's MCP servers, even a server that ignores the end of its input: the
// pipe that the server holds open is closed.
func TestKilledHostEndsMCPServers(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "held")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	app, policy := filepath.Join(dir, "desk"), filepath.Join(dir, "policy.yaml")
	saveFile(t, app, "app.yaml", "models: {demo: {provider: scripted, script: s.yaml}}\n")
	saveFile(t, app, "s.yaml", "- text: done\n")
	saveFile(t, app, "root_agent.yaml", fmt.Sprintf("name: desk\nmodel: demo\ninstruction: Help.\ntools:\n- mcp: {command: [stays-mcp], env: {HELD: %q}, connect_timeout: 1m}\n", pipe))
	saveFile(t, dir, "policy.yaml", "grants: [{apps: [desk], commands: [[stays-mcp]], env: [HELD]}]\n")
	host := exec.CommandContext(t.Context(), "agenthost", "run", app, "hi", "--policy", policy, "--session-db", "memory:", "--artifacts", "memory:")
	host.Stderr = os.Stderr
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	held, err := os.OpenFile(pipe, os.O_RDONLY, 0) // blocks until the server opens it
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = host.Wait()
	if err := held.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, held); err != nil {
		t.Errorf("the MCP server still runs after the host: %v", err)
	}
}
