package mcptool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agenthost/internal/toolconfig"
	"agenthost/internal/toolhttp"
	connections "agenthost/pkg/connection"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// A server is the server configuration that all YAML forms resolve to.
type server struct {
	url     spec.Text
	sse     bool
	headers map[string]spec.Secret
	// skipTerminate leaves the session on the server when the connection closes.
	skipTerminate bool
	// command is empty for a server with a url.
	command []spec.Text
	env     map[string]spec.Secret
	cwd     spec.Text
	// connectTimeout bounds connecting and listing tools, callTimeout a call.
	connectTimeout, callTimeout time.Duration
	// listCache is how long lists are used again; 0 is one agent run.
	listCache time.Duration
	resources resourcesConfig
	offer     offer
}

func (s *server) serverAddresses() []spec.Text {
	if s.url.Value == "" {
		return nil
	}
	return []spec.Text{s.url}
}

// urlHosts returns the URL's host, if the server has one.
func (s *server) urlHosts() []string {
	if s.url.Value == "" {
		return nil
	}
	return []string{connections.HostOf(s.url.Value)}
}

func (s *server) commandPrograms() []*tool.Program {
	if len(s.command) == 0 || s.command[0].Value == "" {
		return nil
	}
	return []*tool.Program{{Args: s.commandArgs(), Env: slices.Sorted(maps.Keys(s.env)), Unconfined: true, At: s.command[0]}}
}

func (s *server) commandArgs() []string {
	argv := make([]string, len(s.command))
	for i, arg := range s.command {
		argv[i] = arg.Value
	}
	return argv
}

// checkConfig reports settings with which the server can never be reached.
func (s *server) checkConfig() spec.Diagnostics {
	var ds spec.Diagnostics
	if s.url.Pos.Line > 0 && (toolhttp.ConstantHost(s.url.Value) == "" || hasPlaceholder(s.url.Value)) {
		ds = append(ds, s.url.Errorf(0, "url", "the URL must start with http:// or https:// and a host, without placeholders: all sessions share one server"))
	}
	var invalid spec.Diagnostics
	if _, err := toolconfig.CompileHeaders(s.headers); errors.As(err, &invalid) {
		ds = append(ds, invalid...)
	}
	if len(s.command) > 0 && s.command[0].Pos.Line > 0 && s.command[0].Value == "" {
		ds = append(ds, s.command[0].Errorf(0, "tool", "command must start with the program to run"))
	}
	if s.cwd.Value != "" && !isLocalPath(s.cwd.Value) {
		ds = append(ds, s.cwd.Errorf(0, "path", "cwd must be a relative path inside the app folder"))
	}
	ds.Sort()
	return ds
}

// stateUse returns the headers' placeholders and the confirmation condition.
func (s *server) stateUse() tool.StateUse {
	u := toolconfig.ConfirmRuleUse(s.offer.Confirm.Expr, annotationEnv())
	for _, name := range slices.Sorted(maps.Keys(s.headers)) {
		u.AddPaths(s.headers[name].Text, func(root string) bool {
			return root == "session" || root == "agent" || root == "args" || root == "user" || root == "invocation" || root == "run_config"
		})
	}
	return u
}

func hasPlaceholder(text string) bool {
	paths, err := template.ParsePaths(text)
	return err == nil && len(paths.Refs()) > 0
}

// displayName identifies the server in messages. Users may read them, so it contains neither the
// full URL nor the arguments, nor the apps' path on the host.
func (s *server) displayName() string {
	what, at := "without a URL", s.url.Pos
	if u, err := url.Parse(s.url.Value); err == nil && u.Host != "" {
		what = u.Host
	}
	if len(s.command) > 0 {
		what, at = path.Base(filepath.ToSlash(s.command[0].Value)), s.command[0].Pos
	}
	return fmt.Sprintf("mcp server %s (%s)", what, at.Short())
}

