package server_test

import (
	"bytes"
	"context"
	"log/slog"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agenthost/internal/servertest"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/store/storeurl"
	"agenthost/pkg/tool"
)

// fillDisk makes this process's writes fail, as on a full disk. It returns a function that
// ends the fault.
func fillDisk(t *testing.T) (release func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ) // a full disk returns an error and sends no signal
	var before syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before)
	if err == nil {
		err = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 16, Max: before.Max})
	}
	if err != nil {
		t.Fatal(err)
	}
	release = func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(release)
	return release
}

// While the artifact disk is full, an upload gets 503 with Retry-After, and the server is not
// ready and names the artifact store. The response from a tool that saves an artifact, the
// run's frames and the stored session contain no path on the host; the log does. When there
// is space, everything works without a restart.
func TestArtifactDiskFull(t *testing.T) {
	const marker = "marker-of-the-host"
	st, err := storeurl.Open(t.Context(), "memory:", &storeurl.Options{Artifacts: "dir://" + filepath.Join(t.TempDir(), marker)})
	if err != nil {
		t.Fatal(err)
	}
	host := runtime.NewHost(st, &runtime.Options{})
	t.Cleanup(func() {
		host.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	var log bytes.Buffer
	e := wrapEnv(&servertest.Env{Host: host, Store: st, Server: server.New(host, &server.Options{Clock: tickingClock(), Logger: slog.New(slog.NewTextHandler(&log, nil)), AutoCreateSession: true})})
	e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t), Tools: []tool.Tool{saveNoteTool(t)}})
	const artifacts = "/apps/hello/users/u/sessions/s/artifacts"
	upload := `{"filename":"f.txt","artifact":{"text":"` + strings.Repeat("x", 100) + `"}}`
	expectResponse(t, e.serve("GET", "/readyz", ""), 200, `{"ready":true,"reasons":[]}`)
	release := fillDisk(t)
	w := e.serve("POST", artifacts, upload)
	expectResponse(t, w, 503, `{"detail":"artifact store unavailable, retry later"}`)
	if got := w.Header().Get("Retry-After"); got != "2" {
		t.Errorf("Retry-After = %q, want 2", got)
	}
	expectResponse(t, e.serve("GET", "/readyz", ""), 503, `{"ready":false,"reasons":["artifact store is not writable"]}`)
	run := e.serve("POST", "/run", runBody("hello", "s", "save")).Body.String()
	if want := `"error":"saving artifact \"note.txt\": artifact store unavailable: file too large"`; !strings.Contains(run, want) {
		t.Errorf("the run lacks %s: %s", want, run)
	}
	stored := e.serve("GET", "/apps/hello/users/u/sessions/s", "").Body.String()
	for name, text := range map[string]string{"run": run, "session": stored} {
		if strings.Contains(text, marker) || strings.Contains(text, ".new-") {
			t.Errorf("the %s has a path of the host: %s", name, text)
		}
	}
	if !strings.Contains(log.String(), marker) || !strings.Contains(log.String(), "artifact store unavailable") {
		t.Errorf("the log lacks the path or the message: %s", &log)
	}
	release()
	if w := e.serve("POST", artifacts, upload); w.Code != 200 {
		t.Errorf("upload after the fault: %d %s", w.Code, w.Body)
	}
	expectResponse(t, e.serve("GET", "/readyz", ""), 200, `{"ready":true,"reasons":[]}`)
	if err := e.store.Artifacts.Ping(context.Background()); err != nil {
		t.Errorf("Ping = %v", err)
	}
}
