package modelapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/limit"
	"agenthost/internal/modelcall"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// A MalformedCall is a call whose arguments are not a JSON object, or were cut.
type MalformedCall struct {
	Name, Args string
	Cut        bool // at the token limit
}

// ErrorResponse returns a response with the error MALFORMED_FUNCTION_CALL, or MAX_TOKENS
// for a call that was cut.
func (b *MalformedCall) ErrorResponse(r *model.Response) *model.Response {
	r.Content, r.FinishReason = nil, genai.FinishReasonMalformedFunctionCall
	r.ErrorMessage = fmt.Sprintf("arguments of %s must be a JSON object: %s", b.Name, truncateBytes([]byte(b.Args)))
	if b.Cut {
		r.FinishReason = genai.FinishReasonMaxTokens
		r.ErrorMessage = fmt.Sprintf("arguments of %s exceed the limit of output tokens: %s", b.Name, truncateBytes([]byte(b.Args)))
	}
	r.ErrorCode = string(r.FinishReason)
	return r
}

// DecodeCall converts a complete call. It fails if the answer exceeds a limit.
func (r *Response) DecodeCall(id, name, arguments string) (*genai.Part, *MalformedCall, error) {
	args, err := r.Budget.DecodeArguments(arguments)
	if _, tooLarge := errors.AsType[*limit.Error](err); tooLarge {
		return nil, nil, r.ToModelError(err)
	}
	if err != nil {
		return nil, &MalformedCall{Name: name, Args: strings.TrimSpace(arguments)}, nil
	}
	return &genai.Part{FunctionCall: &genai.FunctionCall{ID: id, Name: name, Args: args}}, nil, nil
}

// EncodeArguments returns a call's arguments as JSON.
func EncodeArguments(c *genai.FunctionCall) (json.RawMessage, error) {
	raw, err := session.EncodeMap(c.Args)
	if err != nil {
		return nil, modelcall.NewConfigError(http.StatusBadRequest, fmt.Sprintf("cannot encode arguments of %s: %s", c.Name, err))
	}
	return raw, nil
}

// EncodeResponse returns a tool's response as JSON.
func EncodeResponse(r *genai.FunctionResponse) (json.RawMessage, error) {
	raw, err := session.EncodeMap(r.Response)
	if err != nil {
		return nil, modelcall.NewConfigError(http.StatusBadRequest, fmt.Sprintf("cannot encode response of %s: %s", r.Name, err))
	}
	return raw, nil
}
