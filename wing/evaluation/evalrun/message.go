package evalrun

import (
	"cmp"
	"slices"

	"google.golang.org/genai"

	"agenthost/internal/turn"
	"agenthost/pkg/runtime"
)

// answerPending returns the message with the role of the user and the IDs of pending calls.
// Function responses without an ID answer the oldest calls of their functions, and a
// confirmation all requests of the oldest event. Those with the ID of an earlier session, from
// which the case was made, answer the oldest pending call with their name.
func (c *caseRun) answerPending(message *genai.Content) (*genai.Content, error) {
	answered := &genai.Content{Role: cmp.Or(message.Role, genai.RoleUser)}
	var open []*genai.FunctionCall
	for _, w := range runtime.Pending(c.events) {
		open = append(open, w.Calls...)
	}
	var answers []turn.Answer
	for _, p := range message.Parts {
		r := p.FunctionResponse
		switch {
		case r == nil:
			answered.Parts = append(answered.Parts, p)
		case r.ID == "" && r.Name == runtime.RequestConfirmation:
			parts, err := turn.Decision(r.Response).AnswerRequests(c.events)
			if err != nil {
				return nil, err
			}
			answered.Parts = append(answered.Parts, parts...)
		case r.ID == "":
			answers = append(answers, turn.Answer{Function: r.Name, Value: r.Response})
		default:
			var part *genai.Part
			part, open = renameResponse(p, open)
			answered.Parts = append(answered.Parts, part)
		}
	}
	parts, err := turn.AnswerCalls(c.events, answers)
	if err != nil {
		return nil, err
	}
	answered.Parts = append(answered.Parts, parts...)
	return answered, nil
}

// renameResponse returns a response with the ID of the call that it answers, and the calls that
// are still pending.
func renameResponse(p *genai.Part, open []*genai.FunctionCall) (*genai.Part, []*genai.FunctionCall) {
	i := slices.IndexFunc(open, func(call *genai.FunctionCall) bool { return call.ID == p.FunctionResponse.ID })
	if i < 0 {
		i = slices.IndexFunc(open, func(call *genai.FunctionCall) bool { return call.Name == p.FunctionResponse.Name })
	}
	if i < 0 {
		return p, open
	}
	part, response := *p, *p.FunctionResponse
	response.ID, part.FunctionResponse = open[i].ID, &response
	return &part, slices.Delete(open, i, i+1)
}
