package provider

import (
	"fmt"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// AnswerEntry writes a response as an entry of a list for [DecodeAnswers]; its first
// line starts with a dash. A response with an error and without content is a failed
// call.
func AnswerEntry(resp *model.Response) (string, error) {
	e := &entryText{}
	if resp.ErrorCode != "" && resp.Content == nil {
		message := resp.ErrorMessage
		if _, reason, ok := strings.Cut(message, " failed: "); ok && strings.HasPrefix(message, "model ") {
			message = reason
		}
		e.addKey("error", fmt.Sprintf("{status: %s, message: %s}", YAMLText(resp.ErrorCode), YAMLText(withoutPlaceholders(message))))
	} else if err := e.addAnswer(withoutIDs(resp), nil); err != nil {
		return "", err
	}
	return "-" + strings.TrimPrefix(e.String(), " "), nil
}

// withoutIDs removes the IDs of calls, which the runtime adds.
func withoutIDs(resp *model.Response) *model.Response {
	if resp.Content == nil {
		return resp
	}
	own := *resp
	own.Content = &genai.Content{Role: resp.Content.Role}
	for _, p := range resp.Content.Parts {
		p = copyPart(p)
		if p.FunctionCall != nil {
			p.FunctionCall.ID = ""
		}
		own.Content.Parts = append(own.Content.Parts, p)
	}
	return &own
}
