package programs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"agenthost/internal/toolconfig"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

type commandConfig struct {
	Tool      toolconfig.Config      `yaml:",inline"`
	Command   []spec.Text            `yaml:"command" required:"true" doc:"The program and its arguments, which may contain {args.x}, {state.key} and {user:name?}; there is no shell, and a placeholder never becomes several arguments. The host policy must allow it."`
	Stdin     spec.Text              `yaml:"stdin" doc:"The input, with placeholders; default: none."`
	Env       map[string]spec.Secret `yaml:"env" doc:"Environment variables, with placeholders; from the host the program only has PATH and LANG."`
	Cwd       string                 `yaml:"cwd" enum:"work|app" default:"work" doc:"Working directory: the session folder, or the app folder."`
	Files     commandFiles           `yaml:"files" doc:"Artifacts of the session as files."`
	Result    spec.Expr              `yaml:"result" doc:"The result, computed from exit, stdout, stderr and files; default: these values."`
	Timeout   spec.Duration          `yaml:"timeout" default:"60s" doc:"Maximum call duration; then all the program's processes are killed."`
	MaxOutput spec.Size              `yaml:"max_output" default:"64KiB" doc:"Maximum size of stdout and stderr each; the rest is dropped."`
}

var (
	_ tool.ProgramConfig = (*commandConfig)(nil)
	_ tool.StateConfig   = (*commandConfig)(nil)
	_ spec.Checker       = (*commandConfig)(nil)
)

// DecodeSpec decodes the config.
func (c *commandConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	joined, ds := toolconfig.JoinCommand(n)
	if ds = append(spec.Decode(joined, c), ds...); joined != n {
		c.Command = nil // the policy is compared with the corrected one
	}
	return ds
}

func newCommand(_ context.Context, env tool.Env, c *commandConfig) (tool.Set, error) {
	d, err := c.Tool.DeclareTool()
	if err != nil {
		return nil, err
	}
	read := toolconfig.Compiler{Params: d.Params()}
	t := &commandTool{
		Declared:     d,
		capabilities: c.Tool.Capabilities(c.Timeout),
		runner:       env.Programs,
		offline:      env.Offline,
		env:          read.CompileTexts(c.Env),
		inApp:        c.Cwd == "app",
		maxOutput:    int(c.MaxOutput),
		redactor:     spec.NewRedactor(toolconfig.SecretsOf(c.Env)...),
		files:        compileFiles(&read, &c.Files),
	}
	for i, arg := range c.Command {
		compiled := read.CompileText(arg)
		if i == 0 && compiled != nil && (arg.Value == "" || len(compiled.Placeholders()) > 0) {
			read.AddDiagnostic(arg.Errorf(0, "tool", "the program must be a fixed name, got %q", arg.Value))
		}
		t.args = append(t.args, compiled)
	}
	if c.Stdin.Value != "" {
		t.stdin = read.CompileText(c.Stdin)
	}
	read.SetConfirm(&t.capabilities, &c.Tool.Confirm, d.Declaration().Name)
	if c.Result.Value != "" {
		t.result = read.CompileExpr(c.Result, resultEnv())
	}
	return read.BuildSet(t)
}

// A commandTool runs a program.
type commandTool struct {
	*tool.Declared
	capabilities tool.Capabilities
	runner       tool.ProgramRunner
	offline      bool
	args         []*toolconfig.ValueTemplate
	env          []toolconfig.NamedTemplate
	stdin        *toolconfig.ValueTemplate
	inApp        bool
	files        filePatterns
	result       *template.Expr
	maxOutput    int
	// redactor removes secret variables from outputs and errors.
	redactor *spec.Redactor
}

// Capabilities returns the document's settings.
func (t *commandTool) Capabilities() tool.Capabilities { return t.capabilities }

