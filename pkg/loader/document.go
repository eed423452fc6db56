package loader

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"agenthost/internal/agentconfig"
	"agenthost/internal/runconfig"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// A document is app.yaml: the app's settings outside the agent files.
type document struct {
	Name        spec.Text      `yaml:"name" doc:"The app's name. It must match the folder name."`
	Description string         `yaml:"description" doc:"Description of the app."`
	RootAgent   *rootRef       `yaml:"root_agent" doc:"The root agent: a file (default root_agent.yaml), or the agent inline."`
	Include     []spec.Text    `yaml:"include" doc:"Files with more models, tools, functions, schemas, agents and defaults for the app: in its folder, or next to it (../NAME.yaml)."`
	Parts       parts          `yaml:",inline"`
	RunConfig   *runConfigNode `yaml:"run_config" doc:"Invocation settings."`
	Plugins     []pluginRef    `yaml:"plugins" doc:"Plugins for every run, in this order: names, or names with their settings."`

	ContextCache *contextCacheConfig             `yaml:"context_cache_config" doc:"Context caching: models cache the beginning of a conversation, so that it is not sent and paid for again with each request."`
	Resumability *agentconfig.ResumabilityConfig `yaml:"resumability_config" doc:"Whether interrupted or waiting invocations can be resumed."`
	Compaction   *compactionNode                 `yaml:"events_compaction_config" doc:"When to replace a session's older events with a summary."`
	Reload       *reloadConfig                   `yaml:"reload" doc:"How changes to the app's files take effect while it runs."`
	Retention    spec.Duration                   `yaml:"retention" doc:"How long to keep a session after its last event, such as 30d; then serve deletes it and its artifacts. By default sessions are not deleted."`

	OutcomeRetention spec.Duration `yaml:"outcome_retention" doc:"How long to keep the outcomes of deleted sessions, from the day of their turns, such as 400d: sums by day, revision and protocol, without users, sessions and content. By default outcomes are deleted with their session."`
}

// Advice lists the fields that other programs have at the top of a document.
func (d *document) Advice() spec.Advice {
	const store = "configure the session store with --session-db, and the retention with retention: 30d"
	const agent = "move it to the agent, in root_agent.yaml or under root_agent:"
	const servers = "declare each server under tools: NAME: {mcp: {command: [PROGRAM, ARGUMENT]}}, or NAME: {mcp: {url: URL}}, and write - use: NAME under the tools of an agent"
	return spec.Advice{Fields: map[string]string{
		"session": store, "sessions": store,
		"artifacts":  "configure the artifact store with --artifacts",
		"memory":     "configure the memory store with --memory",
		"sub_agents": "write sub_agents into the root agent: in root_agent.yaml, or under root_agent:",
		"model":      "set model on an agent, or for all agents: defaults: {LlmAgent: {model: NAME}}",
		"env":        "reference environment variables where you need them: ${env:NAME}",
		"version":    "remove it: the language has no versions",
		"mcpServers": servers, "mcp_servers": servers, "mcps": servers,
		"instruction": agent, "agent_class": agent, "output_key": agent, "generate_content_config": agent,
		"root":       "root_agent",
		"model_list": "declare each model under models: NAME: {provider: openai, model: gpt-4o}",
	}}
}

// rootRef is the root agent: a file, or the agent inline.
type rootRef struct {
	file   spec.Text
	inline *spec.Node
}

// DecodeSpec accepts a path or a mapping.
func (r *rootRef) DecodeSpec(n *spec.Node) spec.Diagnostics {
	if n.Kind == spec.Mapping {
		r.inline = n
		return nil
	}
	return r.file.DecodeSpec(n)
}

// SchemaSpec describes both forms.
func (r *rootRef) SchemaSpec() map[string]any {
	return map[string]any{"anyOf": []any{
		map[string]any{"type": "string"},
		map[string]any{"$ref": "#/$defs/agent"},
	}}
}

// pluginRef is an app's plugin: its name, with optional settings.
type pluginRef struct {
	name   *spec.Node
	config *spec.Node
}

