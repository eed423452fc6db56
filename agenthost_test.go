package agenthost_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agenthost"
	"agenthost/pkg/runtime"
	"agenthost/pkg/store/memstore"
)

const hello = `{name: hello, model: demo, instruction: Greet.}`

// writeApp writes the app hello, whose scripted model gives one answer, and returns its folder.
func writeApp(t *testing.T, answer string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "hello")
	for name, content := range map[string]string{
		"root_agent.yaml": hello,
		"app.yaml":        "models: {demo: {provider: scripted, script: demo.yaml}}",
		"demo.yaml":       "- {text: " + answer + "}",
	} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func openHost(t *testing.T, opts *agenthost.Options) *agenthost.Host {
	t.Helper()
	opts.Kinds = agenthost.StandardKinds()
	host, err := agenthost.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	return host
}

// readAnswer runs one turn and returns its text.
func readAnswer(t *testing.T, host *agenthost.Host) string {
	t.Helper()
	text := ""
	for ev, err := range host.Run(t.Context(), &agenthost.RunRequest{App: "hello", UserID: "ana", SessionID: "s1", CreateSession: true, Message: agenthost.UserText("Hi")}) {
		if err != nil {
			t.Fatal(err)
		}
		text += ev.Text()
	}
	return text
}

// A host runs the apps in its folders. A saved file changes the next answer.
func TestOpen(t *testing.T) {
	dir := writeApp(t, "Hello!")
	host := openHost(t, &agenthost.Options{Folders: []string{dir}})
	if got := readAnswer(t, host); got != "Hello!" {
		t.Errorf("the answer is %q", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "demo.yaml"), []byte("- {text: Welcome!}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := host.Watch().Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := readAnswer(t, host); got != "Welcome!" {
		t.Errorf("the answer after a save is %q", got)
	}
}

// An app with problems is reported, and does not keep the others from being served.
func TestOpenWithProblems(t *testing.T) {
	dir := writeApp(t, "Hello!")
	bad := filepath.Join(filepath.Dir(dir), "bad")
	if err := os.MkdirAll(bad, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bad, "root_agent.yaml"), []byte("{name: bad, modle: demo}"), 0o644); err != nil {
		t.Fatal(err)
	}
	var problems bytes.Buffer
	host := openHost(t, &agenthost.Options{Folders: []string{filepath.Dir(dir)}, Problems: &problems})
	if got := readAnswer(t, host); got != "Hello!" {
		t.Errorf("the answer is %q", got)
	}
	if !strings.Contains(problems.String(), `unknown field "modle"`) {
		t.Errorf("problems = %s", problems.String())
	}
}

// Open fails if what it requires is missing.
func TestOpenErrors(t *testing.T) {
	kinds, folders := agenthost.StandardKinds(), []string{filepath.Join(t.TempDir(), "missing")}
	for want, opts := range map[string]*agenthost.Options{
		"Folders is required: apps, or folders of apps":     {Kinds: kinds},
		"Kinds has no agents: begin with StandardKinds()":   {Folders: folders},
		`opening store "nosql://x": unknown scheme "nosql"`: {Kinds: kinds, Folders: folders, StoreURL: "nosql://x"},
		"no such file or directory":                         {Kinds: kinds, Folders: folders},
	} {
		host, err := agenthost.Open(t.Context(), opts)
		if host != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open() = %v, want %s", err, want)
		}
	}
}

// The caller's store stays open, and the options are not changed.
func TestOpenWithStore(t *testing.T) {
	st := memstore.New(nil)
	defer st.Close()
	run := &runtime.Options{}
	host, err := agenthost.Open(t.Context(), &agenthost.Options{Folders: []string{writeApp(t, "Hello!")}, Kinds: agenthost.StandardKinds(), Store: st, Run: run})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	}
	if run.LoadRevision != nil {
		t.Error("Open changed its options")
	}
	if revisions, err := st.Revisions.List(t.Context(), "hello"); err != nil || len(revisions) != 1 {
		t.Errorf("the store has %d revisions, %v", len(revisions), err)
	}
}

// When Serve's context ends, new turns are rejected, and Serve returns.
func TestServe(t *testing.T) {
	host := openHost(t, &agenthost.Options{Folders: []string{writeApp(t, "Hello!")}})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	url, status := "http://"+listener.Addr().String(), 0
	served := make(chan error, 1)
	go func() {
		served <- host.Serve(ctx, listener, &agenthost.ServeOptions{OnDrain: func() { status = getStatus(t, url+"/readyz") }})
	}()
	if got := getStatus(t, url+"/readyz"); got != http.StatusOK {
		t.Errorf("GET /readyz = %d", got)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if status != http.StatusOK {
		t.Errorf("GET /readyz before the drain = %d", status)
	}
	if _, err := http.Get(url); err == nil {
		t.Error("the listener is still open")
	}
}

// Serve accepts HTTP/2 without TLS, which gRPC's clients use, only with its option. A shutdown ends its idle
// connections.
func TestServeHTTP2(t *testing.T) {
	for _, on := range []bool{false, true} {
		host := openHost(t, &agenthost.Options{Folders: []string{writeApp(t, "Hello!")}})
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- host.Serve(ctx, listener, &agenthost.ServeOptions{HTTP2: on}) }()
		if got := getStatus(t, "http://"+listener.Addr().String()+"/readyz"); got != http.StatusOK {
			t.Errorf("HTTP/1: %d", got)
		}
		transport := &http.Transport{Protocols: new(http.Protocols)}
		transport.Protocols.SetUnencryptedHTTP2(true)
		resp, err := (&http.Client{Transport: transport}).Get("http://" + listener.Addr().String() + "/readyz")
		if (err == nil) != on || on && (resp.ProtoMajor != 2 || resp.StatusCode != http.StatusOK) {
			t.Errorf("HTTP/2 with the option %v: %v, %v", on, resp, err)
		}
		if err == nil {
			resp.Body.Close()
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		transport.CloseIdleConnections()
	}
}

// Serve ends with its listener's error.
func TestServeOnClosedListener(t *testing.T) {
	host := openHost(t, &agenthost.Options{Folders: []string{writeApp(t, "Hello!")}})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if err := host.Serve(t.Context(), listener, nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve() = %v", err)
	}
}

func getStatus(t *testing.T, url string) int {
	resp, err := http.Get(url)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}
