package programs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"agenthost/internal/toolconfig"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// bashArgs are the args for ExecuteBashTool (adk-python tools/bash_tool.py).
type bashArgs struct {
	Policy bashPolicy `yaml:"policy" doc:"The commands that the model may request, and their limits."`
	// at is the args' position, which Check sets.
	at spec.Text
}

type bashPolicy struct {
	Prefixes  []spec.Text `yaml:"allowed_command_prefixes" doc:"Prefixes of the commands that the model may request, compared as text; default: *, all that the host policy grants."`
	Blocked   []string    `yaml:"blocked_operators" doc:"Strings that commands must not contain."`
	Timeout   float64     `yaml:"timeout_seconds" default:"30" doc:"Maximum command duration, in seconds; then all its processes are killed."`
	Memory    int64       `yaml:"max_memory_bytes" doc:"Maximum memory, if it is less than that of the grant's sandbox, which it requires."`
	FileSize  int64       `yaml:"max_file_size_bytes" doc:"Maximum size of each written file, if it is below the limit in the grant's sandbox, which it requires."`
	Processes int         `yaml:"max_child_processes" doc:"Maximum processes, if it is below the limit in the grant's sandbox, which it requires."`
}

var (
	_ tool.ProgramConfig = (*bashArgs)(nil)
	_ spec.Checker       = (*bashArgs)(nil)
)

// Check reports limits that no call can have.
func (c *bashArgs) Check(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	c.at = n.Text()
	p := n.Get("policy")
	require := func(key string, ok bool, what string) {
		if at := p.Get(key); !at.IsNull() && !ok {
			ds = append(ds, at.Errorf("value", "%s must be %s", key, what))
		}
	}
	require("timeout_seconds", 0 < c.Policy.Timeout && c.Policy.Timeout <= toolconfig.MaxScriptSeconds, fmt.Sprintf("more than 0 and at most %d", toolconfig.MaxScriptSeconds))
	require("max_memory_bytes", c.Policy.Memory >= 16<<20, "at least 16777216 (16 MiB)")
	require("max_file_size_bytes", c.Policy.FileSize > 0, "more than 0")
	require("max_child_processes", c.Policy.Processes > 0, "more than 0")
	require("allowed_command_prefixes", len(c.Policy.Prefixes) > 0, "at least one prefix, or * for all that the host policy grants")
	for _, prefix := range c.Policy.Prefixes {
		if words, err := splitCommand(prefix.Value); err != nil || len(words) == 0 {
			ds = append(ds, prefix.Errorf(0, "tool", "%q is not the beginning of a command", prefix.Value))
		}
	}
	return ds
}

// Programs returns the prefixes' programs with any further arguments.
func (c *bashArgs) Programs() []*tool.Program {
	var programs []*tool.Program
	prefixes := c.Policy.Prefixes
	if len(prefixes) == 0 {
		c.at.Value = anyCommand
		prefixes = []spec.Text{c.at}
	}
	for _, prefix := range prefixes {
		words, err := splitCommand(prefix.Value)
		if err != nil || len(words) == 0 {
			continue // reported by Check
		}
		p := &tool.Program{Args: append(words, "..."), At: prefix}
		p.Kinds = make([]tool.ArgKind, len(p.Args))
		p.Kinds[len(words)] = tool.FurtherArgs
		if prefix.Value == anyCommand {
			p.Kinds[0] = tool.VariableArg
		}
		programs = append(programs, p)
	}
	return programs
}

// anyCommand is the prefix that allows all commands.
const anyCommand = "*"

// maxBashOutput limits a command's stdout and its stderr, in bytes each.
const maxBashOutput = 64 << 10

func newBashTool(_ context.Context, env tool.Env, c *bashArgs) (tool.Set, error) {
	d, err := declare.Tool("execute_bash",
		"Runs one command, such as ls -l, and returns its output. There is no shell: pipes, redirections, variables and several commands do not work. A person confirms each command.",
		toolconfig.ObjectSchema(map[string]any{"command": map[string]any{"type": "string", "description": "The program and its arguments, with the quotes of a shell where necessary."}}, "command"))
	if err != nil {
		return nil, err
	}
	return tool.One(&bashTool{Declared: d, policy: c.Policy, runner: env.Programs, offline: env.Offline}), nil
}

// formatCommand returns a command for the person who approves it. Characters that are invisible or
// change the text direction could make it look like another one: it is then quoted with escapes.
func formatCommand(command string) string {
	if strings.ContainsFunc(command, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.QuoteToASCII(command)
	}
	return command
}

// A bashTool runs commands that the model writes, without a shell.
type bashTool struct {
	*tool.Declared
	policy  bashPolicy
	runner  tool.ProgramRunner
	offline bool
}

