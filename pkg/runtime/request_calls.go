package runtime

import (
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// RequestConfirmation names the function call that requests the confirmation for another call. Its
// arguments are originalFunctionCall and toolConfirmation; the answer is {"confirmed": true|false,
// "payload": …}.
const RequestConfirmation = "adk_request_confirmation"

// RequestCredential names the function call that requests a credential from the user. Its arguments
// are functionCallId and authConfig; the answer is the config with exchangedAuthCredential set.
const RequestCredential = "adk_request_credential"

// IsReservedFunction reports whether calls and responses with this name belong to the runtime: they
// request human input or answer it.
func IsReservedFunction(name string) bool {
	return name == RequestConfirmation || name == RequestCredential || name == tool.RequestInput
}

// A ToolNode stores no call that a request could refer to. Its requests have the node's path in
// their own ID, and the tool and its arguments in their payload (adk-python workflow/_tool_node.py
// since 2.11).
const (
	// nodeConfirmationPrefix begins the ID of the call adk_request_input by which a ToolNode
	// requests the confirmation for its call; the node's path follows. The answer is {"confirmed":
	// true|false, "payload": …}, alone or as {"result": …}.
	nodeConfirmationPrefix = "wf_tool_confirmation:"
	// nodeCredentialPrefix begins the ID of the call adk_request_credential by which a ToolNode
	// requests a credential.
	nodeCredentialPrefix = "wf_auth:"
)

// isNodeRequest reports whether a call is a ToolNode's request.
func isNodeRequest(c *genai.FunctionCall) bool {
	return isNodeConfirmation(c.Name, c.ID) || c.Name == RequestCredential && strings.HasPrefix(c.ID, nodeCredentialPrefix)
}

// isNodeConfirmation reports whether a call, or the response to it, is about confirming a
// ToolNode's call.
func isNodeConfirmation(name, id string) bool {
	return name == tool.RequestInput && strings.HasPrefix(id, nodeConfirmationPrefix)
}

// hasNodeResult reports whether a ToolNode has stored its result.
func hasNodeResult(p *frameRecord) bool {
	return slices.ContainsFunc(p.allEvents(), isNodeResult)
}

// isNodeResult reports whether a ToolNode event has its result: it is not a request, a failure or a
// checkpoint.
func isNodeResult(ev *session.Event) bool {
	return ev.ErrorCode == "" && ev.Actions.AgentState == nil && !ev.Actions.EndOfAgent && !isSkip(ev) && len(ev.Calls()) == 0
}

// readConfirmation reads {"confirmed", "payload"}, or the same as a JSON
// string in the key response.
func readConfirmation(resp *genai.FunctionResponse) (*session.Confirmation, error) {
	m, err := unwrapResponse(resp)
	if err != nil {
		return nil, err
	}
	c := &session.Confirmation{Payload: m["payload"]}
	var ok bool
	if c.Confirmed, ok = m["confirmed"].(bool); !ok {
		return nil, invalidRequest(`the answer to the confirmation %s requires "confirmed", true or false`, resp.ID)
	}
	for key := range m {
		if key != "confirmed" && key != "payload" && key != "hint" {
			return nil, invalidRequest("the answer to the confirmation %s has the unknown key %q", resp.ID, key)
		}
	}
	return c, nil
}

// unwrapResponse returns a response's content, which may be a JSON string in the key response. In a
// response to a ToolNode, the key result may have the content or its JSON.
func unwrapResponse(resp *genai.FunctionResponse) (map[string]any, error) {
	if len(resp.Response) != 1 {
		return resp.Response, nil
	}
	text, ok := resp.Response["response"].(string)
	if isNodeRequest(&genai.FunctionCall{ID: resp.ID, Name: resp.Name}) && !ok {
		if m, isMapping := resp.Response["result"].(map[string]any); isMapping {
			return m, nil
		}
		text, ok = resp.Response["result"].(string)
	}
	if !ok {
		return resp.Response, nil
	}
	m, err := session.DecodeMap([]byte(text))
	if err != nil {
		return nil, invalidRequest("the answer to the %s %s must be a JSON object: %s", requestNoun(resp.Name), resp.ID, err)
	}
	return m, nil
}
