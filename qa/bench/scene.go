package main

import (
	"google.golang.org/genai"
)

// A Scene is what an app's agents do with a question. At most one field is set. In the zero Scene
// one agent answers.
type Scene struct {
	// Tool makes the agent call the tool ToolName before it answers.
	Tool bool
	// Sequence is how many agents answer one after the other.
	Sequence int
	// Parallel is how many agents answer in parallel.
	Parallel int
	// Chunks is how many partial events precede the complete answer.
	Chunks int
}

// A scene's tool, a Go function wrapped in each side's usual way.
const (
	ToolName   = "forecast"
	ToolHelp   = "Returns the weather of a city."
	toolCity   = "Paris"
	toolResult = "sunny"
)

// A Forecast is the tool's result.
type Forecast struct {
	Sky string `json:"sky"`
}

// A Place has the tool's arguments.
type Place struct {
	City string `json:"city"`
}

// A trace has a turn's expected results.
type trace struct {
	// stored is how many events the session gets.
	stored int
	// visible is how many of these later turns have in their contents.
	visible int
	// seen is how many of this turn's contents the last model call has.
	seen int
	// chunks counts the partial events.
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

// modelAnswer returns the model's answer, newly built for each call.
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

// partialContents returns the partial events' contents. A model builds them once, so that their
// cost does not count.
func (s Scene) partialContents() []*genai.Content {
	all := make([]*genai.Content, s.Chunks)
	for i := range all {
		all[i] = genai.NewContentFromText("so ", genai.RoleModel)
	}
	return all
}
