package modelapi

import (
	"cmp"
	"strings"

	"agenthost/internal/limit"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// An AnswerBudget limits what is kept from one model answer: over all chunks in a stream, and over
// the texts in it that are decoded again, such as call arguments. The answer's readers limit its
// bytes and each event. It is not safe for concurrent use.
type AnswerBudget struct {
	MaxCalls int
	calls    int
	values   limit.Meter
}

// NewAnswerBudget returns one answer's budget; 0 calls is the usual limit.
func NewAnswerBudget(maxCalls int) *AnswerBudget {
	return &AnswerBudget{MaxCalls: cmp.Or(maxCalls, limit.ModelCalls), values: limit.Meter{Input: limit.ModelAnswer}}
}

// AddCall counts a call, before its arguments are read. The answer ends with the error.
func (b *AnswerBudget) AddCall() error {
	if b.calls++; b.calls > b.MaxCalls {
		return &model.CallsLimitError{Limit: b.MaxCalls}
	}
	return nil
}

// AddCalls counts several calls.
func (b *AnswerBudget) AddCalls(n int) error {
	for range min(n, b.MaxCalls+1) {
		if err := b.AddCall(); err != nil {
			return err
		}
	}
	return nil
}

// CheckParts limits an answer's parts so far: each takes hundreds of bytes.
func (b *AnswerBudget) CheckParts(n int) error {
	if n > limit.ModelParts {
		return &limit.Error{Input: limit.ModelAnswer.Name, Unit: "parts", Limit: limit.ModelParts}
	}
	return nil
}

// DecodeArguments decodes a call's arguments.
func (b *AnswerBudget) DecodeArguments(text string) (map[string]any, error) {
	if err := b.values.AddJSON([]byte(text)); err != nil {
		return nil, err
	}
	return decodeArguments(text)
}

// decodeArguments decodes a call's arguments. No text and null are none.
func decodeArguments(text string) (map[string]any, error) {
	if text = strings.TrimSpace(text); text == "" || text == "null" {
		return map[string]any{}, nil
	}
	return session.DecodeMap([]byte(text))
}
