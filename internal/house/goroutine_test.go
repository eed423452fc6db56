package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// unguarded are the goroutines that do not recover, each with the reason why
// their panic may end the process, or cannot happen.
var unguarded = map[string]string{
	"internal/modelapi/service.go: time.AfterFunc":  "it calls a cancel function of the standard library",
	"internal/modelapi/timeout.go: time.AfterFunc":  "it calls a cancel function of the standard library",
	"pkg/provider/limits.go: time.AfterFunc":        "it compares numbers and closes channels that are open",
	"pkg/tool/httptool/stream.go: time.AfterFunc":   "it calls a cancel function of the standard library",
	"wing/mcptool/connection.go: context.AfterFunc": "it calls a cancel function of the standard library",
	"wing/mcptool/connection.go: time.AfterFunc":    "it calls a cancel function of the standard library",
	"wing/mcptool/guard.go: context.AfterFunc":      "it calls a cancel function of the standard library",
	"wing/mcptool/http_messages.go: time.AfterFunc": "it calls a cancel function of the standard library",
	"wing/mcptool/sampling.go: context.AfterFunc":   "it calls a cancel function of the standard library",
	"cmd/agenthost/run.go: context.AfterFunc":       "it restores the terminal, and a conversation has no turn but its own",
	"wing/chat/conversation/loop.go: go":            "a conversation in a terminal has no turn but its own",
	"wing/chat/chat.go: go":                         "it ends the process with its panic after it has restored the terminal",
	"wing/chat/edit.go: go":                         "it ends the process with its panic after it has restored the terminal",
	"wing/chat/conversation/model.go: go":           "a conversation in a terminal has no turn but its own",
	"cmd/agenthost/signal.go: go":                   "a verb of the command line ends with its panic, as main does; what serve runs recovers",
	"wing/apptest/testcommand/test.go: wg.Go":       "the panic of a test ends the test run with its stack",
	"wing/programs/sandbox/supervise_linux.go: go":  "the helper process supervises one program, and the host reports its end",
	"wing/wasi/host.go: go":                         "compileInBackground recovers after it has ended the compilation",
	"wing/lsp/serve.go: go":                         "the language server belongs to one editor, which starts it again",
}

// A panic on a goroutine without recover ends the process and all its turns. Each goroutine in the
// program begins with defer safe.Recover(…), or is listed above with its reason.
func TestGoroutinesRecover(t *testing.T) {
	seen := map[string]bool{}
	eachFile(t, func(path string, fset *token.FileSet, f *ast.File) {
		if !isProduct(path) {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			name, started := startedGoroutine(n)
			if name == "" || recovers(started) {
				return true
			}
			place := path + ": " + name
			if seen[place] = true; unguarded[place] == "" {
				t.Errorf("%s: this goroutine does not begin with defer safe.Recover(…) (internal/safe), and %q is not listed with a reason",
					fset.Position(n.Pos()), place)
			}
			return true
		})
	})
	for place := range unguarded {
		if !seen[place] {
			t.Errorf("%q is listed but does not exist", place)
		}
	}
}

// isProduct reports whether a file is linked into the program.
func isProduct(path string) bool {
	if isTestSupport(filepath.ToSlash(filepath.Dir(path))) {
		return false
	}
	for _, dir := range []string{"pkg/", "cmd/", "wing/", "internal/auth/", "internal/policy/", "internal/modelapi/", "internal/modelcall/", "internal/legalrequest/"} {
		if strings.HasPrefix(path, dir) {
			return true
		}
	}
	return false
}

// startedGoroutine returns how a node starts a goroutine, and with what; an
// empty name when it starts none.
func startedGoroutine(n ast.Node) (name string, started ast.Expr) {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "go", n.Call.Fun
	case *ast.CallExpr:
		called, ok := n.Fun.(*ast.SelectorExpr)
		if !ok || called.Sel.Name != "Go" && called.Sel.Name != "AfterFunc" || len(n.Args) == 0 {
			return "", nil
		}
		of := "…"
		switch x := called.X.(type) {
		case *ast.Ident:
			of = x.Name
		case *ast.SelectorExpr:
			of = x.Sel.Name
		}
		return of + "." + called.Sel.Name, n.Args[len(n.Args)-1]
	}
	return "", nil
}

// recovers reports whether a function literal defers safe.Recover before it does
// anything else than deferring.
func recovers(started ast.Expr) bool {
	literal, ok := started.(*ast.FuncLit)
	if !ok {
		return false
	}
	for _, s := range literal.Body.List {
		d, ok := s.(*ast.DeferStmt)
		if !ok {
			return false
		}
		if f, ok := d.Call.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Recover" {
			if pkg, ok := f.X.(*ast.Ident); ok && pkg.Name == "safe" {
				return true
			}
		}
	}
	return false
}

// TestGoroutineCheckSeesEachForm is TestGoroutinesRecover's control.
func TestGoroutineCheckSeesEachForm(t *testing.T) {
	for src, want := range map[string]string{
		"go f()":              "go",
		"go func() { f() }()": "go",
		"go func() { f(); defer safe.Recover(r) }()":                    "go",
		"go func() { defer other.Recover(r); f() }()":                   "go",
		"wg.Go(func() { f() })":                                         "wg.Go",
		"x.readers.Go(f)":                                               "readers.Go",
		"time.AfterFunc(time.Second, func() { f() })":                   "time.AfterFunc",
		"go func() { defer wg.Done(); defer safe.Recover(r); f() }()":   "",
		"wg.Go(func() { defer safe.Recover(r); f() })":                  "",
		"time.AfterFunc(time.Second, func() { defer safe.Recover(r) })": "",
	} {
		got := ""
		ast.Inspect(parseBody(t, src), func(n ast.Node) bool {
			if name, started := startedGoroutine(n); name != "" && !recovers(started) {
				got = name
			}
			return true
		})
		if got != want {
			t.Errorf("%s: unguarded goroutine %q, want %q", src, got, want)
		}
	}
}

func parseBody(t *testing.T, src string) ast.Node {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc _() {\n"+src+"\n}", 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
