package server_test

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	"agenthost/wing/evaluation/evalrun"
)

var update = flag.Bool("update", false, "write the responses into the exchanges")

// Each file in testdata/http is an exchange: a comment that names the rules, then
// requests (method and path, headers, an empty line, body) and their responses.
// Generated IDs are numbered in order of appearance, also in requests. Parts apps/… are
// files of the served folder; stored is a session in JSON that the host has stored;
// options may be "dev: false".
func TestExchanges(t *testing.T) {
	files, err := filepath.Glob("testdata/http/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no exchanges: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { runExchange(t, file) })
	}
}

func runExchange(t *testing.T, file string) {
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(bytes.TrimSpace(ar.Comment)) == 0 {
		t.Error("missing comment: name the rules that the exchange tests")
	}
	e, dir := newExchangeEnv(t, ar)
	got, ids := &txtar.Archive{Comment: ar.Comment}, idNames{}
	for _, f := range ar.Files {
		switch f.Name {
		case "response":
		case "request":
			w := httptest.NewRecorder()
			e.server.ServeHTTP(w, parseRequest(t, ids.restoreIDs(f.Data)))
			got.Files = append(got.Files, f, txtar.File{Name: "response", Data: ids.normalizeIDs(formatResponse(w))})
		default:
			got.Files = append(got.Files, f)
		}
	}
	text := bytes.ReplaceAll(txtar.Format(got), []byte(dir), []byte("APPS"))
	if *update {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(txtar.Format(ar)), string(text)); diff != "" {
		t.Errorf("exchange (-want +got):\n%s", diff)
	}
}

// newExchangeEnv returns a server with the apps hello, noter (saves a note and reads
// the memory), strict (its instruction requires a state key) and line (resumable), and
// the app broken, which has errors and never loaded. The apps of the archive are in the
// returned folder.
func newExchangeEnv(t *testing.T, ar *txtar.Archive) (*env, string) {
	folders := &watchedFolders{}
	// Cases run one after the other, and have the times and IDs of the host.
	ids := 5000
	evaluator := &evalrun.HostRunner{Apps: folders, Parallel: 1, Clock: fixedTime, NewID: func() string {
		ids++
		return fmt.Sprintf("new-%04d", ids)
	}}
	e := newEnv(t, &server.Options{Evaluator: evaluator, Version: "1.2.3", Reloader: fakeReloader{
		"broken": {App: "broken", Diagnostics: spec.Diagnostics{{
			Pos: spec.Pos{File: "broken/root_agent.yaml", Line: 2, Col: 1}, Rule: "unknown-key", Message: `unknown key "modle"`, Hint: `did you mean "model"?`,
		}}},
		"hello":   {App: "hello", Revision: "rev-hello", OK: true},
		"waiting": {App: "waiting", Revision: "rev-old", Waiting: "rev-new"},
	}, Traces: server.NewTraces(true), Folders: folders, Clock: fixedTime, Dev: !hasOption(ar, "dev: false")})
	evaluator.Host = e.host
	m := scriptedModel(t)
	e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: m, Description: "Greets the user."})
	e.addLLMApp(t, "noter", &runtime.LLMOptions{Model: m, Instruction: runtime.NewInstruction("Help {name?}.", nil), Tools: []tool.Tool{saveNoteTool(t), preloadMemoryTool(t)}})
	e.addLLMApp(t, "strict", &runtime.LLMOptions{Model: m, Instruction: runtime.NewInstruction("Help {name}.", nil)})
	e.addResumableApp(t, m)
	dir := t.TempDir()
	folders.loadApps(t, e, ar, dir)
	for _, f := range ar.Files {
		if f.Name == "stored" {
			e.storeSession(t, f.Data)
		}
	}
	return e, dir
}

func hasOption(ar *txtar.Archive, option string) bool {
	return slices.ContainsFunc(ar.Files, func(f txtar.File) bool {
		return f.Name == "options" && strings.TrimSpace(string(f.Data)) == option
	})
}

// watchedFolders are folders that a loader.Watch loads.
type watchedFolders struct{ *loader.Watch }

