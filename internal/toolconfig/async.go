package toolconfig

import (
	"encoding/base64"
	"strings"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// AsyncConfig is the YAML for tools that run during a live conversation.
type AsyncConfig struct {
	ResponseScheduling string        `yaml:"response_scheduling" enum:"silent|when_idle|interrupt" doc:"In live conversations the model continues to talk during a call, and receives the response silently, when it is idle, or at once, which interrupts it."`
	Stream             *StreamConfig `yaml:"stream" doc:"In live conversations a call returns results repeatedly, until the model calls stop_streaming."`
}

// StreamConfig is the YAML for a [tool.Stream].
type StreamConfig struct {
	Every spec.Duration `yaml:"every" doc:"Pause between two calls, at least 1s. Without it, the source must stream: a response as SSE or NDJSON, or MCP tool progress."`
	On    string        `yaml:"on" enum:"change|always" default:"change" doc:"With every: whether a result that equals the last one is returned as well."`
	For   spec.Duration `yaml:"for" default:"10m" doc:"Maximum duration."`
	Watch string        `yaml:"watch" enum:"video|audio" doc:"With every: each call waits for, and receives, the newest image from the user's camera, or what the user's microphone has recorded since the last call."`
}

// minStreamPause bounds how often a tool is called.
const minStreamPause = time.Second

// SetCapabilities sets the capabilities that the settings imply.
func (c *AsyncConfig) SetCapabilities(to *tool.Capabilities) {
	to.Scheduling = genai.FunctionResponseScheduling(strings.ToUpper(c.ResponseScheduling))
	if s := c.Stream; s != nil {
		to.Stream = &tool.Stream{Every: time.Duration(s.Every), Always: s.On == "always", For: time.Duration(s.For), Watch: s.Watch}
	}
}

// WatchesMedia reports whether calls receive media.
func (c *AsyncConfig) WatchesMedia() bool { return c.Stream != nil && c.Stream.Watch != "" }

// CheckAsync reports stream settings that cannot work. hasSource reports that the tool kind may
// have a source that streams.
func (c *AsyncConfig) CheckAsync(n *spec.Node, longRunning, hasSource bool) spec.Diagnostics {
	at := n.Get("stream")
	if at == nil || c.Stream == nil {
		return nil
	}
	var ds spec.Diagnostics
	every := at.Get("every")
	switch {
	case every == nil && !hasSource:
		ds = append(ds, at.Errorf("stream", "stream requires every: this kind of tool returns one result per call").WithHint("such as stream: {every: 5s}"))
	case every != nil && time.Duration(c.Stream.Every) < minStreamPause:
		ds = append(ds, every.Errorf("stream", "every must be at least %s, got %s", tool.FormatDuration(minStreamPause), every.Value))
	}
	for _, key := range []string{"on", "watch"} {
		if other := at.Get(key); other != nil && every == nil && hasSource {
			ds = append(ds, other.Errorf("stream", "%s requires every", key))
		}
	}
	if end := at.Get("for"); end != nil && c.Stream.For <= 0 {
		ds = append(ds, end.Errorf("stream", "for must be more than 0, got %s", end.Value))
	}
	if longRunning {
		ds = append(ds, at.Errorf("stream", "stream and long_running are mutually exclusive: the client returns the result of a long-running call"))
	}
	return ds
}

// mediaVars returns the values for the variable media in templates and expressions.
func mediaVars(media *genai.Blob) map[string]any {
	return map[string]any{"mime_type": media.MIMEType, "data": base64.StdEncoding.EncodeToString(media.Data)}
}
