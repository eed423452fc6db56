package runtime

import (
	"math"

	"agenthost/pkg/spec"
)

// A StreamingMode says how answers arrive.
type StreamingMode string

// The streaming modes. The empty mode is StreamingNone.
const (
	StreamingNone StreamingMode = "none" // one event for each answer
	StreamingSSE  StreamingMode = "sse"  // partial events first, then the whole
)

// DefaultMaxLLMCalls bounds the model calls of one invocation where nothing
// else is said (adk-python agents/run_config.py).
const DefaultMaxLLMCalls = 500

// A RunConfig says how an app's invocations run. It is the run_config of
// app.yaml; a request may change the streaming mode and add metadata.
type RunConfig struct {
	StreamingMode StreamingMode `yaml:"streaming_mode" enum:"none|sse" default:"none" doc:"How answers arrive: none is one event for each answer, sse sends the pieces first. A request that says streaming wins."`
	MaxLLMCalls   int           `yaml:"max_llm_calls" default:"500" doc:"The most model calls that one invocation may make, agents called as tools included. Zero or less is no limit."`

	SaveInputBlobsAsArtifacts bool           `yaml:"save_input_blobs_as_artifacts" default:"false" doc:"Keep files in the user's message as artifacts, and put a line of text in their place."`
	CustomMetadata            map[string]any `yaml:"custom_metadata" doc:"Added to the customMetadata of every event of the run."`
}

// DefaultRunConfig is what applies to an app that says nothing.
func DefaultRunConfig() RunConfig {
	return RunConfig{StreamingMode: StreamingNone, MaxLLMCalls: DefaultMaxLLMCalls}
}

// Check reports values that cannot be meant, at their place in n, the mapping
// that the config was decoded from.
func (c *RunConfig) Check(n *spec.Node) spec.Diagnostics {
	at := n.Get("max_llm_calls")
	switch {
	case at == nil:
		return nil
	case c.MaxLLMCalls >= math.MaxInt32:
		return spec.Diagnostics{at.Errorf("run-config", "max_llm_calls must be less than %d; zero is no limit", math.MaxInt32)}
	case c.MaxLLMCalls <= 0:
		d := at.Errorf("run-config", "max_llm_calls %d is no limit: a loop of agents can then run up any bill", c.MaxLLMCalls)
		d.Severity = spec.Warning
		return spec.Diagnostics{d}
	}
	return nil
}