func (w *watchedFolders) loadApps(t *testing.T, e *env, ar *txtar.Archive, dir string) {
	t.Helper()
	for _, f := range ar.Files {
		name, ok := strings.CutPrefix(f.Name, "apps/")
		if !ok {
			continue
		}
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	none := func(string) (string, bool) { return "", false }
	w.Watch = loader.NewWatch(loader.New(testenv.Kinds(), &loader.Options{Env: none, WrapModel: evalrun.WrapModel}), e.host, []string{dir}, &loader.WatchOptions{Settle: time.Millisecond})
	if err := w.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

type fakeReloader map[string]server.Status

func (r fakeReloader) Status(app string) (server.Status, bool) {
	st, ok := r[app]
	return st, ok
}

func (r fakeReloader) Statuses() []server.Status {
	return slices.SortedFunc(maps.Values(r), func(a, b server.Status) int { return strings.Compare(a.App, b.App) })
}

// Folders returns no folders.
func (r fakeReloader) Folders() []server.FolderStatus { return nil }

// Reload changes hello and removes waiting.
func (r fakeReloader) Reload(context.Context) error {
	r["hello"] = server.Status{App: "hello", Revision: "rev-next", OK: true}
	delete(r, "waiting")
	return nil
}

// loadingReloader is a reloader whose app is still loading when Reload returns.
type loadingReloader struct{ fakeReloader }

// Reload does nothing.
func (loadingReloader) Reload(context.Context) error { return nil }

// A reload responds with 202 and lists the apps that are still loading; /readyz names
// them too.
func TestReloadStillLoading(t *testing.T) {
	e := newEnv(t, &server.Options{Reloader: loadingReloader{fakeReloader{"slow": {App: "slow", Revision: "r1", OK: true, Loading: true}}}})
	for _, tt := range []struct{ method, path, want string }{
		{"POST", "/-/reload", `{"changed":[],"failed":[],"removed":[],"loading":[{"app":"slow","revision":"r1","ok":true,"loading":true,"diagnostics":[]}]}`},
		{"GET", "/readyz", `"app slow: files are still loading"`},
	} {
		w := httptest.NewRecorder()
		e.server.ServeHTTP(w, httptest.NewRequest(tt.method, "http://127.0.0.1"+tt.path, nil))
		if !strings.Contains(w.Body.String(), tt.want) || tt.method == "POST" && w.Code != http.StatusAccepted {
			t.Errorf("%s = %d %s, want %s", tt.path, w.Code, w.Body, tt.want)
		}
	}
}

// Reports returns no reports.
func (r fakeReloader) Reports(int) ([]server.Report, <-chan struct{}) { return nil, nil }

func parseRequest(t *testing.T, text []byte) *http.Request {
	t.Helper()
	head, body, _ := bytes.Cut(append(bytes.Clone(text), '\n'), []byte("\n\n"))
	lines := bufio.NewScanner(bytes.NewReader(head))
	lines.Scan()
	method, path, ok := strings.Cut(lines.Text(), " ")
	if !ok {
		t.Fatalf("a request must start with METHOD PATH, got %q", lines.Text())
	}
	r := httptest.NewRequest(method, path, bytes.NewReader(bytes.TrimSpace(body)))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		r.Header.Set(name, value)
	}
	return r
}

func formatResponse(w *httptest.ResponseRecorder) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "%d\n", w.Code)
	headers := w.Result().Header
	headers.Del("X-Content-Type-Options")
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		fmt.Fprintf(&out, "%s: %s\n", name, headers.Get(name))
	}
	body := strings.ReplaceAll(w.Body.String(), strings.TrimPrefix(goruntime.Version(), "go"), "GOVERSION")
	fmt.Fprintf(&out, "\n%s\n", body)
	return out.Bytes()
}

// idNames replaces generated IDs with numbers in order of appearance, so that IDs
// generated in between do not matter.
type idNames []string

func (n *idNames) normalizeIDs(text []byte) []byte {
	text = regexp.MustCompile(`("(?:trace|span|parent_span)_id":)"[0-9a-f]{16,32}"`).ReplaceAll(text, []byte(`$1"HEX"`))
	return regexp.MustCompile(`new-\d{4}`).ReplaceAllFunc(text, func(id []byte) []byte {
		at := slices.Index(*n, string(id))
		if at < 0 {
			at, *n = len(*n), append(*n, string(id))
		}
		return fmt.Appendf(nil, "ID%d", at+1)
	})
}

// restoreIDs replaces the numbers in a request with the generated IDs.
func (n idNames) restoreIDs(text []byte) []byte {
	return regexp.MustCompile(`\bID\d+\b`).ReplaceAllFunc(text, func(name []byte) []byte {
		at, err := strconv.Atoi(string(name[len("ID"):]))
		if err != nil || at > len(n) {
			return name
		}
		return []byte(n[at-1])
	})
}
