package agentconfig

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"mime"
	"net/http"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	"agenthost/wing/wasi"
)

// Names of executors that run programs, which the policy of the host grants.
const (
	CodeCommand   = "command"
	CodeContainer = "container"
)

// CodeWasi is the name, in documents, of the executor that runs a WebAssembly interpreter.
const CodeWasi = "wasi"

// codeProgram are the args of the executors that run a program.
type codeProgram struct {
	Command  []spec.Text `yaml:"command" doc:"For command and wasi: the interpreter and its arguments; it reads the code from stdin. For command, the host policy must allow it; for wasi, it is a WebAssembly module in the folder of --interpreters."`
	FilesIn  []spec.Text `yaml:"files_in" doc:"For command and wasi: artifacts that are files in the working directory, if they exist."`
	FilesOut []spec.Text `yaml:"files_out" doc:"For command and wasi: patterns such as *.png: changed files in the working directory that become artifacts."`
	Memory   spec.Size   `yaml:"memory" default:"256MiB" doc:"For wasi: maximum memory of one execution, at most 1 GiB."`
	Image    spec.Text   `yaml:"image" doc:"For container: the image, which must exist on the host and have python3 and timeout."`
	Runtime  string      `yaml:"runtime" enum:"docker|podman" default:"docker" doc:"For container: the program that runs containers. The host policy must allow it."`
	Network  bool        `yaml:"network_enabled" doc:"For container: whether the code may use the network."`
}

