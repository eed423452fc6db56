// Package codeprogram gives code that models write to programs, on their stdin.
package codeprogram

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// Args are the settings for a code executor that runs an interpreter with files.
type Args struct {
	Command  []spec.Text `yaml:"command" doc:"For command and wasi: the interpreter and its arguments; it reads the code from stdin. For command, the host policy must allow it; for wasi, it is a WebAssembly module in the folder of --interpreters."`
	FilesIn  []spec.Text `yaml:"files_in" doc:"For command and wasi: artifacts that are files in the working directory, if they exist."`
	FilesOut []spec.Text `yaml:"files_out" doc:"For command and wasi: patterns such as *.png: changed files in the working directory that become artifacts."`
}

// Interpreter returns the interpreter, or an empty text if the settings name none.
func (a *Args) Interpreter() spec.Text {
	if len(a.Command) == 0 {
		return spec.Text{}
	}
	return a.Command[0]
}

// CheckFiles reports invalid file names and patterns.
func (a *Args) CheckFiles() spec.Diagnostics {
	var ds spec.Diagnostics
	for _, file := range a.FilesIn {
		if !filepath.IsLocal(file.Value) || file.Value == "." {
			ds = append(ds, file.Errorf(0, "code-executor", "%q is not the name of an artifact that can be a file", file.Value))
		}
	}
	for _, pattern := range a.FilesOut {
		if _, err := path.Match(pattern.Value, ""); err != nil || pattern.Value == "" {
			ds = append(ds, pattern.Errorf(0, "code-executor", "invalid pattern %q", pattern.Value))
		}
	}
	return ds
}

// NewExecutor returns an executor that gives code to the interpreter.
func (a *Args) NewExecutor(runner tool.ProgramRunner, maxOutput int) *Executor {
	return &Executor{
		Runner: runner, Command: TextValues(a.Command), FilesIn: TextValues(a.FilesIn), FilesOut: TextValues(a.FilesOut), MaxOutput: maxOutput,
	}
}

// TextValues returns the value of each text.
func TextValues(texts []spec.Text) []string {
	values := make([]string, len(texts))
	for i, text := range texts {
		values[i] = text.Value
	}
	return values
}

// An Executor gives code to a program on its stdin.
type Executor struct {
	// Runner runs the program; nil means that no code runs.
	Runner tool.ProgramRunner
	// Command are the program and its arguments.
	Command []string
	// FilesIn are artifacts that become files, FilesOut patterns for files that become
	// artifacts.
	FilesIn, FilesOut []string
	// MaxOutput limits each output, in bytes.
	MaxOutput int
	Limits    tool.ProgramLimits
}

var _ runtime.CodePreparer = (*Executor)(nil)

// PrepareCode waits for a runner that is not ready.
func (e *Executor) PrepareCode(ctx context.Context) error {
	if r, ok := e.Runner.(tool.PreparingRunner); ok {
		return r.WaitUntilReady(ctx)
	}
	return nil
}

// ExecuteCode runs the program in the session's folder. If it succeeds, its stderr output is
// the result only if its stdout is empty.
func (e *Executor) ExecuteCode(ctx context.Context, m *runtime.CallbackContext, code *runtime.Code) (*runtime.CodeResult, error) {
	if e.Runner == nil {
		return nil, errors.New("no code runs here: tests run no programs")
	}
	key := m.Session().Key
	run := &tool.ProgramRun{
		Origin: model.Origin{App: key.App, UserID: key.User, SessionID: key.ID, InvocationID: m.ID(), Agent: m.Agent().Name()},
		Args:   e.Command, Stdin: []byte(code.Source + "\n"), MaxOutput: e.MaxOutput, Collect: e.FilesOut, Files: map[string][]byte{}, Limits: e.Limits,
	}
	if err := e.loadFiles(ctx, m.Artifacts, run.Files); err != nil {
		return nil, err
	}
	got, err := e.Runner.RunProgram(ctx, run)
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
		result.Stdout = strings.ToValidUTF8(result.Stdout[:max(0, min(len(result.Stdout), e.MaxOutput-len(note)))], "") + note
	}
	for _, name := range slices.Sorted(maps.Keys(got.Files)) {
		result.Files = append(result.Files, &genai.Blob{DisplayName: name, MIMEType: fileType(name, got.Files[name]), Data: got.Files[name]})
	}
	return result, nil
}

// maxCodeFiles limits the artifacts from one execution, in bytes.
const maxCodeFiles = 32 << 20

// loadFiles adds the artifacts that exist as files.
func (e *Executor) loadFiles(ctx context.Context, from tool.Artifacts, files map[string][]byte) error {
	if len(e.FilesIn) == 0 {
		return nil
	}
	names, err := from.Keys(ctx)
	if err != nil {
		return fmt.Errorf("listing artifacts: %w", err)
	}
	total := 0
	for _, name := range e.FilesIn {
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

// fileType returns a file's media type by its name, or else by its content.
func fileType(name string, content []byte) string {
	kind := mime.TypeByExtension(path.Ext(name))
	if kind == "" {
		kind = http.DetectContentType(content)
	}
	kind, _, _ = strings.Cut(kind, ";")
	return kind
}
