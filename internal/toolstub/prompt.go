package toolstub

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

const analysisPrompt = `You analyze the tools of an AI agent. Find the parameters that identify a stored resource, such as order_id. For each of them, list the tools that create or change the resource, and the tools that only read it.

Tools:
`

const analysisFormat = `

Answer with one JSON object and nothing else:
{"stateful_parameters": [{"parameter_name": "NAME", "creating_tools": ["TOOL"], "consuming_tools": ["TOOL"]}]}
Without such parameters, the list is empty.`

const callPrompt = `You simulate a service that an AI agent calls through a tool. Write the response that the real service would return to this call.

- The response fits the description of the tool and the arguments of the call.
- It agrees with the data of the service and with the resources that earlier calls created.
- A call that creates a resource gets a new ID, in the form that such services use.
- A call for a resource that neither the data nor the earlier calls have gets the error of the service, such as {"status": "error", "error_message": "order 7 not found"}.

Answer with one JSON object and nothing else.
`

func buildAnalysisPrompt(tools []tool.Tool) string {
	var declarations []*genai.FunctionDeclaration
	for _, t := range tools {
		declarations = append(declarations, t.Declaration())
	}
	return analysisPrompt + formatJSON(declarations) + analysisFormat
}

func (s *simulatedService) buildCallPrompt(x *tool.Execution) string {
	var b strings.Builder
	b.WriteString(callPrompt)
	addSection := func(heading, text string) {
		if text != "" {
			b.WriteString("\n" + heading + ":\n" + text + "\n")
		}
	}
	addSection("Data of the service", formatData(s.config.Data))
	addSection("Examples of earlier calls", formatData(s.config.Traces))
	if len(s.stateful) > 0 {
		addSection("Parameters that identify resources", formatJSON(s.stateful))
		addSection("Responses of earlier calls, by parameter and value", formatJSON(s.resources))
	}
	addSection("Tool", formatJSON(x.Tool.Declaration()))
	addSection("Arguments of the call", formatJSON(x.Call.Args))
	return b.String()
}

// formatData returns text as it is, and another value as JSON.
func formatData(n *spec.Node) string {
	if n.IsNull() {
		return ""
	}
	switch v := n.Any().(type) {
	case string:
		return v
	default:
		return formatJSON(v)
	}
}

func formatJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "" // cannot happen: declarations and arguments have JSON values
	}
	return string(b)
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
