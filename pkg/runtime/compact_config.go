package runtime

import (
	"fmt"
	"strings"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// A CompactionConfig says when the older part of a conversation is replaced by
// a summary. It is the events_compaction_config of app.yaml; fields and meaning
// are ADK's (adk-python apps/_configs.py EventsCompactionConfig).
type CompactionConfig struct {
	Interval       int `yaml:"compaction_interval" default:"10" doc:"After so many new invocations they are summarised."`
	Overlap        int `yaml:"overlap_size" default:"0" doc:"How many invocations of the last summary are summarised again with them."`
	TokenThreshold int `yaml:"token_threshold" doc:"Summarise too when a prompt has so many tokens, also in the middle of a run. Needs event_retention_size."`
	EventRetention int `yaml:"event_retention_size" doc:"How many of the latest events the token threshold leaves as they are."`

	Summarizer SummarizerConfig `yaml:"summarizer" doc:"Who writes the summaries."`
}

// A SummarizerConfig says who writes summaries, and what it is told.
type SummarizerConfig struct {
	Model  spec.Text `yaml:"model" doc:"The model, by the names that agents use; without it, the root agent's."`
	Prompt spec.Text `yaml:"prompt" doc:"What the model is asked; {conversation_history} is the conversation. Without it, a text of ours."`
}

// historyMark stands in a prompt for the conversation.
const historyMark = "{conversation_history}"

const defaultSummaryPrompt = `Below is a conversation between a user and one or more AI agents. Write a summary
that takes its place: whoever goes on with the conversation sees the summary and
not the conversation. Keep what was asked, what was decided, names, numbers and
facts, and what is still open. If it begins with an earlier summary, carry that
over. Be brief, and write nothing but the summary.

` + historyMark + "\n"

// DefaultCompactionInterval is the interval where nothing else is said.
const DefaultCompactionInterval = 10

// Check reports values that cannot be meant, at their place in n, the mapping
// that the config was decoded from.
func (c *CompactionConfig) Check(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	least := func(key string, value, least int) {
		if at := n.Get(key); at != nil && value < least {
			ds = append(ds, at.Errorf("compaction", "%s must be %d or more", key, least))
		}
	}
	least("compaction_interval", c.Interval, 1)
	least("overlap_size", c.Overlap, 0)
	least("token_threshold", c.TokenThreshold, 1)
	least("event_retention_size", c.EventRetention, 0)
	for _, pair := range [][2]string{{"token_threshold", "event_retention_size"}, {"event_retention_size", "token_threshold"}} {
		if at := n.Get(pair[0]); at != nil && n.Get(pair[1]) == nil {
			ds = append(ds, at.Errorf("compaction", "token_threshold and event_retention_size must be set together").
				WithHint("add %s", pair[1]))
		}
	}
	if p := c.Summarizer.Prompt; p.Value != "" && !strings.Contains(p.Value, historyMark) {
		ds = append(ds, p.Errorf(0, "compaction", "the prompt has no %s: the model would not see the conversation", historyMark))
	}
	return ds
}

// compactor writes summaries for an app.
type compactor struct {
	CompactionConfig
	llm model.LLM
}

// newCompactor makes the compactor of an app whose tree stands; nil without a
// config.
func newCompactor(opts *AppOptions, top *node) (*compactor, error) {
	if opts.Compaction == nil {
		return nil, nil
	}
	c := &compactor{*opts.Compaction, opts.Summarizer}
	if c.Interval == 0 {
		c.Interval = DefaultCompactionInterval
	}
	if c.Summarizer.Prompt.Value == "" {
		c.Summarizer.Prompt.Value = defaultSummaryPrompt
	}
	if _, ok := top.agent.(*LLMAgent); c.llm == nil && ok {
		c.llm = top.llm
	}
	if c.llm == nil {
		return nil, fmt.Errorf("no model to summarise events: the root agent %s has none", top.agent.Name())
	}
	return c, nil
}