// DecodeSpec accepts both forms.
func (p *pluginRef) DecodeSpec(n *spec.Node) spec.Diagnostics {
	switch {
	case n.Kind == spec.Scalar && !n.IsNull():
		p.name = n
	case n.Kind == spec.Mapping && len(n.Entries) == 1:
		p.name, p.config = n.Entries[0].Key, n.Entries[0].Value
	default:
		return spec.Diagnostics{n.Errorf("type", "a plugin must be a name, or a mapping from one name to its settings, such as context_filter: {…}")}
	}
	if p.config.IsNull() {
		empty := *n
		empty.Kind, empty.Tag, empty.Value, empty.Entries = spec.Mapping, "!!map", "", nil
		p.config = &empty
	}
	return nil
}

// SchemaSpec refers to the definition.
func (p *pluginRef) SchemaSpec() map[string]any { return map[string]any{"$ref": "#/$defs/plugin"} }

// These types keep section nodes that are decoded later, when their kinds are known. Their schemas
// describe the possible values for editors.
type (
	modelNode      struct{ node *spec.Node }
	agentNode      struct{ node *spec.Node }
	toolNode       struct{ node *spec.Node }
	functionNode   struct{ node *spec.Node }
	schemaNode     struct{ node *spec.Node }
	connectionNode struct{ node *spec.Node }
	defaultsNode   struct{ node *spec.Node }
)

func (m modelNode) yamlNode() *spec.Node { return m.node }

func (a agentNode) yamlNode() *spec.Node { return a.node }

func (t toolNode) yamlNode() *spec.Node { return t.node }

func (f functionNode) yamlNode() *spec.Node { return f.node }

func (s schemaNode) yamlNode() *spec.Node { return s.node }

func (c connectionNode) yamlNode() *spec.Node { return c.node }

func (d defaultsNode) yamlNode() *spec.Node { return d.node }

// DecodeSpec keeps the node.
func (m *modelNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	return decodeMapping(n, &m.node, "a model")
}

// SchemaSpec refers to the definition.
func (m *modelNode) SchemaSpec() map[string]any { return map[string]any{"$ref": "#/$defs/model"} }

// DecodeSpec keeps the node.
func (a *agentNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	return decodeMapping(n, &a.node, "an agent")
}

// SchemaSpec refers to the definition.
func (a *agentNode) SchemaSpec() map[string]any {
	return map[string]any{"$ref": "#/$defs/named_agent"}
}

// DecodeSpec keeps the node.
func (t *toolNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	return decodeMapping(n, &t.node, "a tool")
}

// SchemaSpec refers to the definition.
func (t *toolNode) SchemaSpec() map[string]any { return map[string]any{"$ref": "#/$defs/tool"} }

// DecodeSpec keeps the node; its type depends on where the name is used.
func (f *functionNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	f.node = n
	if n.IsNull() {
		return spec.Diagnostics{n.Errorf("type", "a function must be a tool, a callback rule, a schema, an agent or a model")}
	}
	return nil
}

// SchemaSpec describes a name's possible replacements.
func (f *functionNode) SchemaSpec() map[string]any {
	return map[string]any{
		"title": "a tool, a callback, a schema, an agent or a model",
		"anyOf": []any{
			map[string]any{"$ref": "#/$defs/tool"},
			map[string]any{"$ref": "#/$defs/callback"},
			map[string]any{"$ref": "#/$defs/named_agent"},
			map[string]any{"$ref": "#/$defs/model"},
			map[string]any{"type": []any{"object", "array", "string"}},
		},
	}
}

// DecodeSpec keeps the node.
func (c *connectionNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	return decodeMapping(n, &c.node, "a connection")
}

// SchemaSpec refers to the definition.
func (c *connectionNode) SchemaSpec() map[string]any {
	return map[string]any{"$ref": "#/$defs/connection"}
}

// DecodeSpec keeps a valid schema.
func (s *schemaNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	s.node = n
	return nil
}

// SchemaSpec describes the forms.
func (s *schemaNode) SchemaSpec() map[string]any { return (&spec.ValueSchema{}).SchemaSpec() }

// DecodeSpec keeps the node.
func (d *defaultsNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	return decodeMapping(n, &d.node, "the defaults of a class")
}

// SchemaSpec describes a mapping with agent fields.
func (d *defaultsNode) SchemaSpec() map[string]any {
	return map[string]any{"type": "object", "title": "mapping with the class's fields"}
}

