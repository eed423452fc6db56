package eval

import (
	"encoding/json"
	"strings"

	"google.golang.org/genai"
)

// Extra holds a JSON object's keys that have no field, as they are written. They are written
// back unchanged.
type Extra map[string]json.RawMessage

// A Set is an eval set: cases for one app.
type Set struct {
	ID          string  `json:"evalSetId"`
	Name        string  `json:"name,omitempty"`
	Description string  `json:"description,omitempty"`
	Cases       []*Case `json:"evalCases"`
	// CreationTimestamp is in seconds since 1970, as in every type in this package: a
	// time.Time would round what ADK wrote.
	CreationTimestamp float64 `json:"creationTimestamp,omitempty"`
	Extra             Extra   `json:"-"`
}

// Case returns the case with an ID, or nil.
func (s *Set) Case(id string) *Case {
	for _, c := range s.Cases {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// A Case is a conversation with an agent and the expected behavior. It has either a
// Conversation, whose user messages are sent as they are, or a Scenario, which a simulated
// user follows.
type Case struct {
	ID string `json:"evalId"`
	// Conversation is nil in a case with a scenario. An empty one counts as given.
	Conversation      []*Invocation `json:"conversation,omitempty"`
	Scenario          *Scenario     `json:"conversationScenario,omitempty"`
	Session           *SessionInput `json:"sessionInput,omitempty"`
	CreationTimestamp float64       `json:"creationTimestamp,omitempty"`
	Rubrics           []*Rubric     `json:"rubrics,omitempty"`
	// Criteria replace or extend the set's; see [MergeMeasures]. ADK ignores them.
	Criteria *Criteria `json:"criteria,omitempty"`
	// FinalState are values that the session must have after the conversation, null for none.
	FinalState map[string]any `json:"finalSessionState,omitempty"`
	// FinalStateMatch is EXACT if the session must have no other values, else empty or
	// SUBSET. ADK has no such field.
	FinalStateMatch string `json:"finalSessionStateMatch,omitempty"`
	Extra           Extra  `json:"-"`
}

// The values for [Case.FinalStateMatch].
const (
	StateSubset = "SUBSET"
	StateExact  = "EXACT"
)

// An Invocation is a turn: a user message, the agent's final response and the events
// between them. In a case it is what is expected, in a result what happened.
type Invocation struct {
	ID            string         `json:"invocationId,omitempty"`
	UserContent   *genai.Content `json:"userContent"`
	FinalResponse *genai.Content `json:"finalResponse,omitempty"`
	// Intermediate is what happened before the final response; nil if unknown.
	Intermediate      *Intermediate `json:"intermediateData,omitempty"`
	CreationTimestamp float64       `json:"creationTimestamp,omitempty"`
	Rubrics           []*Rubric     `json:"rubrics,omitempty"`
	App               *AppDetails   `json:"appDetails,omitempty"`
	// Duration is in seconds; nil if unknown.
	Duration *float64 `json:"duration,omitempty"`
	// Extra is read from results only: in a set, an unknown key is an error.
	Extra Extra `json:"-"`
}

// Intermediate is what happened in a turn before its final response. ADK has two forms:
// recorded turns have Events, handwritten ones mostly the three lists. If Events is not
// nil, the lists are empty.
type Intermediate struct {
	ToolUses      []*genai.FunctionCall
	ToolResponses []*genai.FunctionResponse
	Responses     []*IntermediateResponse

	Events []*InvocationEvent
}

// An IntermediateResponse is what an agent wrote before the final response.
type IntermediateResponse struct {
	Author string
	Parts  []*genai.Part
}

// An InvocationEvent is an event in a turn.
type InvocationEvent struct {
	Author            string                                      `json:"author"`
	Content           *genai.Content                              `json:"content,omitempty"`
	GroundingMetadata *genai.GroundingMetadata                    `json:"groundingMetadata,omitempty"`
	Usage             *genai.GenerateContentResponseUsageMetadata `json:"usageMetadata,omitempty"`
	ModelVersion      string                                      `json:"modelVersion,omitempty"`
}

// A SessionInput describes the session that a case runs in.
type SessionInput struct {
	App   string         `json:"appName"`
	User  string         `json:"userId"`
	State map[string]any `json:"state,omitempty"`
	// ID names an existing session to continue; empty for a new one.
	ID    string `json:"sessionId,omitempty"`
	Extra Extra  `json:"-"`
}

// A Scenario describes a conversation that a simulated user leads.
type Scenario struct {
	StartingPrompt string   `json:"startingPrompt"`
	Plan           string   `json:"conversationPlan"`
	Persona        *Persona `json:"userPersona,omitempty"`
}

// Scenarios is a scenario file.
type Scenarios struct {
	Scenarios []*Scenario `json:"scenarios"`
}

// A Rubric is a property that a judge checks.
type Rubric struct {
	ID          string         `json:"rubricId"`
	Content     *RubricContent `json:"rubricContent"`
	Description string         `json:"description,omitempty"`
	// Type restricts a rubric in a case or turn to one metric: see the constants.
	Type string `json:"type,omitempty"`
}

// The rubric types.
const (
	TypeFinalResponse = "FINAL_RESPONSE_QUALITY"
	TypeToolUse       = "TOOL_USE_QUALITY"
	TypeTrajectory    = "TRAJECTORY_QUALITY"
)

// RubricContent is a rubric's property.
type RubricContent struct {
	Text string `json:"textProperty"`
}

// Text returns the rubric's property.
func (r *Rubric) Text() string {
	if r.Content == nil {
		return ""
	}
	return r.Content.Text
}

// AppDetails describes the agents that took part in a turn.
type AppDetails struct {
	Agents map[string]*AgentDetails `json:"agentDetails,omitempty"`
}

// AgentDetails are the instructions and tools that an agent's model received.
type AgentDetails struct {
	Name         string        `json:"name"`
	Instructions string        `json:"instructions,omitempty"`
	Tools        []*genai.Tool `json:"toolDeclarations,omitempty"`
}

// A ToolCall is a call and its response.
type ToolCall struct {
	Call *genai.FunctionCall
	// Response is nil if there is none.
	Response *genai.FunctionResponse
}

// Calls returns a turn's tool calls in order.
func (inv *Invocation) Calls() []*genai.FunctionCall {
	switch d := inv.Intermediate; {
	case d == nil:
		return nil
	case d.Events == nil:
		return d.ToolUses
	default:
		var calls []*genai.FunctionCall
		for p := range d.eventParts {
			if p.FunctionCall != nil {
				calls = append(calls, p.FunctionCall)
			}
		}
		return calls
	}
}

// CallsWithResponses returns a turn's tool calls, each with the last response that has its
// ID. Calls and responses without ID share the empty one, as in ADK.
func (inv *Invocation) CallsWithResponses() []ToolCall {
	byID := map[string]*genai.FunctionResponse{}
	if d := inv.Intermediate; d != nil {
		for _, r := range d.ToolResponses {
			byID[r.ID] = r
		}
		for p := range d.eventParts {
			if p.FunctionResponse != nil {
				byID[p.FunctionResponse.ID] = p.FunctionResponse
			}
		}
	}
	var calls []ToolCall
	for _, c := range inv.Calls() {
		calls = append(calls, ToolCall{c, byID[c.ID]})
	}
	return calls
}

// eventParts iterates over the parts in all events.
func (d *Intermediate) eventParts(yield func(*genai.Part) bool) {
	for _, e := range d.Events {
		if e.Content == nil {
			continue
		}
		for _, p := range e.Content.Parts {
			if !yield(p) {
				return
			}
		}
	}
}

// textOf returns a content's texts, one a line. Thoughts are included, as in ADK.
func textOf(c *genai.Content) string {
	if c == nil {
		return ""
	}
	return textOfParts(c.Parts)
}

func textOfParts(parts []*genai.Part) string {
	var texts []string
	for _, p := range parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// answerOf returns a turn's final text, after the intermediate texts if those count.
func answerOf(inv *Invocation, withIntermediate bool) string {
	var texts []string
	if d := inv.Intermediate; d != nil && withIntermediate {
		for _, e := range d.Events {
			texts = append(texts, textOf(e.Content))
		}
		for _, r := range d.Responses {
			texts = append(texts, textOfParts(r.Parts))
		}
	}
	texts = append(texts, textOf(inv.FinalResponse))
	kept := texts[:0]
	for _, t := range texts {
		if t != "" {
			kept = append(kept, t)
		}
	}
	return strings.Join(kept, "\n")
}
