// Package servertest serves test apps over HTTP, for the tests of the server and the wings that add
// routes to it.
package servertest

import (
	"bufio"
	"bytes"
	"context"
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
)

// RunExchanges runs the exchanges in the files of a glob. Each is a comment that names the rules,
// then requests (method and path, headers, an empty line, body) and their responses. Generated IDs
// are numbered as they appear, also in requests. Parts apps/… are files in the served folder;
// stored is a session in JSON that the host has stored; options may be "dev: false". With -update
// it writes the responses into the files.
func RunExchanges(t *testing.T, glob string, newEnv func(*testing.T, *txtar.Archive) (*Env, string)) {
	files, err := filepath.Glob(glob)
	if err != nil || len(files) == 0 {
		t.Fatalf("no exchanges: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { runExchange(t, file, newEnv) })
	}
}

func runExchange(t *testing.T, file string, newEnv func(*testing.T, *txtar.Archive) (*Env, string)) {
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(bytes.TrimSpace(ar.Comment)) == 0 {
		t.Error("missing comment: name the rules that the exchange tests")
	}
	e, dir := newEnv(t, ar)
	got, ids := &txtar.Archive{Comment: ar.Comment}, idNames{}
	for _, f := range ar.Files {
		switch f.Name {
		case "response":
		case "request":
			w := httptest.NewRecorder()
			e.Server.ServeHTTP(w, ParseRequest(t, ids.restoreIDs(f.Data)))
			got.Files = append(got.Files, f, txtar.File{Name: "response", Data: ids.normalizeIDs(FormatResponse(w))})
		default:
			got.Files = append(got.Files, f)
		}
	}
	text := bytes.ReplaceAll(txtar.Format(got), []byte(dir), []byte("APPS"))
	if testenv.IsUpdating() {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(txtar.Format(ar)), string(text)); diff != "" {
		t.Errorf("exchange (-want +got):\n%s", diff)
	}
}

// NewExchangeEnv returns a server with the apps hello, noter (saves a note and reads the memory),
// strict (its instruction requires a state key) and line (resumable), and the app broken, which has
// errors and never loaded. The archive's apps are in the returned folder.
func NewExchangeEnv(t *testing.T, ar *txtar.Archive, folders *Folders, o *Options) (*Env, string) {
	if o.Server == nil {
		o.Server = &server.Options{}
	}
	o.Server.Version = "1.2.3"
	if o.Server.Clock == nil {
		o.Server.Clock = FixedTime
	}
	o.Server.Reloader = Reloader{
		"broken": {App: "broken", Diagnostics: spec.Diagnostics{{
			Pos: spec.Pos{File: "broken/root_agent.yaml", Line: 2, Col: 1}, Rule: "unknown-key", Message: `unknown key "modle"`, Hint: `did you mean "model"?`,
		}}},
		"hello":   {App: "hello", Revision: "rev-hello", OK: true},
		"waiting": {App: "waiting", Revision: "rev-old", Waiting: "rev-new"},
	}
	e := New(t, o)
	m := ScriptedModel(t)
	e.AddLLMApp(t, "hello", &runtime.LLMOptions{Model: m, Description: "Greets the user."})
	e.AddLLMApp(t, "noter", &runtime.LLMOptions{Model: m, Instruction: runtime.NewInstruction("Help {name?}.", nil), Tools: []tool.Tool{SaveNoteTool(t), BuiltinTool(t, "preload_memory")}})
	e.AddLLMApp(t, "strict", &runtime.LLMOptions{Model: m, Instruction: runtime.NewInstruction("Help {name}.", nil)})
	e.AddResumableApp(t, m)
	dir := t.TempDir()
	folders.LoadApps(t, e, ar, dir)
	for _, f := range ar.Files {
		if f.Name == "stored" {
			e.StoreSession(t, f.Data)
		}
	}
	return e, dir
}

// IsDev reports whether an exchange is with developer tools.
func IsDev(ar *txtar.Archive) bool {
	return !slices.ContainsFunc(ar.Files, func(f txtar.File) bool {
		return f.Name == "options" && strings.TrimSpace(string(f.Data)) == "dev: false"
	})
}

// Folders are folders that a loader.Watch loads.
type Folders struct {
	*loader.Watch
	// Load configures the loader.
	Load loader.Options
}

// LoadApps writes an archive's files apps/… into a folder, and loads it into the host.
func (w *Folders) LoadApps(t *testing.T, e *Env, ar *txtar.Archive, dir string) {
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
	w.Load.Env = func(string) (string, bool) { return "", false }
	w.Watch = loader.NewWatch(loader.New(testenv.Kinds(), &w.Load), e.Host, []string{dir}, &loader.WatchOptions{Settle: time.Millisecond})
	if err := w.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A Reloader has app statuses by name.
type Reloader map[string]server.Status

// Status returns an app's status.
func (r Reloader) Status(app string) (server.Status, bool) {
	st, ok := r[app]
	return st, ok
}

// Statuses returns all statuses.
func (r Reloader) Statuses() []server.Status {
	return slices.SortedFunc(maps.Values(r), func(a, b server.Status) int { return strings.Compare(a.App, b.App) })
}

// Folders returns no folders.
func (r Reloader) Folders() []server.FolderStatus { return nil }

// Reload changes hello and removes waiting.
func (r Reloader) Reload(context.Context) error {
	r["hello"] = server.Status{App: "hello", Revision: "rev-next", OK: true}
	delete(r, "waiting")
	return nil
}

// Reports returns no reports.
func (r Reloader) Reports(int) ([]server.Report, <-chan struct{}) { return nil, nil }

// ParseRequest parses an exchange's request.
func ParseRequest(t *testing.T, text []byte) *http.Request {
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

// FormatResponse formats a response for an exchange.
func FormatResponse(w *httptest.ResponseRecorder) []byte {
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

// idNames replaces generated IDs with numbers as they appear, so that IDs generated in between do
// not matter.
type idNames []string

func (n *idNames) normalizeIDs(text []byte) []byte {
	text = regexp.MustCompile(`("(?:trace|span|parent_span)_id":)"[0-9a-f]{16,32}"`).ReplaceAll(text, []byte(`$1"HEX"`))
	text = regexp.MustCompile(`(?m)^id: [0-9a-f-]{36}$`).ReplaceAll(text, []byte("id: UUID"))
	text = regexp.MustCompile(`("timestamp":)"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"`).ReplaceAll(text, []byte(`$1"NOW"`))
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
