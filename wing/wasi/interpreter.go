package wasi

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"agenthost/pkg/tool"
)

// Memory limits for an execution, in bytes. MaxMemory limits the limit.
const (
	MaxMemory     = 1 << 30
	defaultMemory = 256 << 20
	pageSize      = 64 << 10
)

// interpreter is an interpreter that several users share.
type interpreter struct {
	host    *Host
	version moduleVersion
	// compiled is closed after the compilation, which sets the fields below.
	compiled  chan struct{}
	err       error
	runtime   wazero.Runtime
	module    wazero.CompiledModule
	minMemory int64

	// The host's lock protects users and dropped.
	users   int
	dropped bool
}

// An Interpreter runs code in a WebAssembly module. It is safe for concurrent use.
type Interpreter struct {
	*interpreter
	once sync.Once
}

var _ tool.PreparingRunner = (*Interpreter)(nil)

// Close releases the interpreter after its executions have ended.
func (i *Interpreter) Close() error {
	i.once.Do(func() { i.host.releaseInterpreter(i.interpreter) })
	return nil
}

// compileModule compiles the module, without the debug information that slows down each exit.
func (i *interpreter) compileModule() error {
	ctx := experimental.WithFunctionListenerFactory(context.Background(), experimental.FunctionListenerFactoryFunc(listenToPaths))
	code, err := i.host.readModule(i.version.name)
	if err != nil {
		return err
	}
	i.runtime = wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCloseOnContextDone(true).WithDebugInfoEnabled(false).WithMemoryLimitPages(MaxMemory/pageSize))
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, i.runtime); err != nil {
		return err
	}
	if i.module, err = i.runtime.CompileModule(ctx, code); err != nil {
		return err
	}
	for _, m := range i.module.ExportedMemories() {
		i.minMemory += int64(m.Min()) * pageSize
	}
	if i.module.ExportedFunctions()["_start"] == nil {
		return errors.New("the module is not a WASI command: it does not export _start")
	}
	return nil
}

// WaitUntilReady waits until the module is compiled, and returns the error.
func (i *Interpreter) WaitUntilReady(ctx context.Context) error {
	select {
	case <-i.compiled:
		return i.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// RunProgram implements [tool.ProgramRunner]. It uses a run's arguments, input, files, and limits
// for output and memory. Each run has its own files.
func (i *Interpreter) RunProgram(ctx context.Context, run *tool.ProgramRun) (*tool.ProgramResult, error) {
	if err := i.WaitUntilReady(ctx); err != nil {
		return nil, err
	}
	select {
	case i.host.running <- struct{}{}:
		defer func() { <-i.host.running }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	memory := run.Limits.Memory
	if memory <= 0 {
		memory = defaultMemory
	}
	memory = min(memory, MaxMemory)
	if memory < i.minMemory {
		return nil, fmt.Errorf("a memory of %d KiB is less than the %d KiB that %s requires", memory>>10, i.minMemory>>10, i.version.name)
	}
	files := newFileSystem()
	if err := files.writeFiles(run.Files); err != nil {
		return nil, err
	}
	return i.runModule(ctx, run, files, memory)
}

// runModule runs the module to its end.
func (i *Interpreter) runModule(ctx context.Context, run *tool.ProgramRun, files *fileSystem, memory int64) (*tool.ProgramResult, error) {
	stdout, stderr := &cappedBuffer{max: run.MaxOutput}, &cappedBuffer{max: run.MaxOutput}
	config := wazero.NewModuleConfig().WithName("").WithArgs(run.Args...).
		WithStdin(bytes.NewReader(run.Stdin)).WithStdout(stdout).WithStderr(stderr).
		WithFSConfig(wazero.NewFSConfig().(sysfs.FSConfig).WithSysFSMount(files, "/")).
		WithRandSource(rand.Reader).WithSysWalltime().WithSysNanotime().
		WithNanosleep(func(ns int64) { sleepUntilDone(ctx, time.Duration(ns)) })
	allocator := experimental.MemoryAllocatorFunc(func(uint64, uint64) experimental.LinearMemory {
		return &linearMemory{limit: uint64(memory)}
	})
	module, err := i.runtime.InstantiateModule(experimental.WithMemoryAllocator(ctx, allocator), i.module, config)
	if module != nil {
		_ = module.Close(context.WithoutCancel(ctx)) // its files are in memory
	}
	if ended := context.Cause(ctx); ended != nil {
		return nil, ended
	}
	result := &tool.ProgramResult{Stdout: readableText(stdout.written), Stderr: readableText(stderr.written), Dropped: stdout.dropped + stderr.dropped}
	exit := (*sys.ExitError)(nil)
	switch {
	case errors.As(err, &exit):
		result.Exit = int(exit.ExitCode())
	case err != nil:
		const aborted = 128 + 6 // as after SIGABRT
		message, _, _ := strings.Cut(err.Error(), "\n")
		result.Exit, result.Stderr = aborted, appendLine(result.Stderr, strings.TrimPrefix(message, "module[] function[_start] failed: "))
	}
	if files.exceeded != nil && result.Exit != 0 {
		result.Stderr = appendLine(result.Stderr, files.exceeded.Error())
	}
	result.Files, err = files.collectFiles(run.Collect)
	return result, err
}

// sleepUntilDone sleeps, at most until the context ends.
func sleepUntilDone(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// linearMemory is a module's memory.
type linearMemory struct {
	limit uint64
	bytes []byte
}

// Reallocate grows the memory, or returns nil beyond the limit.
func (m *linearMemory) Reallocate(size uint64) []byte {
	if size > m.limit {
		return nil
	}
	if size > uint64(cap(m.bytes)) {
		grown := make([]byte, size, min(m.limit, max(size, uint64(cap(m.bytes))*3/2)))
		copy(grown, m.bytes)
		m.bytes = grown
	}
	m.bytes = m.bytes[:size]
	return m.bytes
}

// Free implements [experimental.LinearMemory].
func (m *linearMemory) Free() { m.bytes = nil }

// A cappedBuffer keeps the beginning of an output.
type cappedBuffer struct {
	max     int
	written []byte
	dropped int64
}

// Write implements [io.Writer], and never fails.
func (b *cappedBuffer) Write(p []byte) (int, error) {
	n := min(len(p), b.max-len(b.written))
	b.written = append(b.written, p[:n]...)
	b.dropped += int64(len(p) - n)
	return len(p), nil
}

// readableText converts an output to text without null characters, which databases reject.
func readableText(b []byte) string {
	const replacement = "\uFFFD"
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), replacement), "\x00", replacement)
}

func appendLine(text, line string) string {
	return strings.TrimPrefix(strings.TrimRight(text, "\n")+"\n"+line, "\n")
}