// Run implements [tool.Tool].
func (t *commandTool) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	call, err := t.CheckCall(ctx, call)
	if err != nil {
		return nil, err
	}
	return tool.RunWithTimeout(ctx, t.Declaration().Name, t.capabilities.Timeout, func(ctx context.Context) (*tool.Result, error) {
		res, err := t.runCommand(ctx, call)
		if err != nil {
			return nil, fmt.Errorf("command tool %s: %w", t.Declaration().Name, t.redactError(err))
		}
		return res, nil
	})
}

// redactError removes the secrets from an error.
func (t *commandTool) redactError(err error) error {
	if text := t.redactor.RedactString(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}

func (t *commandTool) runCommand(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	switch {
	case t.offline:
		return nil, toolconfig.ErrOfflineProgram
	case t.runner == nil:
		return nil, toolconfig.ErrNoPrograms
	}
	run, err := t.newRun(ctx, call)
	if err != nil {
		return nil, err
	}
	got, err := t.runner.RunProgram(ctx, run)
	if err != nil {
		return nil, err
	}
	saved, err := saveFiles(ctx, call.Artifacts, got.Files)
	if err != nil {
		return nil, err
	}
	return t.buildResult(ctx, call, got, saved)
}

func (t *commandTool) newRun(ctx context.Context, call *tool.Call) (*tool.ProgramRun, error) {
	args, err := t.renderArgs(call)
	if err != nil {
		return nil, err
	}
	run := &tool.ProgramRun{Origin: call.Origin, Args: args, Env: map[string]string{}, InApp: t.inApp, MaxOutput: t.maxOutput}
	for _, v := range t.env {
		value, ok, err := v.Text.RenderValue(call)
		if err != nil {
			return nil, fmt.Errorf("env %s: %w", v.Name, err)
		}
		if ok {
			run.Env[v.Name] = template.String(value)
		}
	}
	if t.stdin != nil {
		value, ok, err := t.stdin.RenderValue(call)
		if err != nil {
			return nil, fmt.Errorf("stdin: %w", err)
		}
		if ok {
			run.Stdin = []byte(template.String(value))
		}
	}
	run.Collect = t.files.out
	run.Files, err = t.files.loadFiles(ctx, call)
	return run, err
}

// renderArgs returns the arguments. An optional placeholder alone without a value omits
// its argument. A value cannot become an option: it must not begin with - where the
// argument begins with a placeholder, unless -- precedes it.
func (t *commandTool) renderArgs(call *tool.Call) ([]string, error) {
	var args []string
	options, total := true, 0
	for i, arg := range t.args {
		value, ok, err := arg.RenderValue(call)
		if err != nil {
			return nil, fmt.Errorf("argument %d: %w", i, err)
		}
		if !ok {
			continue
		}
		s := template.String(value)
		total += len(s)
		fixed := len(arg.Placeholders()) == 0
		switch {
		case strings.ContainsRune(s, 0):
			return nil, fmt.Errorf("argument %d contains a null character", i)
		case len(s) > toolconfig.MaxArg-1 || total > toolconfig.MaxCommandLine:
			return nil, fmt.Errorf("argument %d exceeds the limit of %d bytes", i, toolconfig.MaxArg)
		case !fixed && options && strings.HasPrefix(s, "-") && arg.StartsWithPlaceholder():
			return nil, fmt.Errorf("argument %d must not begin with -, which makes it an option, got %q", i, s)
		}
		if fixed && s == "--" {
			options = false
		}
		args = append(args, s)
	}
	return args, nil
}

func (t *commandTool) buildResult(ctx context.Context, call *tool.Call, got *tool.ProgramResult, saved []any) (*tool.Result, error) {
	vars := map[string]any{
		"exit": int64(got.Exit), "stdout": t.redactor.RedactString(got.Stdout), "stderr": t.redactor.RedactString(got.Stderr), "files": saved,
	}
	if t.result == nil {
		if len(saved) == 0 {
			delete(vars, "files")
		}
		if got.Dropped > 0 {
			vars["dropped_bytes"] = got.Dropped
		}
		return &tool.Result{Response: vars}, nil
	}
	vars[template.BudgetName] = call.Expressions
	value, err := t.result.Eval(ctx, vars)
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	if value == nil && t.capabilities.LongRunning {
		return nil, nil
	}
	return tool.NewResult(value), nil
}

// Programs returns the program; none if it is invalid.
func (c *commandConfig) Programs() []*tool.Program {
	if len(c.Command) == 0 || c.Command[0].Value == "" {
		return nil
	}
	p := &tool.Program{Env: slices.Sorted(maps.Keys(c.Env)), At: c.Command[0]}
	for _, arg := range c.Command {
		p.Args = append(p.Args, arg.Value)
		p.Kinds = append(p.Kinds, kindOfArg(arg.Value))
	}
	return []*tool.Program{p}
}

func kindOfArg(text string) tool.ArgKind {
	paths, err := template.ParsePaths(text)
	switch {
	case err != nil || len(paths.Refs()) == 0:
		return tool.FixedArg
	case toolconfig.IsSinglePlaceholder(text, paths.Refs()) && paths.Refs()[0].Optional:
		return tool.OptionalArg
	}
	return tool.VariableArg
}

// Check warns about a timeout that sets no limit, and about unused parameters, and reports
// settings that no call can have.
func (c *commandConfig) Check(n *spec.Node) spec.Diagnostics {
	ds := append(toolconfig.CheckTimeout(n), c.Tool.Async.CheckAsync(n, c.Tool.LongRunning, false)...)
	if len(c.Command) == 0 && n.Get("command") != nil {
		ds = append(ds, n.Get("command").Errorf("tool", "command must be a list: the program and its arguments"))
	}
	if c.MaxOutput <= 0 {
		ds = append(ds, n.Get("max_output").Errorf("value", "max_output must be more than 0"))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			ds = append(ds, c.Env[name].Errorf(0, "tool", "invalid variable name %q", name))
		}
	}
	ds = append(ds, c.Files.checkPatterns()...)
	used := usedArgsOf(n, "command", "stdin", "env", "files")
	return append(ds, c.Tool.CheckUnusedParams(n, used)...)
}

