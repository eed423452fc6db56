package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"agenthost/internal/command"
	"agenthost/wing/lsp"
)

// listEditorCommands returns what an editor's code lenses run: this program's own commands, with the
// loading flags that the language server has. They use the saved files.
func listEditorCommands(flags *pflag.FlagSet) map[string]lsp.Command {
	var shared []string
	flags.Visit(func(f *pflag.Flag) { shared = append(shared, "--"+f.Name+"="+f.Value.String()) })
	return map[string]lsp.Command{
		lsp.RunTest: newEditorCommand(2, func(args []string) ([]string, error) {
			return append([]string{"test", "-v", "--run=^" + regexp.QuoteMeta(args[1]) + "$", args[0]}, shared...), nil
		}),
		lsp.EvalCase: newEditorCommand(3, func(args []string) ([]string, error) {
			if strings.ContainsAny(args[2], ",:") {
				return nil, fmt.Errorf("case %q cannot run alone: its name has a comma or a colon", args[2])
			}
			set := filepath.Join(args[0], filepath.FromSlash(args[1]))
			return append([]string{"eval", "-v", args[0], set + ":" + args[2]}, shared...), nil
		}),
		lsp.PreviewAgent: newEditorCommand(2, func(args []string) ([]string, error) {
			return append([]string{"preview", "--agent=" + args[1], args[0]}, shared...), nil
		}),
	}
}

// newEditorCommand returns a command with this many arguments, all strings, of which the first is the
// app folder's absolute path. build returns the command line.
func newEditorCommand(count int, build func(args []string) ([]string, error)) lsp.Command {
	return func(ctx context.Context, arguments []json.RawMessage) (lsp.CommandResult, error) {
		args := make([]string, len(arguments))
		for i, argument := range arguments {
			if err := json.Unmarshal(argument, &args[i]); err != nil {
				return lsp.CommandResult{}, fmt.Errorf("argument %d must be a string", i+1)
			}
		}
		if len(args) != count || !filepath.IsAbs(args[0]) {
			return lsp.CommandResult{}, fmt.Errorf("%d arguments are required, the first is the absolute path of the app folder", count)
		}
		line, err := build(args)
		if err != nil {
			return lsp.CommandResult{}, err
		}
		var out commandOutput
		code := run(ctx, line, command.Env{In: strings.NewReader(""), Out: &out, Err: &out})
		return lsp.CommandResult{Failed: code != command.ExitOK, Output: out.buffer.String()}, nil
	}
}

// maxCommandOutput limits what a command's response contains.
const maxCommandOutput = 4 << 20

// commandOutput collects a command's output and errors up to a limit, from several goroutines.
type commandOutput struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write appends what is within the limit, and drops the rest.
func (o *commandOutput) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buffer.Write(b[:min(len(b), maxCommandOutput-o.buffer.Len())])
	return len(b), nil
}
