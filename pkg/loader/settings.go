package loader

import (
	"strings"
	"time"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

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
	ds := spec.Decode(n, &r.config)
	if !ds.HasErrors() {
		ds = append(ds, r.config.Check(n)...)
	}
	return ds
}

// SchemaSpec references the definition.
func (r *runConfigNode) SchemaSpec() map[string]any {
	return map[string]any{"$ref": "#/$defs/run_config"}
}

// compactionOptions returns the app's setting, or nil.
func (d *document) compactionOptions() *runtime.CompactionOptions {
	if d.Compaction == nil {
		return nil
	}
	c := &d.Compaction.config
	return &runtime.CompactionOptions{
		Interval: c.Interval, Overlap: c.Overlap, TokenThreshold: c.TokenThreshold, EventRetention: c.EventRetention,
		Prompt: c.Summarizer.Prompt.Value,
	}
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
	return ds
}

// SchemaSpec references the definition.
func (c *compactionNode) SchemaSpec() map[string]any {
	return map[string]any{"$ref": "#/$defs/events_compaction_config"}
}

// compactionConfig is events_compaction_config (adk-python apps/_configs.py
// EventsCompactionConfig).
type compactionConfig struct {
	Interval       int `yaml:"compaction_interval" default:"10" doc:"Number of new invocations after which they are summarized."`
	Overlap        int `yaml:"overlap_size" default:"0" doc:"Number of invocations of the previous summary that are summarized again."`
	TokenThreshold int `yaml:"token_threshold" doc:"Prompt size in tokens at which the conversation is summarized, even during a run. Requires event_retention_size."`
	EventRetention int `yaml:"event_retention_size" doc:"Number of latest events that a summary by token threshold keeps."`

	Summarizer summarizerConfig `yaml:"summarizer" doc:"Model and prompt of the summaries."`
}

// summarizerConfig is the model and the prompt of summaries.
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

// contextCache returns the app's setting, or nil.
func (d *document) contextCache() *model.CacheConfig {
	c := d.ContextCache
	if c == nil {
		return nil
	}
	return &model.CacheConfig{MinTokens: c.MinTokens, TTL: time.Duration(c.TTLSeconds) * time.Second, Intervals: c.CacheIntervals}
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

// Check reports numbers out of range at their position in n, the mapping that the
// config was decoded from.
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
	return &runtime.ReloadOptions{Sessions: d.Reload.Sessions, Gate: d.Reload.Gate, KeepRevisions: d.Reload.KeepRevisions}
}

// reloadConfig is reload.
type reloadConfig struct {
	Sessions      runtime.SessionPolicy `yaml:"sessions" enum:"next_turn|new_sessions|manual" default:"next_turn" doc:"When a change takes effect: for every session with its next turn, only for new sessions, or only after SIGHUP, POST /-/reload or a restart."`
	Gate          []string              `yaml:"gate" enum:"tests" doc:"Checks that must pass before a change is published: tests runs all tests of the app. If one fails, the current revision keeps serving."`
	KeepRevisions int                   `yaml:"keep_revisions" default:"20" doc:"Number of revisions whose files the session database keeps, including the current one."`
}

// Check reports numbers out of range at their position in n, the mapping that the
// config was decoded from.
func (c *reloadConfig) Check(n *spec.Node) spec.Diagnostics {
	if c.KeepRevisions >= 1 {
		return nil
	}
	return spec.Diagnostics{n.Get("keep_revisions").Errorf("value", "keep_revisions must be 1 or more: the current revision is always kept")}
}