// resultEnv declares the variables for the result expression.
func resultEnv() template.Env {
	return template.Env{"exit": int64(0), "stdout": "", "stderr": "", "files": []any{}}
}

// ResultExprs returns the result's expression.
func (c *commandConfig) ResultExprs() []tool.StateExpr {
	return []tool.StateExpr{{Expr: c.Result, Env: resultEnv()}}
}

// StateUse returns the command's templates.
func (c *commandConfig) StateUse(n *spec.Node) tool.StateUse {
	var u tool.StateUse
	for _, key := range []string{"command", "stdin", "env", "files"} {
		u.AddTexts(n.Get(key), c.Tool.IsCallName)
	}
	if c.Tool.Confirm.When.Pos == (spec.Pos{}) {
		return u
	}
	if d, err := c.Tool.DeclareTool(); err == nil { // else already reported
		u.AddConfirm(c.Tool.Confirm.When, toolconfig.CallEnv(d.Params()))
	}
	return u
}

// usedArgsOf lists the arguments that some fields' templates use.
func usedArgsOf(n *spec.Node, keys ...string) []string {
	var u tool.StateUse
	for _, key := range keys {
		u.AddTexts(n.Get(key), toolconfig.IsCallName)
	}
	var used []string
	for _, t := range u.Texts {
		paths, err := template.ParsePaths(t.Text.Value)
		if err != nil {
			continue
		}
		for _, ref := range paths.Refs() {
			if root, rest, _ := strings.Cut(ref.Name, "."); root == "args" {
				name, _, _ := strings.Cut(rest, ".")
				used = append(used, name)
			}
		}
	}
	return used
}
