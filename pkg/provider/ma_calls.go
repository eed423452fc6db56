package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/limit"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// A malformedCall is a call whose arguments are not a JSON object, or were cut.
type malformedCall struct {
	name, args string
	cut        bool // at the limit of tokens
}

// errorResponse returns a response with the error MALFORMED_FUNCTION_CALL, or MAX_TOKENS
// for a call that was cut.
func (b *malformedCall) errorResponse(r *model.Response) *model.Response {
	r.Content, r.FinishReason = nil, genai.FinishReasonMalformedFunctionCall
	r.ErrorMessage = fmt.Sprintf("arguments of %s must be a JSON object: %s", b.name, truncateBytes([]byte(b.args)))
	if b.cut {
		r.FinishReason = genai.FinishReasonMaxTokens
		r.ErrorMessage = fmt.Sprintf("arguments of %s exceed the limit of output tokens: %s", b.name, truncateBytes([]byte(b.args)))
	}
	r.ErrorCode = string(r.FinishReason)
	return r
}

// decodeCall converts a complete call. The error is that of an answer above a limit.
func (r *serviceResponse) decodeCall(id, name, arguments string) (*genai.Part, *malformedCall, error) {
	args, err := r.budget.decodeArguments(arguments)
	if _, tooLarge := errors.AsType[*limit.Error](err); tooLarge {
		return nil, nil, r.toModelError(err)
	}
	if err != nil {
		return nil, &malformedCall{name: name, args: strings.TrimSpace(arguments)}, nil
	}
	return &genai.Part{FunctionCall: &genai.FunctionCall{ID: id, Name: name, Args: args}}, nil, nil
}

// encodeArguments returns the arguments of a call as JSON.
func encodeArguments(c *genai.FunctionCall) (json.RawMessage, error) {
	raw, err := session.EncodeMap(c.Args)
	if err != nil {
		return nil, newConfigError(http.StatusBadRequest, fmt.Sprintf("cannot encode arguments of %s: %s", c.Name, err))
	}
	return raw, nil
}

// encodeResponse returns the response of a tool as JSON.
func encodeResponse(r *genai.FunctionResponse) (json.RawMessage, error) {
	raw, err := session.EncodeMap(r.Response)
	if err != nil {
		return nil, newConfigError(http.StatusBadRequest, fmt.Sprintf("cannot encode response of %s: %s", r.Name, err))
	}
	return raw, nil
}
