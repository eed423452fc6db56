package main

import (
	"google.golang.org/genai"
)

// A Scene is what the agents of an app do with a question. At most one field is
// set; the zero Scene is one agent that answers.
type Scene struct {
	// Tool makes the agent call the tool ToolName before it answers.
	Tool bool
	// Sequence is a number of agents that answer one after the other.
	Sequence int
	// Parallel is a number of agents that answer side by side.
	Parallel int
	// Chunks is a number of pieces that come before the whole answer.
	Chunks int
}

// What the tool of a scene is: a Go function of a city, wrapped as the program's
// users would.
const (
	ToolName   = "forecast"
	ToolHelp   = "tells the weather of a city"
	toolCity   = "Paris"
	toolResult = "sunny"
)

// A Forecast is what the tool answers.
type Forecast struct {
	Sky string `json:"sky"`
}

// A Place is what the tool is asked for.
type Place struct {
	City string `json:"city"`
}

// A trace is what a turn of a scene has to leave behind.
type trace struct {
	// stored is how many events are added to the session.
	stored int
	// visible is how many of them an agent is shown as contents in later turns.
	visible int
	// seen is how many contents the last model call is shown besides those of
	// earlier turns.
	seen int
	// chunks is how many partial events are given out.
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

// modelAnswer is what a model of the scene says to these contents, new for each call.
func (s Scene) modelAnswer(contents []*genai.Content) *genai.Content {
	if s.Tool && !endsWithToolResponse(contents) {
		return genai.NewContentFromFunctionCall(ToolName, map[string]any{"city": toolCity}, genai.RoleModel)
	}
	return genai.NewContentFromText(Reply, genai.RoleModel)
}

// endsWithToolResponse says whether the last content is the tool's answer.
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

// partialContents are the contents that come before the whole answer. A model makes them
// once, so that what is measured is what the program does with them.
func (s Scene) partialContents() []*genai.Content {
	all := make([]*genai.Content, s.Chunks)
	for i := range all {
		all[i] = genai.NewContentFromText("so ", genai.RoleModel)
	}
	return all
}