// validImage is a reference of an image: it cannot be an option.
var validImage = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`)

// checkProgram reports settings that do not fit the executor; n has the args, or is null.
func (c *codeConfig) checkProgram(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	for _, own := range []struct{ keys, executors []string }{
		{[]string{"command", "files_in", "files_out"}, []string{CodeCommand, CodeWasi}},
		{[]string{"image", "runtime", "network_enabled"}, []string{CodeContainer}},
		{[]string{"memory"}, []string{CodeWasi}},
	} {
		for _, key := range own.keys {
			if at := n.Get(key); at != nil && !slices.Contains(own.executors, c.name.Value) {
				ds = append(ds, at.Errorf("code-executor", "%s requires the executor %s", key, strings.Join(own.executors, " or ")))
			}
		}
	}
	p := &c.program
	if c.name.Value == CodeWasi && n.Get("memory") != nil && (p.Memory <= 0 || p.Memory > wasi.MaxMemory) {
		ds = append(ds, n.Get("memory").Errorf("value", "memory must be more than 0 and at most %d MiB", wasi.MaxMemory>>20))
	}
	switch {
	case c.name.Value == CodeCommand && (len(p.Command) == 0 || p.Command[0].Value == ""):
		ds = append(ds, c.name.Errorf(0, "code-executor", "the executor command requires command: the interpreter and its arguments").
			WithHint("such as command: [python3, -I, -]"))
	case c.name.Value == CodeWasi && (len(p.Command) == 0 || p.Command[0].Value == ""):
		ds = append(ds, c.name.Errorf(0, "code-executor", "the executor wasi requires command: the WebAssembly module of the interpreter and its arguments").
			WithHint("such as command: [python-3.11.3.wasm, -I, -]"))
	case c.name.Value == CodeContainer && !validImage.MatchString(p.Image.Value):
		ds = append(ds, c.name.Errorf(0, "code-executor", "the executor container requires image, such as python:3.13-slim"))
	}
	for _, file := range p.FilesIn {
		if !filepath.IsLocal(file.Value) || file.Value == "." {
			ds = append(ds, file.Errorf(0, "code-executor", "%q is not the name of an artifact that can be a file", file.Value))
		}
	}
	for _, pattern := range p.FilesOut {
		if _, err := path.Match(pattern.Value, ""); err != nil || pattern.Value == "" {
			ds = append(ds, pattern.Errorf(0, "code-executor", "invalid pattern %q", pattern.Value))
		}
	}
	return ds
}

// programArgs returns the program of the executor with its arguments, or nil.
func (c *codeConfig) programArgs() []string {
	p := &c.program
	switch {
	case c.name.Value == CodeCommand || c.name.Value == CodeWasi:
		return textValues(p.Command)
	case c.name.Value != CodeContainer || !validImage.MatchString(p.Image.Value):
		return nil
	}
	network := "none"
	if p.Network {
		network = "bridge"
	}
	seconds := strconv.Itoa(int(math.Ceil(c.execution.Timeout.Seconds())))
	// Without the program timeout, a container would outlive its client.
	return []string{
		p.Runtime, "run", "--rm", "-i", "--init", "--pull=never", "--network=" + network, "--read-only", "--tmpfs=/tmp", "--workdir=/tmp",
		"--cap-drop=ALL", "--security-opt=no-new-privileges", "--user=65534:65534", "--memory=512m", "--memory-swap=512m", "--pids-limit=64",
		p.Image.Value, "timeout", "-s", "KILL", seconds, "python3", "-",
	}
}

func textValues(texts []spec.Text) []string {
	values := make([]string, len(texts))
	for i, text := range texts {
		values[i] = text.Value
	}
	return values
}

var _ tool.ProgramConfig = (*llmConfig)(nil)

// Programs returns the program of the code executor, if it has one.
func (c *llmConfig) Programs() []*tool.Program {
	args := c.CodeExecutor.programArgs()
	if len(args) == 0 || args[0] == "" || c.CodeExecutor.name.Value == CodeWasi {
		return nil
	}
	p := &tool.Program{Args: args, At: c.CodeExecutor.name}
	if c.CodeExecutor.name.Value == CodeCommand {
		p.Note = "add sandbox: {} to the grant, which confines the code"
	}
	return []*tool.Program{p}
}

var _ InterpreterConfig = (*llmConfig)(nil)

// Interpreter returns the module of the interpreter that runs the code, if there is one.
func (c *llmConfig) Interpreter() spec.Text {
	if command := c.CodeExecutor.program.Command; c.CodeExecutor.name.Value == CodeWasi && len(command) > 0 {
		return command[0]
	}
	return spec.Text{}
}

// withPrograms returns the execution whose programs a runner runs.
func (c *codeConfig) withPrograms(runner tool.ProgramRunner) *runtime.CodeExecution {
	args := c.programArgs()
	if len(args) == 0 {
		return c.execution
	}
	x := *c.execution
	executor := &programExecutor{
		runner: runner, args: args, filesIn: textValues(c.program.FilesIn), filesOut: textValues(c.program.FilesOut), maxOutput: x.MaxOutput,
	}
	if c.name.Value == CodeWasi {
		executor.limits.Memory = int64(c.program.Memory)
	}
	x.Executor = executor
	return &x
}

// A programExecutor gives code to a program on its stdin.
type programExecutor struct {
	runner            tool.ProgramRunner
	args              []string
	filesIn, filesOut []string
	maxOutput         int
	limits            tool.ProgramLimits
}

var _ runtime.CodePreparer = (*programExecutor)(nil)

// PrepareCode waits for a runner that is not ready.
func (e *programExecutor) PrepareCode(ctx context.Context) error {
	if r, ok := e.runner.(tool.PreparingRunner); ok {
		return r.WaitUntilReady(ctx)
	}
	return nil
}

// ExecuteCode runs the program in the folder of the session. Output on stderr of a program that
// succeeds is only its result if it has no other.
func (e *programExecutor) ExecuteCode(ctx context.Context, m *runtime.CallbackContext, code *runtime.Code) (*runtime.CodeResult, error) {
	if e.runner == nil {
		return nil, errors.New("no code runs here: tests run no programs")
	}
	key := m.Session().Key
	run := &tool.ProgramRun{
		Origin: model.Origin{App: key.App, UserID: key.User, SessionID: key.ID, InvocationID: m.ID(), Agent: m.Agent().Name()},
		Args:   e.args, Stdin: []byte(code.Source + "\n"), MaxOutput: e.maxOutput, Collect: e.filesOut, Files: map[string][]byte{}, Limits: e.limits,
	}
	if err := e.loadFiles(ctx, m.Artifacts, run.Files); err != nil {
		return nil, err
	}
	got, err := e.runner.RunProgram(ctx, run)
	if err != nil {
		return nil, fmt.Errorf("the code did not run: %w", err)
	}
	result := &runtime.CodeResult{Stdout: got.Stdout}
	switch {
	case got.Exit != 0:
		result.Stderr = strings.TrimSpace(fmt.Sprintf("%s\nexit code %d", strings.TrimSpace(got.Stderr), got.Exit))
	case got.Stdout == "":
		result.Stdout = got.Stderr
	}
	if got.Dropped > 0 {
		note := fmt.Sprintf("\n[cut off here: %d bytes more]", got.Dropped)
		result.Stdout = strings.ToValidUTF8(result.Stdout[:max(0, min(len(result.Stdout), e.maxOutput-len(note)))], "") + note
	}
	for _, name := range slices.Sorted(maps.Keys(got.Files)) {
		result.Files = append(result.Files, &genai.Blob{DisplayName: name, MIMEType: fileType(name, got.Files[name]), Data: got.Files[name]})
	}
	return result, nil
}

// maxCodeFiles limits the artifacts of one execution, in bytes.
const maxCodeFiles = 32 << 20

// loadFiles adds the artifacts that exist as files.
func (e *programExecutor) loadFiles(ctx context.Context, from tool.Artifacts, files map[string][]byte) error {
	if len(e.filesIn) == 0 {
		return nil
	}
	names, err := from.Keys(ctx)
	if err != nil {
		return fmt.Errorf("listing artifacts: %w", err)
	}
	total := 0
	for _, name := range e.filesIn {
		if !slices.Contains(names, name) {
			continue
		}
		part, err := from.Load(ctx, name)
		if err != nil {
			return fmt.Errorf("loading artifact %s: %w", name, err)
		}
		files[name] = []byte(part.Text)
		if part.InlineData != nil {
			files[name] = part.InlineData.Data
		}
		if total += len(files[name]); total > maxCodeFiles {
			return fmt.Errorf("the artifacts exceed the limit of %d MiB", maxCodeFiles>>20)
		}
	}
	return nil
}

// fileType returns the media type of a file by its name, or else by its content.
func fileType(name string, content []byte) string {
	kind := mime.TypeByExtension(path.Ext(name))
	if kind == "" {
		kind = http.DetectContentType(content)
	}
	kind, _, _ = strings.Cut(kind, ";")
	return kind
}
