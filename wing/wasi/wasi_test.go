package wasi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agenthost/pkg/tool"
)

// guestDir has the guest, which [openGuest] and [buildGuest] build once.
var guestDir string

func TestMain(m *testing.M) {
	var err error
	if guestDir, err = os.MkdirTemp("", "guest-"); err != nil {
		panic(err)
	}
	status := m.Run()
	os.RemoveAll(guestDir)
	os.Exit(status)
}

// buildGuest builds the guest for the sandbox, or for this system.
func buildGuest(file string, env ...string) (string, error) {
	out := filepath.Join(guestDir, file)
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", out, "./testdata/guest")
	cmd.Env = append(os.Environ(), append(env, "CGO_ENABLED=0")...)
	if b, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, b)
	}
	return out, nil
}

var sharedGuest = sync.OnceValues(func() (*Interpreter, error) {
	path, err := buildGuest("guest.wasm", "GOOS=wasip1", "GOARCH=wasm")
	if err != nil {
		return nil, err
	}
	return New(filepath.Dir(path), slog.New(slog.DiscardHandler)).Open(filepath.Base(path))
})

func openGuest(t *testing.T) *Interpreter {
	t.Helper()
	i, err := sharedGuest()
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func openTestModule(t *testing.T, path string) *Interpreter {
	t.Helper()
	h := New(filepath.Dir(path), slog.New(slog.DiscardHandler))
	i, err := h.Open(filepath.Base(path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = i.Close()
		h.mu.Lock()
		defer h.mu.Unlock()
		h.dropInterpreter(h.idle)
	})
	return i
}

// TestConfinement tries each escape from the sandbox. As a control, the same program succeeds
// outside.
func TestConfinement(t *testing.T) {
	i := openGuest(t)
	native, err := buildGuest("guest")
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "secret.txt")
	if err := os.WriteFile(secret, []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	t.Setenv("CANARY", "canary")
	up := strings.Repeat("../", 20)
	for _, tt := range []struct {
		args []string
		want string // on stderr, or else on stdout
	}{
		{[]string{"read", secret}, "No such file or directory"},
		{[]string{"read", up + secret[1:]}, "No such file or directory"},
		{[]string{"list", filepath.Dir(secret)}, "No such file or directory"},
		{[]string{"write", filepath.Join(filepath.Dir(secret), "new.txt"), "x"}, "No such file or directory"},
		{[]string{"link", secret, filepath.Join(filepath.Dir(secret), "link")}, "symlink"},
		{[]string{"dial", server.Addr().String()}, "connect"},
		{[]string{"start"}, "exec"},
		{[]string{"environment"}, "false"},
	} {
		t.Run(strings.Join(tt.args[:1], " "), func(t *testing.T) {
			control, err := exec.Command(native, tt.args...).CombinedOutput()
			if err != nil || tt.args[0] == "environment" && string(control) != "true\n" {
				t.Fatalf("control: %v, %s", err, control)
			}
			got, err := i.RunProgram(t.Context(), &tool.ProgramRun{Args: append([]string{"guest"}, tt.args...), MaxOutput: 1 << 10})
			if err != nil {
				t.Fatal(err)
			}
			text := got.Stderr
			if got.Exit == 0 {
				text = got.Stdout
			}
			if !strings.Contains(text, tt.want) || strings.Contains(got.Stdout, "canary") {
				t.Errorf("exit %d, %q, %q, want %q", got.Exit, got.Stdout, got.Stderr, tt.want)
			}
		})
	}
}

// TestLimits exceeds each execution limit. As a control, the program succeeds below it.
func TestLimits(t *testing.T) {
	i := openGuest(t)
	for _, tt := range []struct{ command, control, attack, want string }{
		{"allocate", "10", "100", "out of memory"},
		{"fill", "10", "65", "the files exceed the limit of 64 MiB"},
		{"hide", "10", "65", "the files exceed the limit of 64 MiB"},
		{"create", "900", "1001", "the files exceed the limit of 1000 files and folders"},
		{"open", "900", "1001", "the open files exceed the limit of 1000"},
		{"open-folders", "90", "101", "the open folders exceed the limit of 100"},
		{"create-long", "4000", "5001", "a path of 5001 bytes exceeds the limit of 4096 bytes"},
	} {
		t.Run(tt.command, func(t *testing.T) {
			run := &tool.ProgramRun{Args: []string{"guest", tt.command, tt.control}, MaxOutput: 1 << 10, Limits: tool.ProgramLimits{Memory: 64 << 20}}
			if got, err := i.RunProgram(t.Context(), run); err != nil || got.Exit != 0 {
				t.Fatalf("control: %+v, %v", got, err)
			}
			run.Args[2] = tt.attack
			if got, err := i.RunProgram(t.Context(), run); err != nil || got.Exit == 0 || !strings.Contains(got.Stderr, tt.want) {
				t.Errorf("%+v, %v, want %q", got, err, tt.want)
			}
		})
	}
	got, err := i.RunProgram(t.Context(), &tool.ProgramRun{Args: []string{"guest", "print", "5000"}, MaxOutput: 1000})
	if err != nil || len(got.Stdout) != 1000 || got.Dropped != 4000 {
		t.Errorf("output: %d bytes, %d dropped, %v", len(got.Stdout), got.Dropped, err)
	}
	if _, err := i.RunProgram(t.Context(), &tool.ProgramRun{Limits: tool.ProgramLimits{Memory: 1 << 10}}); err == nil || !strings.HasPrefix(err.Error(), "a memory of 1 KiB is less than the ") {
		t.Errorf("too little memory: %v", err)
	}
}

// TestTimeout expects endless code to end with its context, and others to run meanwhile.
func TestTimeout(t *testing.T) {
	i := openGuest(t)
	for _, command := range []string{"spin", "sleep"} {
		if err := i.WaitUntilReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		var all sync.WaitGroup
		for range maxRunning + 1 { // the last one waits
			all.Go(func() {
				if got, err := i.RunProgram(ctx, &tool.ProgramRun{Args: []string{"guest", command}}); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %+v, %v", command, got, err)
				}
			})
		}
		all.Wait()
		cancel()
		if got, err := i.RunProgram(t.Context(), &tool.ProgramRun{Args: []string{"guest", "copy"}, Stdin: []byte("x"), MaxOutput: 9}); err != nil || got.Stdout != "x" {
			t.Errorf("afterwards: %+v, %v", got, err)
		}
	}
}

