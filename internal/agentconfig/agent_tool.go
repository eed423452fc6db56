package agentconfig

import (
	"context"
	"errors"

	"google.golang.org/genai"

	"agenthost/internal/toolconfig"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// agentToolConfig is the YAML of an agent that is called as a tool: ADK's AgentTool args
// (adk-python tools/agent_tool.py).
type agentToolConfig struct {
	Agent             AgentRef `yaml:"agent" required:"true" doc:"The agent: {config_path: file}, {use: name}, or inline."`
	SkipSummarization bool     `yaml:"skip_summarization" doc:"The agent's answer ends the turn: the calling model does not summarize it."`

	Call agentCallConfig `yaml:",inline"`
}

// agentCallConfig holds the settings for agent calls.
type agentCallConfig struct {
	IncludePlugins bool `yaml:"include_plugins" default:"true" doc:"Whether the app's plugins also apply to the agent's runs."`

	LongRunning bool                   `yaml:"long_running" doc:"Long-running: the agent's output is returned as an interim response, if there is any, and the client supplies the final one later."`
	Call        toolconfig.CallConfig  `yaml:",inline"`
	Async       toolconfig.AsyncConfig `yaml:",inline"`
}

func (c *agentToolConfig) AgentRefs() []*AgentRef { return []*AgentRef{&c.Agent} }

// agentKindConfig is the short form: the agent itself.
type agentKindConfig struct {
	Use               spec.Text `yaml:"use" doc:"Name of an agent declared in the document."`
	ConfigPath        spec.Text `yaml:"config_path" doc:"File that declares the agent."`
	Agent             *AgentRef `yaml:"agent" doc:"The agent, inline."`
	SkipSummarization bool      `yaml:"skip_summarization" doc:"The agent's answer ends the turn: the calling model does not summarize it."`

	Call agentCallConfig `yaml:",inline"`

	ref *AgentRef
}

func (c *agentKindConfig) AgentRefs() []*AgentRef {
	if c.ref == nil {
		c.ref = c.Agent
		if c.ref == nil {
			c.ref = &AgentRef{Use: c.Use, ConfigPath: c.ConfigPath}
		}
	}
	return []*AgentRef{c.ref}
}

// Check requires exactly one way to name the agent, and a valid confirm.
func (c *agentKindConfig) Check(n *spec.Node) spec.Diagnostics {
	given := 0
	for _, key := range []string{"use", "config_path", "agent"} {
		if n.Get(key) != nil {
			given++
		}
	}
	ds := c.Call.checkCall(n)
	if given != 1 {
		ds = append(ds, n.Errorf("tool", "an agent tool requires exactly one of use, config_path and agent"))
	}
	return ds
}

func newAgentTool(_ context.Context, env AgentToolEnv, c *agentToolConfig) (tool.Set, error) {
	return newAgentToolSet(env.Agent, &c.Call, c.SkipSummarization)
}

func newAgentKind(_ context.Context, env AgentToolEnv, c *agentKindConfig) (tool.Set, error) {
	return newAgentToolSet(env.Agent, &c.Call, c.SkipSummarization)
}

func newAgentToolSet(agent runtime.Agent, c *agentCallConfig, skipSummarization bool) (tool.Set, error) {
	t := runtime.NewAgentTool(agent, &runtime.AgentToolOptions{SkipSummarization: skipSummarization, WithoutPlugins: !c.IncludePlugins})
	capabilities, err := c.Call.Capabilities(t.Declaration())
	if err != nil {
		return nil, err
	}
	capabilities.LongRunning = c.LongRunning
	c.Async.SetCapabilities(&capabilities)
	return tool.One(t.WithCapabilities(capabilities)), nil
}

// Check validates confirm and stream.
func (c *agentToolConfig) Check(n *spec.Node) spec.Diagnostics { return c.Call.checkCall(n) }

func (c *agentCallConfig) checkCall(n *spec.Node) spec.Diagnostics {
	return append(checkConfirm(c.Call.Confirm.When), c.Async.CheckAsync(n, c.LongRunning, false)...)
}

// checkConfirm validates a confirm expression, except for argument names, which are known once the
// agent is built.
func checkConfirm(src spec.Expr) spec.Diagnostics {
	_, err := toolconfig.CompileConfirm(src, &genai.FunctionDeclaration{
		ParametersJsonSchema: map[string]any{"type": "object", "additionalProperties": true},
	})
	var ds spec.Diagnostics
	errors.As(err, &ds)
	return ds
}
