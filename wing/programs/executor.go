package programs

import (
	"context"
	"math"
	"regexp"
	"strconv"

	"agenthost/internal/codeprogram"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// commandExecutor configures the executor "command".
type commandExecutor struct {
	Program codeprogram.Args `yaml:",inline"`
}

// CheckExecutor requires an interpreter.
func (c *commandExecutor) CheckExecutor(use loader.ExecutorUse) spec.Diagnostics {
	ds := c.Program.CheckFiles()
	if c.Program.Interpreter().Value == "" {
		ds = append(ds, use.Name.Errorf(0, "code-executor", "the executor command requires command: the interpreter and its arguments").
			WithHint("such as command: [python3, -I, -]"))
	}
	return ds
}

// Programs returns the interpreter with its arguments.
func (c *commandExecutor) Programs(use loader.ExecutorUse) []*tool.Program {
	if c.Program.Interpreter().Value == "" {
		return nil
	}
	return []*tool.Program{{
		Args: codeprogram.TextValues(c.Program.Command), At: use.Name, Note: "add sandbox: {} to the grant, which confines the code",
	}}
}

func newCommandExecutor(_ context.Context, env loader.ExecutorEnv, c *commandExecutor) (runtime.CodeExecutor, error) {
	return c.Program.NewExecutor(env.Programs, env.MaxOutput), nil
}

// containerExecutor configures the executor "container".
type containerExecutor struct {
	Image   spec.Text `yaml:"image" doc:"For container: the image, which must exist on the host and have python3 and timeout."`
	Runtime string    `yaml:"runtime" enum:"docker|podman" default:"docker" doc:"For container: the program that runs containers. The host policy must allow it."`
	Network bool      `yaml:"network_enabled" doc:"For container: whether the code may use the network."`
}

// validImage is an image reference: it cannot be an option.
var validImage = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/:@-]*$`)

// ADKClass returns the ADK class that runs code in containers.
func (*containerExecutor) ADKClass() string { return "ContainerCodeExecutor" }

// CheckExecutor requires an image.
func (c *containerExecutor) CheckExecutor(use loader.ExecutorUse) spec.Diagnostics {
	if validImage.MatchString(c.Image.Value) {
		return nil
	}
	return spec.Diagnostics{use.Name.Errorf(0, "code-executor", "the executor container requires image, such as python:3.13-slim")}
}

// Programs returns the command that runs the container.
func (c *containerExecutor) Programs(use loader.ExecutorUse) []*tool.Program {
	if !validImage.MatchString(c.Image.Value) {
		return nil
	}
	return []*tool.Program{{Args: c.commandLine(use), At: use.Name}}
}

func (c *containerExecutor) commandLine(use loader.ExecutorUse) []string {
	network := "none"
	if c.Network {
		network = "bridge"
	}
	seconds := strconv.Itoa(int(math.Ceil(use.Timeout.Seconds())))
	// Without the program timeout, a container would outlive its client.
	return []string{
		c.Runtime, "run", "--rm", "-i", "--init", "--pull=never", "--network=" + network, "--read-only", "--tmpfs=/tmp", "--workdir=/tmp",
		"--cap-drop=ALL", "--security-opt=no-new-privileges", "--user=65534:65534", "--memory=512m", "--memory-swap=512m", "--pids-limit=64",
		c.Image.Value, "timeout", "-s", "KILL", seconds, "python3", "-",
	}
}

func newContainerExecutor(_ context.Context, env loader.ExecutorEnv, c *containerExecutor) (runtime.CodeExecutor, error) {
	return &codeprogram.Executor{Runner: env.Programs, Command: c.commandLine(env.ExecutorUse), MaxOutput: env.MaxOutput}, nil
}

var (
	_ loader.ExecutorChecker = (*commandExecutor)(nil)
	_ loader.ProgramExecutor = (*commandExecutor)(nil)
	_ loader.ExecutorChecker = (*containerExecutor)(nil)
	_ loader.ProgramExecutor = (*containerExecutor)(nil)
	_ loader.ADKExecutor     = (*containerExecutor)(nil)
)
