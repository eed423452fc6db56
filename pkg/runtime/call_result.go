package runtime

import (
	"fmt"

	"google.golang.org/genai"

	"agenthost/internal/adkjson"
	"agenthost/internal/limit"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// setResponse sets the response to a call, and counts its values. A response that no event can hold,
// such as one that is nested too deeply, becomes an error that the model reads.
func (a *callResult) setResponse(fc *genai.FunctionCall, response map[string]any) {
	var err error
	if adkjson.IsPlain(response) { // without encoding it
		a.values = limit.CountValues(response, limit.ToolResult.Values)
	} else {
		var text []byte
		if text, err = session.EncodeMap(response); err == nil {
			a.values, _ = limit.Measure(text)
		}
	}
	if err == nil {
		err = limit.ToolResult.CheckCount(a.values)
	}
	if err != nil {
		a.values = 0
		response = tool.ErrorResponse(fmt.Errorf("the response of tool %s cannot be stored: %.300s", fc.Name, err))
	}
	a.part = &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: fc.ID, Name: fc.Name, Response: response}}
}

// callResult is the result of one call: a part for the model, which is nil
// when it comes later, the actions, and the outcome: next, paused by a sub-agent,
// finished by finish_task, or failed with an error that ends the run.
type callResult struct {
	part    *genai.Part
	values  int // in the response
	actions session.Actions
	outcome outcome
	span    callSpan
	// turn is the call's turn in its answer, state its view of the state.
	turn  *callTurn
	state *callState
	// edited are the arguments of a call that a person changed; nil for other calls.
	edited *EditedCall
}