// Run implements [tool.Tool]. As in ADK, each command requires confirmation after it passed the
// tool's policy; the host policy decides when it runs.
func (t *bashTool) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	call, err := t.CheckCall(ctx, call)
	if err != nil {
		return nil, err
	}
	command, _ := call.Args["command"].(string)
	args, err := t.checkCommand(command)
	if err != nil {
		return nil, err
	}
	if call.Confirmation == nil {
		call.RequestConfirmation("Please approve or reject the command: "+formatCommand(command), nil)
		return &tool.Result{Response: map[string]any{"error": "This tool call requires confirmation, please approve or reject."}}, nil
	}
	switch {
	case t.offline:
		return nil, toolconfig.ErrOfflineProgram
	case t.runner == nil:
		return nil, toolconfig.ErrNoPrograms
	}
	run := &tool.ProgramRun{
		Origin: call.Origin, Args: args, MaxOutput: maxBashOutput,
		Limits: tool.ProgramLimits{Memory: t.policy.Memory, FileSize: t.policy.FileSize, Processes: t.policy.Processes},
	}
	return t.runCommand(ctx, run)
}

// checkCommand returns a command's program and arguments if the policy allows it.
func (t *bashTool) checkCommand(command string) ([]string, error) {
	command = strings.TrimSpace(command)
	if command == "" {
		return nil, errors.New("command is required")
	}
	begins := func(prefix spec.Text) bool {
		return prefix.Value == anyCommand || strings.HasPrefix(command, prefix.Value)
	}
	if len(t.policy.Prefixes) > 0 && !slices.ContainsFunc(t.policy.Prefixes, begins) {
		prefixes := make([]string, len(t.policy.Prefixes))
		for i, prefix := range t.policy.Prefixes {
			prefixes[i] = fmt.Sprintf("%q", prefix.Value)
		}
		return nil, fmt.Errorf("command blocked: it must begin with %s", strings.Join(prefixes, " or "))
	}
	for _, operator := range t.policy.Blocked {
		if operator != "" && strings.Contains(command, operator) {
			return nil, fmt.Errorf("command blocked: it contains %q", operator)
		}
	}
	args, err := splitCommand(command)
	if err != nil {
		return nil, err
	}
	return args, toolconfig.CheckCommandLine(args)
}

func (t *bashTool) runCommand(ctx context.Context, run *tool.ProgramRun) (*tool.Result, error) {
	timeout := time.Duration(t.policy.Timeout * float64(time.Second))
	var got *tool.ProgramResult
	_, err := tool.RunWithTimeout(ctx, t.Declaration().Name, timeout, func(ctx context.Context) (*tool.Result, error) {
		var err error
		got, err = t.runner.RunProgram(ctx, run)
		return nil, err
	})
	const noStdout, noStderr = "<no stdout captured>", "<no stderr captured>"
	if late := (*tool.TimeoutError)(nil); errors.As(err, &late) {
		return nil, &tool.AnswerError{Err: err, Response: map[string]any{
			"error": fmt.Sprintf("command timed out after %s", tool.FormatDuration(timeout)), "stdout": noStdout, "stderr": noStderr, "returncode": int64(-9),
		}}
	}
	if err != nil {
		return nil, err
	}
	response := map[string]any{"stdout": cmp.Or(got.Stdout, noStdout), "stderr": cmp.Or(got.Stderr, noStderr), "returncode": int64(got.Exit)}
	if got.Dropped > 0 {
		response["dropped_bytes"] = got.Dropped
	}
	return &tool.Result{Response: response}, nil
}

// splitCommand splits a command into words by POSIX shell rules, like Python's shlex.split: quotes
// and backslashes, and nothing else.
func splitCommand(command string) ([]string, error) {
	s := wordSplitter{}
	for _, c := range command {
		s.addCharacter(c)
	}
	switch {
	case s.quote != 0:
		return nil, errors.New("invalid command: no closing quotation")
	case s.escaped:
		return nil, errors.New("invalid command: no character after the backslash")
	}
	s.endWord()
	return s.words, nil
}

// A wordSplitter is splitCommand's state.
type wordSplitter struct {
	words  []string
	word   strings.Builder
	inWord bool
	// quote is the open quotation mark, or 0; escaped reports a backslash before the next
	// character.
	quote   rune
	escaped bool
}

func (s *wordSplitter) endWord() {
	if s.inWord {
		s.words = append(s.words, s.word.String())
		s.word.Reset()
		s.inWord = false
	}
}

func (s *wordSplitter) addCharacter(c rune) {
	switch {
	case s.escaped:
		if s.quote == '"' && c != '"' && c != '\\' {
			s.word.WriteByte('\\')
		}
		s.word.WriteRune(c)
		s.escaped = false
	case c == '\\' && s.quote != '\'':
		s.escaped, s.inWord = true, true
	case s.quote != 0 && c == s.quote:
		s.quote = 0
	case s.quote == 0 && (c == '\'' || c == '"'):
		s.quote, s.inWord = c, true
	case s.quote == 0 && strings.ContainsRune(" \t\r\n", c):
		s.endWord()
	default:
		s.word.WriteRune(c)
		s.inWord = true
	}
}
