package provider

import (
	"fmt"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// AnswerEntry writes an answer of a model as an entry of a list that
// [DecodeAnswers] reads: lines, the first of which begins with a dash. An answer
// with an error and no content is a failed call.
func AnswerEntry(resp *model.Response) (string, error) {
	e := &entryText{}
	if resp.ErrorCode != "" && resp.Content == nil {
		message := resp.ErrorMessage
		if _, said, ok := strings.Cut(message, " failed: "); ok && strings.HasPrefix(message, "model ") {
			message = said
		}
		e.addKey("error", fmt.Sprintf("{status: %s, message: %s}", YAMLText(resp.ErrorCode), YAMLText(withoutPlaceholders(message))))
	} else if err := e.addAnswer(withoutIDs(resp), nil); err != nil {
		return "", err
	}
	return "-" + strings.TrimPrefix(e.String(), " "), nil
}

// withoutIDs is the answer as the model gave it: the ids of its calls are the
// runtime's.
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
