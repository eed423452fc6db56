package wasi

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"agenthost/internal/codeprogram"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// Executors lists the code executor wasi. All loaders that use the list share the interpreters,
// because compiling one takes seconds.
func Executors() loader.ExecutorKinds {
	shared := &hosts{byDir: map[string]*Host{}}
	newConfig := func() *executorConfig { return &executorConfig{hosts: shared} }
	return loader.ExecutorKinds{spec.NewKindFrom("wasi", "runs a WebAssembly interpreter", newConfig, newExecutor)}
}

// hosts are the hosts by their folders.
type hosts struct {
	mu    sync.Mutex
	byDir map[string]*Host
}

// findHost returns a folder's host. It logs to the logger from its first use.
func (h *hosts) findHost(dir string, logger *slog.Logger) *Host {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byDir[dir] == nil {
		h.byDir[dir] = New(dir, logger)
	}
	return h.byDir[dir]
}

type executorConfig struct {
	Program codeprogram.Args `yaml:",inline"`
	Memory  spec.Size        `yaml:"memory" default:"256MiB" doc:"For wasi: maximum memory per execution, at most 1 GiB."`

	hosts *hosts
}

var (
	_ loader.ExecutorChecker = (*executorConfig)(nil)
	_ loader.HostChecker     = (*executorConfig)(nil)
)

// CheckExecutor requires a module, and a memory within the limit.
func (c *executorConfig) CheckExecutor(use loader.ExecutorUse) spec.Diagnostics {
	ds := c.Program.CheckFiles()
	if at := use.Args.Get("memory"); at != nil && (c.Memory <= 0 || c.Memory > MaxMemory) {
		ds = append(ds, at.Errorf("value", "memory must be more than 0 and at most %d MiB", MaxMemory>>20))
	}
	if c.Program.Interpreter().Value == "" {
		ds = append(ds, use.Name.Errorf(0, "code-executor", "the executor wasi requires command: the interpreter's WebAssembly module and its arguments").
			WithHint("such as command: [python-3.11.3.wasm, -I, -]"))
	}
	return ds
}

// CheckHost reports a module that the host does not have.
func (c *executorConfig) CheckHost(env loader.ExecutorEnv) spec.Diagnostics {
	module := c.Program.Interpreter()
	if module.Value == "" {
		return nil // already reported
	}
	if _, err := c.hosts.findHost(env.Interpreters, env.Logger).checkModule(module.Value); err != nil {
		return c.reportModule(err)
	}
	return nil
}

// reportModule reports why the module cannot be opened.
func (c *executorConfig) reportModule(err error) spec.Diagnostics {
	module := c.Program.Interpreter()
	d := module.Errorf(0, "code-executor", "cannot open the interpreter: %s", err)
	if errors.Is(err, ErrNoFolder) {
		d = d.WithHint("pass the folder that has %s with --interpreters", module.Value)
	}
	return spec.Diagnostics{d}
}

func newExecutor(_ context.Context, env loader.ExecutorEnv, c *executorConfig) (runtime.CodeExecutor, error) {
	// It also runs in app tests, because it reaches nothing outside.
	found, err := c.hosts.findHost(env.Interpreters, env.Logger).Open(c.Program.Interpreter().Value)
	if err != nil {
		return nil, c.reportModule(err).Err()
	}
	x := c.Program.NewExecutor(found, env.MaxOutput)
	x.Limits = tool.ProgramLimits{Memory: int64(c.Memory)}
	return &executor{x, found}, nil
}

// An executor runs code in an interpreter, which it closes.
type executor struct {
	*codeprogram.Executor
	interpreter *Interpreter
}

// Close releases the interpreter.
func (x *executor) Close() error { return x.interpreter.Close() }
