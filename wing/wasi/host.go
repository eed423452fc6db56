package wasi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"agenthost/internal/regular"
	"agenthost/internal/safe"
)

// Host limits.
const (
	// maxRunning limits the executions that run at the same time.
	maxRunning = 4
	// maxModule limits a module, in bytes.
	maxModule = 128 << 20
)

// A Host compiles the interpreters in a folder, each once, and runs the code of all apps. It
// is safe for concurrent use.
type Host struct {
	dir    string
	logger *slog.Logger
	// running and compiling limit what happens at the same time.
	running, compiling chan struct{}

	mu    sync.Mutex
	byKey map[moduleVersion]*interpreter
	// idle is the interpreter that was released last, if nothing uses it. It stays
	// compiled, so that a reload or the next test does not compile it again.
	idle *interpreter
}

// New returns a host for the interpreters in a folder; without a folder there are none.
func New(dir string, logger *slog.Logger) *Host {
	return &Host{
		dir: dir, logger: logger, byKey: map[moduleVersion]*interpreter{},
		running: make(chan struct{}, maxRunning), compiling: make(chan struct{}, 1),
	}
}

// A moduleVersion changes when a module's file is replaced.
type moduleVersion struct {
	name     string
	size     int64
	modified time.Time
}

// ErrNoFolder means that the host has no interpreter folder.
var ErrNoFolder = errors.New("no interpreter folder is set")

// Open returns the interpreter that is a module in the folder. It compiles a new module in
// the background. The caller closes the interpreter.
func (h *Host) Open(module string) (*Interpreter, error) {
	version, err := h.checkModule(module)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	got := h.byKey[version]
	switch {
	case got == nil:
		got = &interpreter{host: h, version: version, compiled: make(chan struct{})}
		h.byKey[version] = got
		go got.compileInBackground()
	case got == h.idle:
		h.idle = nil
	}
	got.users++
	return &Interpreter{interpreter: got}, nil
}

// checkModule returns a module's version, or why it cannot be opened.
func (h *Host) checkModule(name string) (moduleVersion, error) {
	f, version, err := h.openModule(name)
	if err != nil {
		return moduleVersion{}, err
	}
	defer f.Close()
	const magic = "\x00asm"
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(f, head); err != nil || string(head) != magic {
		return moduleVersion{}, fmt.Errorf("%s is not a WebAssembly module", name)
	}
	return version, nil
}

// openModule opens a module's file.
func (h *Host) openModule(name string) (*os.File, moduleVersion, error) {
	if h.dir == "" {
		return nil, moduleVersion{}, ErrNoFolder
	}
	root, err := os.OpenRoot(h.dir)
	if err != nil {
		return nil, moduleVersion{}, fmt.Errorf("opening the interpreter folder: %w", err)
	}
	defer root.Close()
	f, err := regular.Open(root.OpenFile, name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s not found in the interpreter folder", name)
	}
	if err != nil {
		return nil, moduleVersion{}, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() > maxModule {
		err = fmt.Errorf("%s exceeds the limit of %d MiB", name, maxModule>>20)
	}
	if err != nil {
		f.Close()
		return nil, moduleVersion{}, err
	}
	return f, moduleVersion{name, info.Size(), info.ModTime()}, nil
}

// readModule reads a module's file.
func (h *Host) readModule(name string) ([]byte, error) {
	f, version, err := h.openModule(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	code := make([]byte, version.size)
	_, err = io.ReadFull(f, code)
	return code, err
}

// compileInBackground compiles the module.
func (i *interpreter) compileInBackground() {
	defer i.endCompilation()
	defer safe.Recover(func(p *safe.Panic) {
		p.Log(i.host.logger, "compiling an interpreter panicked", "interpreter", i.version.name)
		i.err = fmt.Errorf("cannot compile the interpreter %s", i.version.name)
	})
	i.host.compiling <- struct{}{}
	defer func() { <-i.host.compiling }()
	logger, start := i.host.logger.With("interpreter", i.version.name), time.Now()
	logger.Info("compiling interpreter")
	if err := i.compileModule(); err != nil {
		i.err = fmt.Errorf("cannot compile the interpreter %s: %w", i.version.name, err)
		logger.Error("failed to compile interpreter", "error", err)
		return
	}
	logger.Info("interpreter compiled", "duration", time.Since(start))
}

// endCompilation lets executions begin, or closes an interpreter without users.
func (i *interpreter) endCompilation() {
	i.host.mu.Lock()
	defer i.host.mu.Unlock()
	close(i.compiled)
	if i.dropped {
		i.closeRuntime()
	}
}

// releaseInterpreter ends one use of an interpreter.
func (h *Host) releaseInterpreter(i *interpreter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i.users--; i.users > 0 {
		return
	}
	if h.idle != nil {
		h.dropInterpreter(h.idle)
	}
	h.idle = i
}

// dropInterpreter closes an interpreter without users, if need be after its compilation.
// h.mu is locked.
func (h *Host) dropInterpreter(i *interpreter) {
	delete(h.byKey, i.version)
	i.dropped = true
	select {
	case <-i.compiled:
		i.closeRuntime()
	default:
	}
}

func (i *interpreter) closeRuntime() {
	if i.runtime != nil {
		_ = i.runtime.Close(context.Background()) // no execution runs
	}
}
