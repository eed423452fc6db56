package main

import (
	"google.golang.org/genai"
)

// A Scene is what the agents of an app do with a question. At most one field is set. In
// the zero Scene one agent answers.
type Scene struct {
	// Tool makes the agent call the tool ToolName before it answers.
	Tool bool
	// Sequence is a number of agents that answer one after the other.
	Sequence int
	// Parallel is a number of agents that answer in parallel.
	Parallel int
	// Chunks is the number of partial events before the complete answer.
	Chunks int
}

// The tool of a scene, a Go function wrapped in each side's usual way.
const (
	ToolName   = "forecast"
	ToolHelp   = "Returns the weather of a city."
	toolCity   = "Paris"
	toolResult = "sunny"
)

// A Forecast is the result of the tool.
type Forecast struct {
	Sky string `json:"sky"`
}

// A Place has the arguments of the tool.
type Place struct {
	City string `json:"city"`
}

// A trace has the expected results of a turn.
type trace struct {
	// stored is the number of events added to the session.
	stored int
	// visible is the number of them in the contents of later turns.
	visible int
	// seen is the number of contents of this turn in the last model call.
	seen int
	// chunks is the number of partial events.
	chunks int
}

func (s Scene) wantTrace() trace {
	switch {
	case s.Tool:
		return trace{stored: 4, visible: 4, seen: 3}
	case s.Sequence > 0:
		return trace{stored: 1 + s.Sequence, visible: 1 + s.Sequence, seen: s.Sequence}
	case s.Parallel > 0:
		return trace{stored: 1 + s.Parallel, visible: 2, seen: 1}
	default:
		return trace{stored: 2, visible: 2, seen: 1, chunks: s.Chunks}
	}
}

// modelAnswer returns the answer of the model, newly built for each call.
func (s Scene) modelAnswer(contents []*genai.Content) *genai.Content {
	if s.Tool && !endsWithToolResponse(contents) {
		return genai.NewContentFromFunctionCall(ToolName, map[string]any{"city": toolCity}, genai.RoleModel)
	}
	return genai.NewContentFromText(Reply, genai.RoleModel)
}

// endsWithToolResponse reports whether the last content is the tool's response.
func endsWithToolResponse(contents []*genai.Content) bool {
	if len(contents) == 0 {
		return false
	}
	parts := contents[len(contents)-1].Parts
	if len(parts) == 0 || parts[0].FunctionResponse == nil {
		return false
	}
	return parts[0].FunctionResponse.Response["sky"] == toolResult
}

// partialContents returns the contents of the partial events. A model builds them once,
// so that their cost does not count.
func (s Scene) partialContents() []*genai.Content {
	all := make([]*genai.Content, s.Chunks)
	for i := range all {
		all[i] = genai.NewContentFromText("so ", genai.RoleModel)
	}
	return all
}
