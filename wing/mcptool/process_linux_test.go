package mcptool

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestMCPProgram checks that the program runs in the app folder, with the document's variables and
// only the necessary ones from the host, and that it exits when the set closes.
func TestMCPProgram(t *testing.T) {
	t.Setenv("DATABASE_PASSWORD", "hidden")
	set := buildSet(t, "mcp", self("serve"))
	who := whoServes(t, set)
	pid := int(who["pid"].(int64))
	if pid == os.Getpid() {
		t.Fatal("the server is not a separate process")
	}
	if dir, _ := filepath.EvalSymlinks(who["dir"].(string)); dir == "" || !strings.HasPrefix(filepath.Base(filepath.Dir(dir)), "TestMCPProgram") {
		t.Errorf("it runs in %s", dir)
	}
	env, _ := who["env"].([]any)
	if slices.Contains(env, any("DATABASE_PASSWORD")) || !slices.Contains(env, any("TOKEN")) || !slices.Contains(env, any("PATH")) {
		t.Errorf("its environment has %v", env)
	}
	if err := set.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("program %d still runs after Close: %v", pid, err)
	}
	if _, err := set.Tools(t.Context()); err == nil || !strings.HasSuffix(err.Error(), "is closed") {
		t.Errorf("Tools of a closed set: %v", err)
	}
}

// A program that is killed between two calls is restarted transparently.
func TestMCPServerKilledBetweenCalls(t *testing.T) {
	set := buildSet(t, "mcp", self("serve"))
	before := int(whoServes(t, set)["pid"].(int64))
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-onlyLink(t, set).conn.closed
	if after := int(whoServes(t, set)["pid"].(int64)); after == before {
		t.Error("the server that was killed still responds")
	}
}
