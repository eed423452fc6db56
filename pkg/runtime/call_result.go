package runtime

import (
	"fmt"

	"google.golang.org/genai"

	"agenthost/internal/adkjson"
	"agenthost/internal/limit"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// callResult is the result of one call: a part for the model, which is nil
// when it comes later, the actions, and the outcome: nextStep, paused by a sub-agent,
// finished by finish_task, or failed with an error that ends the run.
type callResult struct {
	part    *genai.Part
	values  int // of the response
	actions session.Actions
	outcome outcome
	span    callSpan
	// turn is the call's among those of its answer, state its view of the state.
	turn  *callTurn
	state *callState
}

// setResponse sets the response to a call. A response that no event can hold, such as one
// that is nested too deeply, becomes an error that the model reads.
func (a *callResult) setResponse(fc *genai.FunctionCall, response map[string]any) {
	if err := a.checkResponse(response); err != nil {
		a.values = 0
		response = tool.ErrorResponse(fmt.Errorf("the response of tool %s cannot be stored: %.300s", fc.Name, err))
	}
	a.part = &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: fc.ID, Name: fc.Name, Response: response}}
}

// checkResponse returns why no event can hold a response, and counts its values.
func (a *callResult) checkResponse(response map[string]any) error {
	if adkjson.IsPlain(response) {
		a.values = limit.CountValues(response, limit.ToolResult.Values)
		return limit.ToolResult.CheckCount(a.values)
	}
	text, err := session.EncodeMap(response)
	if err != nil {
		return err
	}
	a.values, _ = limit.Measure(text)
	return limit.ToolResult.CheckCount(a.values)
}
