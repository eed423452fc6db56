package provider

import (
	"bytes"
	"encoding/json"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/session"
)

// Google's library decodes all values of requests and responses to float64. So the
// arguments of calls and the responses of tools pass it in other forms: those of a request
// are added to the body that it built, and those of a response are text until it has
// decoded the rest.

// quotedKey is the only key of arguments that are text.
const quotedKey = ""

// withholdValues takes the arguments and responses out of the contents, and adds them to
// the body of the request.
func (c *geminiCall) withholdValues() error {
	values := map[*genai.Part]json.RawMessage{}
	full := c.contents
	c.contents = make([]*genai.Content, len(full))
	for i, content := range full {
		own := &genai.Content{Role: content.Role, Parts: slices.Clone(content.Parts)}
		for k, p := range own.Parts {
			part, raw, err := withholdValue(p)
			if err != nil {
				return err
			}
			if raw != nil {
				own.Parts[k] = part
				values[part] = raw
			}
		}
		c.contents[i] = own
	}
	if len(values) == 0 {
		c.contents = full
		return nil
	}
	if c.config.HTTPOptions == nil {
		c.config.HTTPOptions = &genai.HTTPOptions{}
	}
	before, sent := c.config.HTTPOptions.ExtrasRequestProvider, c.contents
	c.config.HTTPOptions.ExtrasRequestProvider = func(body map[string]any) map[string]any {
		addValues(body, sent, values)
		if before != nil {
			body = before(body)
		}
		return body
	}
	return nil
}

// withholdValue returns a part without its value, and the value as JSON; nil if it has none.
func withholdValue(p *genai.Part) (*genai.Part, json.RawMessage, error) {
	switch {
	case p == nil:
	case p.FunctionCall != nil && len(p.FunctionCall.Args) > 0:
		raw, err := encodeArguments(p.FunctionCall)
		part, call := *p, *p.FunctionCall
		call.Args, part.FunctionCall = nil, &call
		return &part, raw, err
	case p.FunctionResponse != nil && len(p.FunctionResponse.Response) > 0:
		raw, err := encodeResponse(p.FunctionResponse)
		part, response := *p, *p.FunctionResponse
		response.Response, part.FunctionResponse = nil, &response
		return &part, raw, err
	}
	return p, nil, nil
}

// addValues adds the values to a body, which has the contents and parts in their order.
func addValues(body map[string]any, contents []*genai.Content, values map[*genai.Part]json.RawMessage) {
	for i, content := range toMappings(body["contents"]) {
		for k, part := range toMappings(content["parts"]) {
			if i >= len(contents) || k >= len(contents[i].Parts) {
				return
			}
			raw := values[contents[i].Parts[k]]
			if call, ok := part["functionCall"].(map[string]any); ok && raw != nil {
				call["args"] = raw
			}
			if response, ok := part["functionResponse"].(map[string]any); ok && raw != nil {
				response["response"] = raw
			}
		}
	}
}

// quoteArguments makes the arguments of the calls of an answer text.
func quoteArguments(answer []byte) ([]byte, error) {
	if !bytes.Contains(answer, []byte(`"functionCall"`)) {
		return answer, nil
	}
	fields, err := session.DecodeMap(answer)
	if err != nil {
		return nil, err
	}
	for _, candidate := range toMappings(fields["candidates"]) {
		content, _ := candidate["content"].(map[string]any)
		for _, part := range toMappings(content["parts"]) {
			call, _ := part["functionCall"].(map[string]any)
			args, ok := call["args"].(map[string]any)
			if !ok {
				continue
			}
			raw, err := session.EncodeMap(args)
			if err != nil {
				return nil, err
			}
			call["args"] = map[string]any{quotedKey: string(raw)}
		}
	}
	return session.EncodeMap(fields)
}

// unquoteArguments decodes the arguments of the calls of a content.
func unquoteArguments(c *genai.Content) {
	if c == nil {
		return
	}
	for _, p := range c.Parts {
		if p.FunctionCall == nil {
			continue
		}
		text, ok := p.FunctionCall.Args[quotedKey].(string)
		if !ok || len(p.FunctionCall.Args) != 1 {
			continue
		}
		if args, err := session.DecodeMap([]byte(text)); err == nil {
			p.FunctionCall.Args = args
		}
	}
}
