package tool

import (
	"time"
)

// StopStreaming is the function with which a live model stops a tool that streams (adk-python
// flows/llm_flows/functions.py).
const StopStreaming = "stop_streaming"

// A Stream makes a tool return results repeatedly in live conversations, until the model
// calls [StopStreaming] or the conversation ends. In other runs the tool returns once.
type Stream struct {
	// Every is the pause between two calls to the tool; 0 means that the tool is a [Streamer],
	// whose source decides.
	Every time.Duration
	// Always returns results that equal the last one as well.
	Always bool
	// For limits the duration; 0 means no limit.
	For time.Duration
	// Watch is what the user sends that each call receives as [Call.Media]: "video",
	// "audio" or nothing. A call waits until there is something new.
	Watch string
}
