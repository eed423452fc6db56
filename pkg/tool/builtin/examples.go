package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/toolconfig"
	"agenthost/pkg/model"
	"agenthost/pkg/tool"
)

// An exampleTool adds example conversations to the system instruction. The model never calls it.
// The layout is from adk-python tools/example_tool.py; its introduction has another wording.
type exampleTool struct {
	toolconfig.Declarer
	// plain and tagged are the block for models that write code in plain fences, and for
	// others.
	plain, tagged string
}

// exampleArgs are the args for ExampleTool.
type exampleArgs struct {
	Examples []exampleConfig `yaml:"examples" required:"true" doc:"The examples, in order."`
}

type exampleConfig struct {
	Input  *genai.Content   `yaml:"input" required:"true" doc:"The message of the user."`
	Output []*genai.Content `yaml:"output" required:"true" doc:"The answer: model contents, with calls, and tool responses as user contents."`
}

func newExampleTool(_ context.Context, _ tool.Env, c *exampleArgs) (tool.Set, error) {
	return tool.One(&exampleTool{toolconfig.NewDeclarer("ExampleTool", "", nil), formatExamples(c.Examples, false), formatExamples(c.Examples, true)}), nil
}

// Capabilities marks the tool as built in: it is not offered as a function.
func (t *exampleTool) Capabilities() tool.Capabilities { return tool.Capabilities{RequestOnly: true} }

// Run always fails: the tool only edits requests.
func (t *exampleTool) Run(context.Context, *tool.Call) (*tool.Result, error) {
	return nil, fmt.Errorf("%s runs before each model call and cannot be called", t.Declaration().Name)
}

// EditRequest appends the examples if the user's message has text.
func (t *exampleTool) EditRequest(_ context.Context, call *tool.Call, req *model.Request) error {
	if call.Origin.UserText == "" {
		return nil
	}
	if req.Model == "" || strings.Contains(req.Model, "gemini-2") {
		req.AppendNote(t.plain)
	} else {
		req.AppendNote(t.tagged)
	}
	return nil
}

const (
	examplesStart = "<EXAMPLES>\nBegin few-shot\nThe following are examples of user queries and model responses using the available tools.\n\n"
	examplesEnd   = "End few-shot\n<EXAMPLES>"
)

// formatExamples returns the examples' block. Tagged marks the fences around calls and responses.
func formatExamples(all []exampleConfig, tagged bool) string {
	var b strings.Builder
	b.WriteString(examplesStart)
	for i, e := range all {
		fmt.Fprintf(&b, "EXAMPLE %d:\nBegin example\n", i+1)
		role := writeExample(&b, e.Input, "", tagged)
		for _, c := range e.Output {
			role = writeExample(&b, c, role, tagged)
		}
		b.WriteString("End example\n\n")
	}
	b.WriteString(examplesEnd)
	return b.String()
}

// writeExample writes a content, with its role if it differs from the previous content's, and
// returns its role.
func writeExample(b *strings.Builder, c *genai.Content, before string, tagged bool) string {
	role := "user"
	if c.Role == genai.RoleModel {
		role = genai.RoleModel
	}
	if role != before {
		fmt.Fprintf(b, "[%s]\n", role)
	}
	callFence, responseFence := "```", "```"
	if tagged {
		callFence, responseFence = "```tool_code", "```tool_outputs"
	}
	for _, p := range c.Parts {
		switch {
		case p.FunctionCall != nil:
			fmt.Fprintf(b, "%s\n%s(%s)\n```\n", callFence, p.FunctionCall.Name, formatPythonArgs(p.FunctionCall.Args))
		case p.FunctionResponse != nil:
			fmt.Fprintf(b, "%s\n%s\n```\n", responseFence, formatJSON(p.FunctionResponse.Response))
		case p.Text != "":
			b.WriteString(p.Text + "\n")
		}
	}
	return role
}

// formatPythonArgs returns a call's arguments in Python, sorted by name.
func formatPythonArgs(args map[string]any) string {
	parts := make([]string, 0, len(args))
	for _, name := range slices.Sorted(maps.Keys(args)) {
		parts = append(parts, name+"="+formatPython(args[name]))
	}
	return strings.Join(parts, ", ")
}

// formatPython returns a value as a Python literal. As in ADK, quotes in strings are not
// escaped.
func formatPython(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case string:
		return "'" + v + "'"
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = formatPython(item)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		parts := make([]string, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, "'"+key+"': "+formatPython(v[key]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(v)
}

func formatJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