func decodeMapping(n *spec.Node, into **spec.Node, what string) spec.Diagnostics {
	*into = n
	if n.Kind != spec.Mapping {
		return spec.Diagnostics{n.Errorf("type", "%s must be a mapping", what)}
	}
	return nil
}

// parts are a document's named declarations. Names are global to the app.
type parts struct {
	Models      map[string]modelNode      `yaml:"models" doc:"Models by the names that agents use, each with its provider."`
	Agents      map[string]agentNode      `yaml:"agents" doc:"Agents by name, for {use: NAME}."`
	Tools       map[string]toolNode       `yaml:"tools" doc:"Tools by name, for {use: NAME}."`
	Functions   map[string]functionNode   `yaml:"functions" doc:"Replacements for code names: a tool, a callback rule or a list, a schema, an agent, or a model."`
	Connections map[string]connectionNode `yaml:"connections" doc:"Connections by name, for auth: the credentials of tools, and the hosts that may receive them; see [connections.md](connections.md)."`
	Schemas     map[string]schemaNode     `yaml:"schemas" doc:"Schemas by name, for output_schema, input_schema, state_schema and params."`
	Defaults    map[string]defaultsNode   `yaml:"defaults" doc:"Default values for agents, by class."`
}

// Advice has hints for declarations that are lists in other programs.
func (p *parts) Advice() spec.Advice {
	return spec.Advice{Shapes: map[string]string{
		"models: []": "write a mapping, with the names that agents use: models: {NAME: {provider: openai, model: gpt-4o}}",
		"agents: []": "write a mapping from names to agents: agents: {NAME: {instruction: …}}, and - use: NAME under the sub_agents of an agent",
		"tools: []":  "write a mapping from names to tools: tools: {NAME: {http: {…}}}, and - use: NAME under the tools of an agent",
	}}
}

// Advice has a hint for sub-agents under agents.
func (p *rootParts) Advice() spec.Advice {
	return spec.Advice{Shapes: map[string]string{
		"agents: []": "write sub_agents: for the agents below this one; agents: is a mapping from names to agents for {use: NAME}",
	}}
}

// rootParts are the declarations that the root agent's file may contain next to the
// agent. models and tools have other meanings there.
type rootParts struct {
	Include   []spec.Text             `yaml:"include" doc:"At the top of the root agent's file: files with shared declarations."`
	Agents    map[string]agentNode    `yaml:"agents" doc:"At the top of a file: agents by name, for {use: NAME}."`
	Functions map[string]functionNode `yaml:"functions" doc:"At the top of the root agent's file: replacements for code names."`
	Schemas   map[string]schemaNode   `yaml:"schemas" doc:"At the top of the root agent's file: schemas by name."`
	Defaults  map[string]defaultsNode `yaml:"defaults" doc:"At the top of the root agent's file: default values for agents, by class."`
}

// agentParts are the declarations that any other agent's file may contain.
type agentParts struct {
	Agents map[string]agentNode `yaml:"agents" doc:"At the top of a file: agents by name, for {use: NAME}."`
}

// partNode is the node of any declaration.
type partNode interface{ yamlNode() *spec.Node }

// A part is a declaration: its node and its file.
type part struct {
	node *spec.Node
	file string
	// shared reports that the part comes from an include and may be unused.
	shared bool
}

// registry holds an app's declarations by kind and name.
type registry struct {
	models, agents, tools, connections, functions, schemas, defaults map[string]part
}

func newRegistry() registry {
	return registry{
		models: map[string]part{}, agents: map[string]part{}, tools: map[string]part{}, connections: map[string]part{},
		functions: map[string]part{}, schemas: map[string]part{}, defaults: map[string]part{},
	}
}

// A partTable holds the declarations of one kind, and the kind's label in messages.
type partTable struct {
	label string
	parts map[string]part
}

// sortedParts yields declarations sorted by name.
func sortedParts(parts map[string]part) iter.Seq2[string, part] {
	return func(yield func(string, part) bool) {
		for _, name := range slices.Sorted(maps.Keys(parts)) {
			if !yield(name, parts[name]) {
				return
			}
		}
	}
}

// runConfig returns the app's setting, or nil.
func (d *document) runConfig() *runtime.RunConfig {
	if d.RunConfig == nil {
		return nil
	}
	return &d.RunConfig.config
}

// runConfigNode is run_config with its position.
type runConfigNode struct {
	node   *spec.Node
	config runtime.RunConfig
}

