package loader

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agenthost/internal/fake/fakemcp"
	"agenthost/internal/policy"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/store/storeurl"
)

// countChildren counts this process's child processes, including zombies.
func countChildren(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // ended in the meantime
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		var state string
		var parent int
		if _, err := fmt.Sscan(rest, &state, &parent); err == nil && parent == os.Getpid() {
			count++
		}
	}
	return count
}

// newGrantingPolicy returns a policy that allows all apps to run this program.
func newGrantingPolicy(t *testing.T) *policy.Policy {
	t.Helper()
	n, ds := spec.Parse("policy.yaml", fmt.Appendf(nil, "grants: [{commands: [[%q]], env: [%s, MOOD]}]", os.Args[0], fakemcp.Asked))
	p, more := policy.Decode(n)
	if err := append(ds, more...).Err(); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestProgramsOutliveReloads expects an MCP server process to start with the first run
// that needs it, and to survive reloads that keep its settings. With changed settings
// it is replaced. No process remains after the app is closed.
func TestProgramsOutliveReloads(t *testing.T) {
	s := newWatchEnv(t)
	st, err := storeurl.Open(t.Context(), "memory:", nil)
	s.must(err)
	defer st.Close()
	host, l := runtime.NewHost(st, nil), New(listKinds(), &Options{Policy: newGrantingPolicy(t)})
	s.watch = NewWatch(l, host, []string{s.top}, &WatchOptions{Clock: s.clock})
	before := countChildren(t)
	reload := func(mood, description string) {
		t.Helper()
		s.writeFile("x/app.yaml", "models: {m: {provider: scripted, script: s.yaml}}")
		s.writeFile("x/s.yaml", "- {when: responses.who == nil, calls: [{name: who}]}\n- text: done\n")
		s.writeFile("x/root_agent.yaml", fmt.Sprintf("name: a\nmodel: m\ndescription: about %s\ninstruction: x\ntools:\n- mcp: {command: [%q], env: {%s: serve, MOOD: %s}}",
			description, os.Args[0], fakemcp.Asked, mood))
		s.must(s.watch.Sync(t.Context()))
	}
	turns := 0
	pid := func() int {
		t.Helper()
		turns++
		req := &runtime.RunRequest{App: "x", UserID: "u", SessionID: fmt.Sprint(turns), Message: model.UserText("x"), CreateSession: true}
		for ev, err := range host.Run(t.Context(), req) {
			s.must(err)
			for _, answer := range ev.Responses() {
				who, _ := answer.Response["structuredContent"].(map[string]any)
				if id, ok := who["pid"].(int64); ok {
					return int(id)
				}
				t.Fatalf("response of who = %v", answer.Response)
			}
		}
		t.Fatal("who was not called")
		return 0
	}
	reload("calm", "0")
	if n := countChildren(t); n != before {
		t.Errorf("loading started %d programs", n-before)
	}
	first := pid()
	for i := range 100 {
		reload("calm", fmt.Sprint(i))
		if i%20 == 0 && pid() != first {
			t.Fatalf("reload %d restarted the program", i)
		}
	}
	if n := countChildren(t); n != before+1 {
		t.Errorf("%d programs after 100 reloads, want 1", n-before)
	}
	for i := range 10 {
		last := pid()
		reload(fmt.Sprint("mood", i), "1")
		if err := syscall.Kill(last, 0); !errors.Is(err, syscall.ESRCH) {
			t.Fatalf("the replaced program is still running: %v", err)
		}
		if pid() == last {
			t.Fatal("the replaced program still answers")
		}
	}
	if n := countChildren(t); n != before+1 {
		t.Errorf("%d programs after 10 replacements, want 1", n-before)
	}
	host.Close()
	if n := countChildren(t); n != before {
		t.Errorf("%d programs are running after the host was closed", n-before)
	}
}

// TestToolsServerDown expects an app to load and to answer while its server is down. A call to the
// server fails with an error that names the server and what to check.
func TestToolsServerDown(t *testing.T) {
	s := newWatchEnv(t)
	st, err := storeurl.Open(t.Context(), "memory:", nil)
	s.must(err)
	defer st.Close()
	host := runtime.NewHost(st, nil)
	defer host.Close()
	s.watch = NewWatch(New(listKinds(), nil), host, []string{s.top}, &WatchOptions{Clock: s.clock})
	s.writeFile("x/app.yaml", "models: {m: {provider: scripted, script: s.yaml}}")
	s.writeFile("x/s.yaml", "- text: done\n")
	s.writeFile("x/root_agent.yaml", "name: a\nmodel: m\ninstruction: x\ntools:\n- mcp: {url: 'http://127.0.0.1:1/mcp?key=k'}")
	s.must(s.watch.Sync(t.Context()))
	for _, err = range host.Run(t.Context(), &runtime.RunRequest{App: "x", UserID: "u", SessionID: "s", Message: model.UserText("x"), CreateSession: true}) {
		if err != nil {
			break
		}
	}
	want := "listing the tools of agent a failed: mcp server 127.0.0.1:1 (root_agent.yaml:5:14): server unreachable: " +
		"dial tcp 127.0.0.1:1: connect: connection refused; check that it is running, and check url, transport and headers"
	if err == nil || err.Error() != want {
		t.Errorf("Run: %v\nwant %s", err, want)
	}
}