// TestFiles expects files to be copied in and out, and each execution to have its own.
func TestFiles(t *testing.T) {
	i := openGuest(t)
	execute := func(files map[string][]byte, args ...string) *tool.ProgramResult {
		t.Helper()
		got, err := i.RunProgram(t.Context(), &tool.ProgramRun{
			Args: append([]string{"guest"}, args...), MaxOutput: 1 << 10, Files: files, Collect: []string{"*.txt", "dir/*.txt"},
		})
		if err != nil || got.Exit != 0 {
			t.Fatalf("%q: %+v, %v", args, got, err)
		}
		return got
	}
	in := map[string][]byte{"a.txt": []byte("one"), "dir/b.txt": []byte("two")}
	if got := execute(in, "read", "dir/b.txt"); got.Stdout != "two" || len(got.Files) != 0 {
		t.Errorf("reading: %+v", got)
	}
	if got := execute(in, "write", "a.txt", "new"); len(got.Files) != 1 || string(got.Files["a.txt"]) != "new" || string(in["a.txt"]) != "one" {
		t.Errorf("writing: %+v", got)
	}
	if got := execute(in, "rename", "a.txt", "dir/b.txt"); len(got.Files) != 1 || string(got.Files["dir/b.txt"]) != "one" {
		t.Errorf("renaming: %+v", got)
	}
	if got := execute(in, "list", "/"); got.Stdout != "a.txt false\ndir true\ntmp true\n" {
		t.Errorf("listing: %q", got.Stdout)
	}
	if got := execute(nil, "list", "."); got.Stdout != "tmp true\n" {
		t.Errorf("another execution: %q", got.Stdout)
	}
	if _, err := i.RunProgram(t.Context(), &tool.ProgramRun{Files: map[string][]byte{"big": make([]byte, maxFileBytes+1)}}); err == nil || !strings.Contains(err.Error(), "limit of 64 MiB") {
		t.Errorf("too many bytes: %v", err)
	}
}

// newModule returns a module whose _start has one instruction.
func newModule(body ...byte) []byte {
	m := []byte("\x00asm\x01\x00\x00\x00" + "\x01\x04\x01\x60\x00\x00" + "\x03\x02\x01\x00" + "\x05\x03\x01\x00\x01" + "\x07\x13\x02\x06_start\x00\x00\x06memory\x02\x00")
	return append(m, append([]byte{10, byte(len(body) + 4), 1, byte(len(body) + 2), 0}, append(body, 0x0b)...)...)
}

// TestTraps expects a module's error to be a result, also when its calls never return.
func TestTraps(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		body       []byte
	}{
		{"nothing", "", []byte{0x01}},
		{"recursion", "stack overflow", []byte{0x10, 0}},
		{"unreachable", "wasm error: unreachable", []byte{0x00}},
	} {
		file := filepath.Join(t.TempDir(), "m.wasm")
		if err := os.WriteFile(file, newModule(tt.body...), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := openTestModule(t, file).RunProgram(t.Context(), &tool.ProgramRun{})
		if err != nil || got.Stderr != tt.want || (got.Exit == 134) != (tt.want != "") {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
}

// TestOpen expects errors for other files, and a module to be compiled
// once, until its file changes.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, content []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("text.wasm", []byte("x"))
	write("broken.wasm", newModule(0x10, 9))
	write("library.wasm", []byte("\x00asm\x01\x00\x00\x00"))
	write("ok.wasm", newModule(0x01))
	h := New(dir, slog.New(slog.DiscardHandler))
	for name, want := range map[string]string{
		"none.wasm": "none.wasm not found in the interpreter folder", "text.wasm": "text.wasm is not a WebAssembly module",
		"../x.wasm": "path escapes", ".": "is a directory",
	} {
		if _, err := h.Open(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%q) = %v, want %s", name, err, want)
		}
	}
	if _, err := New("", h.logger).Open("ok.wasm"); !errors.Is(err, ErrNoFolder) {
		t.Errorf("without a folder: %v", err)
	}
	for name, want := range map[string]string{"broken.wasm": "cannot compile the interpreter broken.wasm: ", "library.wasm": "it does not export _start"} {
		i, err := h.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := i.WaitUntilReady(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("compiling %s: %v, want %s", name, err, want)
		}
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	}
	open := func() *Interpreter {
		i, err := h.Open("ok.wasm")
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	one, two := open(), open()
	if one.interpreter != two.interpreter {
		t.Error("the module was compiled twice")
	}
	if one.Close(); one.Close() != nil || h.idle == one.interpreter {
		t.Error("an interpreter in use is idle")
	}
	if two.Close(); h.idle != two.interpreter || open().interpreter != two.interpreter || h.idle != nil {
		t.Error("an idle interpreter was not used again")
	}
	write("ok.wasm", append(newModule(0x01), 0, 1, 0)) // with an empty custom section
	if open().interpreter == two.interpreter {
		t.Error("a replaced module was not compiled")
	}
}