// DecodeSpec decodes and validates the settings.
func (r *runConfigNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	r.node = n
	config, ds := runconfig.Decode(n)
	r.config = config
	return ds
}

// SchemaSpec references the definition.
func (r *runConfigNode) SchemaSpec() map[string]any {
	return map[string]any{"$ref": "#/$defs/run_config"}
}

// compactionNode is events_compaction_config with its position.
type compactionNode struct {
	node   *spec.Node
	config compactionConfig
}

// DecodeSpec decodes and validates the settings.
func (c *compactionNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	c.node = n
	ds := spec.Decode(n, &c.config)
	if !ds.HasErrors() {
		ds = append(ds, c.config.Check(n)...)
	}
	if c.config.TokenThreshold > 0 && n.Get("compaction_interval").IsNull() && n.Get("overlap_size").IsNull() {
		c.config.Interval = 0 // as in adk-python since 2.6
	}
	return ds
}

// SchemaSpec references the definition.
func (c *compactionNode) SchemaSpec() map[string]any {
	return map[string]any{"$ref": "#/$defs/events_compaction_config"}
}

// compactionConfig is events_compaction_config (adk-python apps/_configs.py
// EventsCompactionConfig).
type compactionConfig struct {
	Interval       int `yaml:"compaction_interval" default:"10" doc:"Number of new invocations after which they are summarized. With token_threshold and without this field, only the threshold counts."`
	Overlap        int `yaml:"overlap_size" default:"0" doc:"Number of invocations in the previous summary that are summarized again."`
	TokenThreshold int `yaml:"token_threshold" doc:"Prompt size in tokens at which the conversation is summarized, even during a run. Requires event_retention_size."`
	EventRetention int `yaml:"event_retention_size" doc:"Number of latest events that a summary by token threshold keeps."`

	Summarizer summarizerConfig `yaml:"summarizer" doc:"Model and prompt of the summaries."`
}

// summarizerConfig is the model and the prompt for summaries.
type summarizerConfig struct {
	Model  spec.Text `yaml:"model" doc:"The model, named as in agents. Default: the model of the root agent."`
	Prompt spec.Text `yaml:"prompt" doc:"Prompt of the summary; {conversation_history} is replaced by the conversation. Default: a built-in prompt."`
}

// Check reports invalid values at their position in n, the mapping that the
// config was decoded from.
func (c *compactionConfig) Check(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	requireMin := func(key string, value, requireMin int) {
		if at := n.Get(key); at != nil && value < requireMin {
			ds = append(ds, at.Errorf("compaction", "%s must be %d or more", key, requireMin))
		}
	}
	requireMin("compaction_interval", c.Interval, 1)
	requireMin("overlap_size", c.Overlap, 0)
	requireMin("token_threshold", c.TokenThreshold, 1)
	requireMin("event_retention_size", c.EventRetention, 0)
	for _, pair := range [][2]string{{"token_threshold", "event_retention_size"}, {"event_retention_size", "token_threshold"}} {
		if at := n.Get(pair[0]); at != nil && n.Get(pair[1]) == nil {
			ds = append(ds, at.Errorf("compaction", "token_threshold and event_retention_size must be set together").
				WithHint("add %s", pair[1]))
		}
	}
	if p := c.Summarizer.Prompt; p.Value != "" && !strings.Contains(p.Value, runtime.ConversationHistory) {
		ds = append(ds, p.Errorf(0, "compaction", "the prompt must contain %s, the placeholder of the conversation", runtime.ConversationHistory))
	}
	return ds
}

// contextCacheConfig is context_cache_config (adk-python
// agents/context_cache_config.py).
type contextCacheConfig struct {
	MinTokens      int `yaml:"min_tokens" default:"0" doc:"Minimum size of the agent's last prompt, in tokens, to create a cache. The service requires at least 4096."`
	TTLSeconds     int `yaml:"ttl_seconds" default:"1800" doc:"Lifetime of a cache in seconds."`
	CacheIntervals int `yaml:"cache_intervals" default:"10" doc:"Number of invocations that use a cache before it is recreated, 1 to 100."`
}

// maxTTLSeconds is 100 years; about three times as much overflows a
// time.Duration.
const maxTTLSeconds = 100 * 365 * 24 * 60 * 60

