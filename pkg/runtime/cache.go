package runtime

import (
	"time"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
)

// A ContextCacheConfig configures context caching of models:
// context_cache_config in app.yaml (adk-python
// agents/context_cache_config.py), for every LLM agent of the tree. Agents
// that are called as tools are excluded, because each call is a session of its
// own that never continues.
type ContextCacheConfig struct {
	MinTokens      int `json:"min_tokens" yaml:"min_tokens" default:"0" doc:"Minimum size of the agent's last prompt, in tokens, to create a cache. The service requires at least 4096."`
	TTLSeconds     int `json:"ttl_seconds" yaml:"ttl_seconds" default:"1800" doc:"Lifetime of a cache in seconds."`
	CacheIntervals int `json:"cache_intervals" yaml:"cache_intervals" default:"10" doc:"Number of invocations that use a cache before it is recreated, 1 to 100."`
}

// maxTTLSeconds is 100 years; about three times as much overflows a
// time.Duration.
const maxTTLSeconds = 100 * 365 * 24 * 60 * 60

// Check reports numbers out of range at their position in n, the mapping that the
// config was decoded from.
func (c *ContextCacheConfig) Check(n *spec.Node) spec.Diagnostics {
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

func (c *ContextCacheConfig) toModelConfig() model.CacheConfig {
	return model.CacheConfig{MinTokens: c.MinTokens, TTL: time.Duration(c.TTLSeconds) * time.Second, Intervals: c.CacheIntervals}
}

// buildCacheRequest returns the cache data of the agent's last responses for
// the model. The first use of a cache in an invocation counts as one more
// (adk-python flows/llm_flows/context_cache_processor.py).
func (inv *Invocation) buildCacheRequest() *model.CacheRequest {
	state := inv.readCacheState()
	req := &model.CacheRequest{
		CacheConfig: inv.run.app.ContextCache.toModelConfig(), Metadata: state.metadata, PromptTokens: state.promptTokens,
	}
	if state.metadata.Active() && state.invocation != inv.run.id {
		again := *state.metadata
		again.Used++
		req.Metadata = &again
	}
	return req
}

type cacheKey struct{ agent string }

// cacheState is the latest cache data in the events of an agent. It does not
// change once it is derived.
type cacheState struct {
	seen         int
	metadata     *model.CacheMetadata
	invocation   string
	promptTokens int
}

// readCacheState reads each event once.
func (inv *Invocation) readCacheState() *cacheState {
	agent := inv.node.agent.Name()
	state := inv.run.sess.History.Derive(cacheKey{agent}, func(last any, events []*session.Event) (any, int64) {
		state := &cacheState{}
		if last != nil {
			*state = *last.(*cacheState)
		}
		for _, ev := range events[state.seen:] {
			if ev.Author == agent && !ev.Provenance.Imported {
				state.recordEvent(ev)
			}
		}
		state.seen = len(events)
		return state, partBytes
	})
	return state.(*cacheState)
}

func (c *cacheState) recordEvent(ev *session.Event) {
	if ev.CacheMetadata != nil {
		c.metadata, c.invocation = ev.CacheMetadata, ev.InvocationID
	}
	if u := ev.UsageMetadata; u != nil && u.PromptTokenCount > 0 {
		c.promptTokens = int(u.PromptTokenCount)
	}
}
