package model

import (
	"context"
	"fmt"

	"google.golang.org/genai"
)

// Answer returns the complete response to a request. Without contents, the request's message
// is the user text in its origin. A response with an error code is returned with an error; no
// response at all is an error too.
func Answer(ctx context.Context, llm LLM, req *Request) (*Response, error) {
	if len(req.Contents) == 0 {
		req.Contents = []*genai.Content{UserText(req.Origin.UserText)}
	}
	for resp, err := range llm.Generate(ctx, req) {
		switch {
		case err != nil:
			return nil, err
		case resp.Partial:
		case resp.ErrorCode != "":
			return resp, fmt.Errorf("model %s returned %s: %s", llm.Name(), resp.ErrorCode, resp.ErrorMessage)
		default:
			return resp, nil
		}
	}
	return nil, fmt.Errorf("model %s returned no response", llm.Name())
}