// Check reports numbers out of range at their position in n, the mapping that the config was
// decoded from.
func (c *contextCacheConfig) Check(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	require := func(key string, ok bool, expected string) {
		if !ok {
			ds = append(ds, n.Get(key).Errorf("value", "%s must be %s", key, expected))
		}
	}
	require("min_tokens", c.MinTokens >= 0, "0 or more")
	require("ttl_seconds", 0 < c.TTLSeconds && c.TTLSeconds <= maxTTLSeconds, "more than 0, and at most a hundred years")
	require("cache_intervals", 1 <= c.CacheIntervals && c.CacheIntervals <= 100, "from 1 to 100")
	return ds
}

// reloadOptions returns the app's setting, or nil.
func (d *document) reloadOptions() *runtime.ReloadOptions {
	if d.Reload == nil {
		return nil
	}
	c := d.Reload
	return &runtime.ReloadOptions{
		Sessions: c.Sessions, Gate: c.Gate, EvalSets: c.EvalSets,
		Budget:        runtime.GateBudget{Time: time.Duration(c.Budget.Time), Cost: c.Budget.Cost},
		KeepRevisions: c.KeepRevisions,
	}
}

// reloadConfig is reload.
type reloadConfig struct {
	Sessions      runtime.SessionPolicy `yaml:"sessions" enum:"next_turn|new_sessions|manual" default:"next_turn" doc:"When a change takes effect: for every session with its next turn, only for new sessions, or only after SIGHUP, POST /-/reload or a restart."`
	Gate          []string              `yaml:"gate" enum:"tests|evals|replay" doc:"Checks that must pass before a change is published: tests runs all tests of the app, evals its eval sets, with its own models, and replay stored sessions, without models. If one fails, the current revision keeps serving."`
	EvalSets      []string              `yaml:"eval_sets" doc:"The eval sets that evals runs: names or IDs, each with optional cases, such as orders:status,refund. Default: all of the app."`
	Budget        budgetConfig          `yaml:"budget" doc:"Limits of the gate. A change that exceeds one is not published."`
	KeepRevisions int                   `yaml:"keep_revisions" default:"20" doc:"Number of revisions whose files the session database keeps, including the current one."`
}

// budgetConfig is a gate's budget.
type budgetConfig struct {
	Time spec.Duration `yaml:"time" default:"2m" doc:"Maximum time of all checks together, at most 1h."`
	Cost float64       `yaml:"cost" doc:"Maximum cost of model calls in evals, in US dollars, including judges. All models must have a price. Default: no limit."`
}

// maxBudgetTime limits a gate's time.
const maxBudgetTime = time.Hour

// Check reports settings out of range, and those without effect, at their position in n, the
// mapping that the config was decoded from.
func (c *reloadConfig) Check(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if c.KeepRevisions < 1 {
		ds = append(ds, n.Get("keep_revisions").Errorf("value", "keep_revisions must be 1 or more: the current revision is always kept"))
	}
	budget := n.Get("budget")
	if at, t := budget.Get("time"), time.Duration(c.Budget.Time); at != nil && (t <= 0 || t > maxBudgetTime) {
		ds = append(ds, at.Errorf("value", "time must be more than 0 and at most %s, got %s", maxBudgetTime, t))
	}
	cost := budget.Get("cost")
	if cost != nil && c.Budget.Cost <= 0 {
		ds = append(ds, cost.Errorf("value", "cost must be more than 0 US dollars"))
	}
	if budget != nil && len(c.Gate) == 0 {
		ds = append(ds, budget.Errorf("value", "budget requires a gate").WithHint("add gate: [tests], gate: [evals] or both"))
	}
	for _, at := range []*spec.Node{n.Get("eval_sets"), cost} {
		if at != nil && len(c.Gate) > 0 && !slices.Contains(c.Gate, runtime.GateEvals) {
			ds = append(ds, at.Errorf("value", "eval_sets and cost require evals in gate").WithHint("write gate: [%s, evals]", strings.Join(c.Gate, ", ")))
		}
	}
	if at := n.Get("eval_sets"); at != nil && len(c.Gate) == 0 {
		ds = append(ds, at.Errorf("value", "eval_sets requires evals in gate").WithHint("write gate: [evals]"))
	}
	return ds
}