// isLocalPath reports whether a path stays inside the folder that it starts in.
func isLocalPath(name string) bool {
	return !strings.Contains(name, `\`) && filepath.IsLocal(filepath.FromSlash(name))
}

// An offer configures which of a server's tools are provided, and how.
type offer struct {
	ToolFilter     []string                  `yaml:"tool_filter" doc:"The tools to provide, by their names on the server; default: all."`
	ToolNamePrefix string                    `yaml:"tool_name_prefix" doc:"Prefix for tool names, joined with _."`
	OnError        string                    `yaml:"on_error" enum:"return|fail" default:"return" doc:"Whether an error is returned to the model or ends the invocation."`
	Confirm        toolconfig.ToolsetConfirm `yaml:"confirm" doc:"Whether a call requires confirmation by a person (human-in-the-loop): true, or an expression over args, state, user, session, invocation, agent and mcp, such as mcp.destructive."`
	Elicitation    bool                      `yaml:"elicitation" doc:"Whether the server may ask the user questions during a call: the turn then ends with a request for confirmation that has a form, and the call is made again with the answers."`
	Sampling       *samplingConfig           `yaml:"sampling" doc:"Lets the server use the calling agent's model during a call (sampling), without its conversation and tools; {} for the default limits. The host policy must allow it."`
	EnableTasks    bool                      `yaml:"enable_tasks" doc:"Whether the server may answer a call with a task (MCP's extension io.modelcontextprotocol/tasks): the call then waits for the task's end, also after a restart, and a canceled run cancels the task. Only servers without sessions have tasks."`
	TaskTimeout    spec.Duration             `yaml:"task_timeout" default:"1h" doc:"Maximum task duration, without the time in which it waits for a person. The server's ttlMs may be shorter."`
	MaxResult      spec.Size                 `yaml:"max_result" default:"4MiB" doc:"Maximum result size."`
	Preview        spec.Size                 `yaml:"preview" doc:"A larger result becomes its beginning, at least 256 bytes: {output: {truncated, original_size_bytes, message, preview}}. Default: whole results."`

	Async toolconfig.AsyncConfig `yaml:",inline"`
}

// Advice lists other programs' names for the settings.
func (o *offer) Advice() spec.Advice {
	return spec.Advice{Fields: map[string]string{
		"tools": "tool_filter", "allowed_tools": "tool_filter", "include_tools": "tool_filter", "toolFilter": "tool_filter", "enabled_tools": "tool_filter",
		"prefix":               "tool_name_prefix",
		"require_confirmation": "confirm", "requires_confirmation": "confirm", "require_approval": toolconfig.ConfirmHint,
	}}
}

// checkElicitation reports settings that exclude questions, and a preview that is too small.
func (o *offer) checkElicitation(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	streams := !n.Get("stream").IsNull()
	if o.Elicitation && streams {
		ds = append(ds, n.Get("elicitation").Errorf("tool", "elicitation and stream are mutually exclusive: a call that streams cannot wait for a person"))
	}
	if o.Sampling != nil && streams {
		ds = append(ds, n.Get("sampling").Errorf("tool", "sampling and stream are mutually exclusive: a server request would belong to no call"))
	}
	return append(ds, toolconfig.CheckPreview(n, o.Preview)...)
}

// samplingConfig is the YAML for the limits.
type samplingConfig struct {
	MaxCalls  int `yaml:"max_calls" default:"3" doc:"Maximum number of requests during one call. They also count against the run's max_llm_calls and max_cost."`
	MaxTokens int `yaml:"max_tokens" default:"1024" doc:"Maximum response length, in tokens; the server may ask for less."`

	at *spec.Node
}

// DecodeSpec requires positive limits.
func (c *samplingConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	ds := spec.Decode(n, c)
	c.at = n
	for _, limit := range []struct {
		key   string
		value int
	}{{"max_calls", c.MaxCalls}, {"max_tokens", c.MaxTokens}} {
		if at := n.Get(limit.key); !at.IsNull() && limit.value < 1 {
			ds = append(ds, at.Errorf("value", "%s must be at least 1, got %d", limit.key, limit.value).WithHint("remove sampling to forbid it"))
		}
	}
	return ds
}

// resourcesConfig is the YAML for a server's resources: true for all, or their names.
type resourcesConfig struct {
	enabled bool
	// names is nil for all resources.
	names []string
}

// DecodeSpec accepts a boolean or a list of names.
func (c *resourcesConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	if n.Kind == spec.Scalar {
		if v, ok := n.Any().(bool); ok {
			c.enabled = v
			return nil
		}
	}
	if n.Kind == spec.Sequence && len(n.Items) > 0 && !slices.ContainsFunc(n.Items, func(item *spec.Node) bool { return item.Kind != spec.Scalar }) {
		c.enabled = true
		for _, item := range n.Items {
			c.names = append(c.names, item.Value)
		}
		return nil
	}
	return spec.Diagnostics{n.Errorf("type", "resources must be true or a list of names")}
}

func (s *server) prefixedName(name string) string {
	if s.offer.ToolNamePrefix == "" {
		return name
	}
	return s.offer.ToolNamePrefix + "_" + name
}

// taskTimeout returns how long a task may take.
func (s *server) taskTimeout() time.Duration {
	if s.offer.TaskTimeout > 0 {
		return time.Duration(s.offer.TaskTimeout)
	}
	return defaultTaskTimeout
}

// defaultTaskTimeout is the default of task_timeout.
const defaultTaskTimeout = time.Hour

// withCallTimeout bounds one request.
func (s *server) withCallTimeout(ctx context.Context, name string) (context.Context, context.CancelFunc) {
	if s.callTimeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, s.callTimeout, &tool.TimeoutError{Tool: name, Timeout: s.callTimeout})
}
