package provider

import (
	"cmp"
	"strings"

	"agenthost/internal/limit"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// An answerBudget limits what is kept of one answer of a model: over all chunks of a
// stream, and over the texts in it that are decoded again, such as arguments of calls.
// The readers of the answer limit its bytes and each event. It is not safe for concurrent
// use.
type answerBudget struct {
	maxCalls int
	calls    int
	values   limit.Meter
}

func newAnswerBudget(maxCalls int) *answerBudget {
	return &answerBudget{maxCalls: cmp.Or(maxCalls, limit.ModelCalls), values: limit.Meter{Input: limit.ModelAnswer}}
}

// addCall counts a call, before its arguments are read. The answer ends with the error.
func (b *answerBudget) addCall() error {
	if b.calls++; b.calls > b.maxCalls {
		return &model.CallsLimitError{Limit: b.maxCalls}
	}
	return nil
}

// addCalls counts several calls.
func (b *answerBudget) addCalls(n int) error {
	for range min(n, b.maxCalls+1) {
		if err := b.addCall(); err != nil {
			return err
		}
	}
	return nil
}

// checkParts limits the parts of an answer so far: each takes hundreds of bytes.
func (b *answerBudget) checkParts(n int) error {
	if n > limit.ModelParts {
		return &limit.Error{Input: limit.ModelAnswer.Name, Unit: "parts", Limit: limit.ModelParts}
	}
	return nil
}

// decodeArguments decodes the arguments of a call.
func (b *answerBudget) decodeArguments(text string) (map[string]any, error) {
	if err := b.values.AddJSON([]byte(text)); err != nil {
		return nil, err
	}
	return decodeArguments(text)
}

// decodeArguments decodes the arguments of a call. No text and null are none.
func decodeArguments(text string) (map[string]any, error) {
	if text = strings.TrimSpace(text); text == "" || text == "null" {
		return map[string]any{}, nil
	}
	return session.DecodeMap([]byte(text))
}
