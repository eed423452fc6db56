package eval

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/session"
)

// Turns converts a session's events to turns: one for each invocation, in order. The rules
// are those in adk-python evaluation_generator.py.
func Turns(events []*session.Event) []*Invocation {
	var turns []*Invocation
	byID := map[string]*turnBuilder{}
	for _, e := range events {
		b := byID[e.InvocationID]
		if b == nil {
			b = &turnBuilder{inv: &Invocation{ID: e.InvocationID, UserContent: &genai.Content{Parts: []*genai.Part{}}}}
			byID[e.InvocationID] = b
			turns = append(turns, b.inv)
		}
		b.addEvent(e)
	}
	for _, b := range byID {
		b.finishTurn()
	}
	return turns
}

// TurnOf converts one turn's events; the first event is the user's. Unlike [Turns], it accepts
// several invocations: a turn that answers pending calls resumes earlier ones.
func TurnOf(events []*session.Event) *Invocation {
	id := ""
	for _, e := range events[1:] {
		id = cmp.Or(id, e.InvocationID)
	}
	same := make([]*session.Event, len(events))
	for i, e := range events {
		own := *e
		own.InvocationID = id
		same[i] = &own
	}
	return Turns(same)[0]
}

// A turnBuilder collects an invocation's events.
type turnBuilder struct {
	inv *Invocation
	// kept are the events with content, final the one that is the response.
	kept  []*session.Event
	final *session.Event
}

func (b *turnBuilder) addEvent(e *session.Event) {
	if strings.EqualFold(e.Author, session.UserAuthor) && !e.Provenance.TaskResult {
		if e.Content != nil {
			b.inv.UserContent = fillCalls(e.Content)
		}
		if !e.Timestamp.IsZero() {
			b.inv.CreationTimestamp = float64(e.Timestamp.UnixMicro()) / 1e6
		}
		return
	}
	if e.Content != nil && len(e.Content.Parts) > 0 && e.IsFinal() {
		b.inv.FinalResponse, b.final = fillCalls(e.Content), e
	}
	if hasContent(e.Content) || isModelCall(e) {
		b.kept = append(b.kept, e)
	}
}

func hasContent(c *genai.Content) bool {
	return c != nil && slices.ContainsFunc(c.Parts, func(p *genai.Part) bool {
		return p.Text != "" || p.FunctionCall != nil || p.FunctionResponse != nil || p.InlineData != nil
	})
}

// isModelCall reports whether an event has what a model returned with its content: usage and
// grounding metrics read it.
func isModelCall(e *session.Event) bool {
	return e.UsageMetadata != nil || e.ModelVersion != "" || e.GroundingMetadata != nil
}

// finishTurn makes all kept events intermediate. The final response stays without its content
// if it is a model call, and with its content if it calls long-running tools.
func (b *turnBuilder) finishTurn() {
	b.inv.Intermediate = &Intermediate{Events: []*InvocationEvent{}}
	for _, e := range b.kept {
		kept := &InvocationEvent{
			Author: cmp.Or(e.Author, "agent"), GroundingMetadata: e.GroundingMetadata,
			Usage: e.UsageMetadata, ModelVersion: e.ModelVersion,
		}
		switch {
		case e == b.final && len(e.Calls()) == 0 && !isModelCall(e):
			continue
		case e.Content != nil && (e != b.final || len(e.Calls()) > 0):
			kept.Content = fillCalls(e.Content)
		}
		b.inv.Intermediate.Events = append(b.inv.Intermediate.Events, kept)
	}
}

// fillCalls returns the content with empty arguments and responses instead of missing ones:
// events do not distinguish them and ADK writes empty ones, but exact call matches do.
func fillCalls(c *genai.Content) *genai.Content {
	filled := &genai.Content{Role: c.Role, Parts: slices.Clone(c.Parts)}
	for i, p := range filled.Parts {
		part := *p
		if f := p.FunctionCall; f != nil && f.Args == nil {
			call := *f
			call.Args = map[string]any{}
			part.FunctionCall, filled.Parts[i] = &call, &part
		}
		if f := p.FunctionResponse; f != nil && f.Response == nil {
			response := *f
			response.Response = map[string]any{}
			part.FunctionResponse, filled.Parts[i] = &response, &part
		}
	}
	return filled
}
