package main

//lint:file-ignore SA1019 the suite tests what MCP still keeps for older clients

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// addFixtures adds what the suite's scenarios expect and an app cannot have.
func addFixtures(_ string, s *mcp.Server) {
	addTool(s, "test_sampling", "Asks the client's model within the call.", sampleInCall)
	addTool(s, "test_reconnection", "Closes the stream, and answers after the client has opened it again.", closeStream)
	addTool(s, "test_missing_capability", "Requires a client with sampling.", requireSampling)
	addTool(s, "test_input_required_result_elicitation", "Asks for a name, and takes the answer without a state.", askName)
	addTool(s, "test_input_required_result_sampling", "Asks the client's model in the result.", askModel)
	addTool(s, "test_input_required_result_list_roots", "Asks for the client's roots in the result.", askRoots)
	addTool(s, "test_input_required_result_multiple_inputs", "Asks three questions in one result.", askAll)
	addTool(s, "test_input_required_result_capabilities", "Asks only what the client can answer.", askPossible)
	addTool(s, "test_trigger_tool_change", "Changes the list of tools.", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		addTool(s, "changed_tool", "Is new.", answerNothing)
		return textResult("The tools have changed."), nil
	})
	addTool(s, "test_trigger_prompt_change", "Changes the list of prompts.", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.AddPrompt(&mcp.Prompt{Name: "changed_prompt", Description: "Is new."}, promptContext)
		return textResult("The prompts have changed."), nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "test_input_required_result_prompt", Description: "Asks for the context of its text."}, promptContext)
}

func addTool(s *mcp.Server, name, description string, handle mcp.ToolHandler) {
	s.AddTool(&mcp.Tool{Name: name, Description: description, InputSchema: map[string]any{"type": "object"}}, handle)
}

func textResult(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

func answerNothing(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return textResult("Nothing."), nil
}

// sampleInCall asks the client's model as servers with sessions do.
func sampleInCall(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var args struct {
		Prompt string `json:"prompt"`
	}
	if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
		return nil, err
	}
	answer, err := req.Session.CreateMessage(ctx, buildSampling(args.Prompt))
	if err != nil {
		return nil, err
	}
	text, _ := answer.Content.(*mcp.TextContent)
	if text == nil {
		return textResult("The answer is not text."), nil
	}
	return textResult("LLM response: %s", text.Text), nil
}

// closeStream closes the call's stream, so that the client opens it again by its last event.
func closeStream(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if req.Extra != nil && req.Extra.CloseSSEStream != nil {
		req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
	}
	return textResult("The stream is open again."), nil
}

// requireSampling fails as the protocol requires for a client that does not declare a capability.
func requireSampling(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if caps := req.ClientCapabilities(); caps != nil && caps.Sampling != nil {
		return textResult("The client has sampling."), nil
	}
	data, err := json.Marshal(&mcp.MissingRequiredClientCapabilityData{
		RequiredCapabilities: &mcp.ClientCapabilities{Sampling: &mcp.SamplingCapabilities{}},
	})
	if err != nil {
		return nil, err
	}
	return nil, &jsonrpc.Error{Code: mcp.CodeMissingRequiredClientCapabilities, Message: "the client does not declare sampling", Data: data}
}

// buildForm asks a person for one string.
func buildForm(message, field string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Message: message, RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{field: map[string]any{"type": "string"}}, "required": []string{field},
	}}
}

// buildSampling asks the client's model.
func buildSampling(text string) *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{MaxTokens: 100, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}}
}

// readField returns a field of a form that the person has sent; "" without.
func readField(responses mcp.InputResponseMap, key, field string) string {
	answer, _ := responses[key].(*mcp.ElicitResult)
	if answer == nil || answer.Action != "accept" {
		return ""
	}
	text, _ := answer.Content[field].(string)
	return text
}

// readSample returns the text of a model's answer.
func readSample(responses mcp.InputResponseMap, key string) (text string, found bool) {
	answer, _ := responses[key].(*mcp.CreateMessageWithToolsResult)
	if answer == nil {
		return "", false
	}
	for _, c := range answer.Content {
		if part, ok := c.(*mcp.TextContent); ok {
			text += part.Text
		}
	}
	return text, true
}

func askName(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if name := readField(req.Params.InputResponses, "user_name", "name"); name != "" {
		return textResult("Hello, %s!", name), nil
	}
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"user_name": buildForm("What is your name?", "name")}}, nil
}

func askModel(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if text, found := readSample(req.Params.InputResponses, "capital_question"); found {
		return textResult("The model: %s", text), nil
	}
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"capital_question": buildSampling("What is the capital of France?")}}, nil
}

func askRoots(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if answer, _ := req.Params.InputResponses["client_roots"].(*mcp.ListRootsResult); answer != nil {
		result := textResult("%d roots", len(answer.Roots))
		for _, root := range answer.Roots {
			result.Content = append(result.Content, &mcp.TextContent{Text: root.URI})
		}
		return result, nil
	}
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"client_roots": &mcp.ListRootsParams{}}}, nil
}

// askAll asks a person, the client's model and for the client's roots. Its state names nothing.
func askAll(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	name := readField(req.Params.InputResponses, "user_name", "name")
	greeting, greeted := readSample(req.Params.InputResponses, "greeting")
	roots, _ := req.Params.InputResponses["client_roots"].(*mcp.ListRootsResult)
	if name != "" && greeted && roots != nil {
		return textResult("%s (%s, %d roots)", greeting, name, len(roots.Roots)), nil
	}
	return &mcp.CallToolResult{RequestState: "three questions", InputRequests: mcp.InputRequestMap{
		"user_name": buildForm("What is your name?", "name"), "greeting": buildSampling("Write a greeting."), "client_roots": &mcp.ListRootsParams{},
	}}, nil
}

func askPossible(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if len(req.Params.InputResponses) > 0 {
		return textResult("Answered."), nil
	}
	asked := mcp.InputRequestMap{}
	if caps := req.ClientCapabilities(); caps != nil {
		if caps.Elicitation != nil {
			asked["user_name"] = buildForm("What is your name?", "name")
		}
		if caps.Sampling != nil {
			asked["greeting"] = buildSampling("Write a greeting.")
		}
		if caps.RootsV2 != nil {
			asked["client_roots"] = &mcp.ListRootsParams{}
		}
	}
	if len(asked) == 0 {
		return textResult("The client answers no questions."), nil
	}
	return &mcp.CallToolResult{InputRequests: asked}, nil
}

// promptContext asks a question before the prompt's text.
func promptContext(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	if given := readField(req.Params.InputResponses, "user_context", "context"); given != "" {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "Context: " + given}}}}, nil
	}
	return &mcp.GetPromptResult{InputRequests: mcp.InputRequestMap{"user_context": buildForm("For which context?", "context")}}, nil
}
