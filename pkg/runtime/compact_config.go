package runtime

import (
	"fmt"
	"strings"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// A CompactionConfig configures when summaries replace the older part of a
// conversation: events_compaction_config of app.yaml. Fields and meaning are
// those of adk-python apps/_configs.py EventsCompactionConfig.
type CompactionConfig struct {
	Interval       int `yaml:"compaction_interval" default:"10" doc:"Number of new invocations after which they are summarized."`
	Overlap        int `yaml:"overlap_size" default:"0" doc:"Number of invocations of the previous summary that are summarized again."`
	TokenThreshold int `yaml:"token_threshold" doc:"Prompt size in tokens at which the conversation is summarized, even during a run. Requires event_retention_size."`
	EventRetention int `yaml:"event_retention_size" doc:"Number of latest events that a summary by token threshold keeps."`

	Summarizer SummarizerConfig `yaml:"summarizer" doc:"Model and prompt of the summaries."`
}

// A SummarizerConfig configures the model and the prompt of summaries.
type SummarizerConfig struct {
	Model  spec.Text `yaml:"model" doc:"The model, named as in agents. Default: the model of the root agent."`
	Prompt spec.Text `yaml:"prompt" doc:"Prompt of the summary; {conversation_history} is replaced by the conversation. Default: a built-in prompt."`
}

// historyMark is the placeholder of the conversation in a prompt.
const historyMark = "{conversation_history}"

const defaultSummaryPrompt = `Below is a conversation between a user and one or more AI agents. Write a summary
that replaces it: the next agent sees the summary and
not the conversation. Keep the user's requests, decisions, names, numbers and
facts, and open questions. If it begins with an earlier summary, carry that
over. Be brief, and write nothing but the summary.

` + historyMark + "\n"

// DefaultCompactionInterval is the default of compaction_interval.
const DefaultCompactionInterval = 10

// Check reports invalid values at their position in n, the mapping that the
// config was decoded from.
func (c *CompactionConfig) Check(n *spec.Node) spec.Diagnostics {
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
	if p := c.Summarizer.Prompt; p.Value != "" && !strings.Contains(p.Value, historyMark) {
		ds = append(ds, p.Errorf(0, "compaction", "the prompt must contain %s, the placeholder of the conversation", historyMark))
	}
	return ds
}

// compactor writes summaries for an app.
type compactor struct {
	CompactionConfig
	llm model.LLM
}

// newCompactor returns the compactor of an app; nil without a config.
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
		return nil, fmt.Errorf("no model to summarize events: the root agent %s has none", top.agent.Name())
	}
	return c, nil
}
