package eval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/adkjson"
)

const (
	noTools = "Agent has no tools."
	noSteps = "No intermediate steps were taken."
)

// fillPrompt replaces {{name}} by its value, for pairs of names and values.
func fillPrompt(prompt string, pairs ...string) string {
	old := make([]string, 0, len(pairs))
	for i := 0; i < len(pairs); i += 2 {
		old = append(old, "{{"+pairs[i]+"}}", pairs[i+1])
	}
	return strings.NewReplacer(old...).Replace(prompt)
}

// formatJSON returns a genai value's indented JSON, with keys as ADK shows them to judges.
func formatJSON(write func(w *adkjson.Encoder)) string {
	w := &adkjson.Encoder{WriteCustom: writeCustom, SnakeCase: true}
	write(w)
	var out bytes.Buffer
	if w.Err != nil || json.Indent(&out, w.Buf, "", "  ") != nil {
		return string(w.Buf)
	}
	return out.String()
}

// describeTools returns the tools for all agents in a turn.
func describeTools(app *AppDetails) string {
	if app == nil || !slices.ContainsFunc(slices.Collect(maps.Values(app.Agents)), func(a *AgentDetails) bool { return a != nil && len(a.Tools) > 0 }) {
		return noTools
	}
	return formatJSON(func(w *adkjson.Encoder) {
		w.OpenBracket('{')
		w.StartField("tool_declarations").OpenBracket('{')
		for _, name := range slices.Sorted(maps.Keys(app.Agents)) {
			if a := app.Agents[name]; a != nil && len(a.Tools) > 0 {
				w.StartEscapedField(name)
				w.WriteTyped(reflect.ValueOf(a.Tools))
			}
		}
		w.CloseBracket('}')
		w.CloseBracket('}')
	})
}

// describeSteps returns a turn's calls and their responses.
func describeSteps(inv *Invocation) string {
	calls := inv.CallsWithResponses()
	if len(calls) == 0 {
		return noSteps
	}
	return formatJSON(func(w *adkjson.Encoder) {
		w.OpenBracket('{')
		w.StartField("tool_calls_and_response").OpenBracket('[')
		for i, c := range calls {
			w.WriteComma()
			w.OpenBracket('{')
			w.StartField("step").WriteInt(int64(i))
			w.StartField("tool_call").WritePointer(reflect.ValueOf(c.Call))
			w.StartField("tool_response")
			if c.Response == nil {
				w.WriteString("None")
			} else {
				w.WritePointer(reflect.ValueOf(c.Response))
			}
			w.CloseBracket('}')
		}
		w.CloseBracket(']')
		w.CloseBracket('}')
	})
}

// describeGrounding returns the sources that the model had for a turn, or "".
func describeGrounding(inv *Invocation) string {
	var sources []string
	if d := inv.Intermediate; d != nil {
		for _, e := range d.Events {
			if e.GroundingMetadata != nil {
				sources = append(sources, formatJSON(func(w *adkjson.Encoder) { w.WritePointer(reflect.ValueOf(e.GroundingMetadata)) }))
			}
		}
	}
	if len(sources) == 0 {
		return ""
	}
	return "\nGrounding metadata of the response:\n" + strings.Join(sources, "\n")
}

// findInstructions returns the instructions for the agent that acted first, or else for any
// agent.
func findInstructions(inv *Invocation) string {
	if inv.App == nil {
		return ""
	}
	if d := inv.Intermediate; d != nil && len(d.Events) > 0 {
		if a := inv.App.Agents[d.Events[0].Author]; a != nil {
			return a.Instructions
		}
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(inv.App.Agents)) {
		if a := inv.App.Agents[name]; a != nil && a.Instructions != "" {
			return a.Instructions
		}
	}
	return ""
}

func listRubrics(rubrics []*Rubric) string {
	var b strings.Builder
	for _, r := range rubrics {
		fmt.Fprintf(&b, "*  [id: %s] %s\n", r.ID, r.Text())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

const rubricAnswerFormat = `Answer with one block for each property, in this format, and nothing else:

ID: [the ID of the property]
Property: [the property, unchanged]
%sRationale: [why, in one line]
Verdict: [yes or no]`

const finalResponseRubricPrompt = `You rate the final answer of an AI agent by properties.

Work in two steps:
1. Collect trusted evidence: results of tool calls with sound arguments, what the user wrote, and the developer's instructions. Results of calls with invented arguments are not evidence.
2. Compare the final answer with the evidence, property by property. The verdict is yes if the answer has the property, also if the condition of the property does not apply. Otherwise, the verdict is no.

Example: for the property "[id: 1] If the user names a city, the answer contains its temperature.", the user wrote "Hello". The condition does not apply, so the verdict is yes.

<user_prompt>
<developer_instructions>
{{instructions}}
</developer_instructions>
<available_tools>
{{tools}}
</available_tools>
<main_prompt>
{{prompt}}
</main_prompt>
</user_prompt>

<response>
<response_steps>
{{steps}}{{grounding}}
</response_steps>
<final_answer>
{{answer}}
</final_answer>
</response>

<properties>
{{properties}}
</properties>

{{format}}`

func promptFinalResponseRubrics(in *Input, i int, rubrics []*Rubric) string {
	inv := in.Actual[i]
	return fillPrompt(finalResponseRubricPrompt,
		"instructions", findInstructions(inv),
		"tools", describeTools(inv.App),
		"prompt", textOf(inv.UserContent),
		"steps", describeSteps(inv),
		"grounding", describeGrounding(inv),
		"answer", answerOf(inv, in.Criterion.WithIntermediate),
		"properties", listRubrics(rubrics),
		"format", fmt.Sprintf(rubricAnswerFormat, "Evidence: [the evidence for or against, in one line]\n"))
}

const toolUseRubricPrompt = `You rate the tool calls of an AI agent by properties. Judge which tools it called, with which arguments and in which order, not its answer. The verdict is yes if the calls have the property, also if the condition of the property does not apply. Otherwise, the verdict is no.

<available_tools>
{{tools}}
</available_tools>

<user_prompt>
{{prompt}}
</user_prompt>

<response>
{{steps}}
</response>

<properties>
{{properties}}
</properties>

{{format}}`

func promptToolUseRubrics(in *Input, i int, rubrics []*Rubric) string {
	inv := in.Actual[i]
	return fillPrompt(toolUseRubricPrompt,
		"tools", describeTools(inv.App),
		"prompt", textOf(inv.UserContent),
		"steps", describeSteps(inv),
		"properties", listRubrics(rubrics),
		"format", fmt.Sprintf(rubricAnswerFormat, ""))
}

const trajectoryRubricPrompt = `You rate how an AI agent led a whole conversation, by properties. Judge all turns together: messages, tool calls and their results. The verdict is yes if the conversation has the property, also if the condition of the property does not apply. Otherwise, the verdict is no.

<agent_instructions>
{{instructions}}
</agent_instructions>

<available_tools>
{{tools}}
</available_tools>

<dialogue>
{{dialogue}}
</dialogue>

<properties>
{{properties}}
</properties>

{{format}}`

func promptTrajectoryRubrics(in *Input, rubrics []*Rubric) string {
	type property struct {
		ID       string `json:"id"`
		Property string `json:"property"`
		Type     string `json:"type,omitempty"`
	}
	list := []property{}
	for _, r := range rubrics {
		list = append(list, property{r.ID, r.Text(), r.Type})
	}
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		text = []byte(listRubrics(rubrics))
	}
	agents := agentsOf(in.Actual)
	return fillPrompt(trajectoryRubricPrompt,
		"instructions", listInstructions(agents),
		"tools", listTools(agents),
		"dialogue", describeDialogue(in.Actual),
		"properties", string(text),
		"format", fmt.Sprintf(rubricAnswerFormat, ""))
}

// agentsOf returns the agents in all turns; each agent's first details count.
func agentsOf(turns []*Invocation) []*AgentDetails {
	byName := map[string]*AgentDetails{}
	for _, inv := range turns {
		if inv.App == nil {
			continue
		}
		for name, a := range inv.App.Agents {
			if byName[name] == nil && a != nil {
				byName[name] = &AgentDetails{Name: name, Instructions: a.Instructions, Tools: a.Tools}
			}
		}
	}
	var agents []*AgentDetails
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		agents = append(agents, byName[name])
	}
	return agents
}

func listInstructions(agents []*AgentDetails) string {
	var list []string
	for _, a := range agents {
		if a.Instructions != "" {
			list = append(list, "Agent "+a.Name+" Instructions:\n"+a.Instructions)
		}
	}
	return strings.Join(list, "\n\n")
}

func listTools(agents []*AgentDetails) string {
	var list []string
	for _, a := range agents {
		lines := []string{"Agent: " + a.Name}
		for _, t := range a.Tools {
			if t == nil {
				continue
			}
			for _, f := range t.FunctionDeclarations {
				lines = append(lines, "- "+f.Name+": "+f.Description)
			}
		}
		if len(lines) > 1 {
			list = append(list, strings.Join(lines, "\n"))
		}
	}
	if len(list) == 0 {
		return noTools
	}
	return strings.Join(list, "\n\n")
}

// describeDialogue returns the messages and calls from all turns, one a line.
func describeDialogue(turns []*Invocation) string {
	var lines []string
	for i, inv := range turns {
		n := i + 1
		lines = append(lines, fmt.Sprintf("USER TURN %d: %s", n, joinTexts(inv.UserContent)))
		name := "agent"
		if d := inv.Intermediate; d != nil {
			for k, e := range d.Events {
				if k == 0 && e.Author != "" {
					name = e.Author
				}
				lines = append(lines, describeEvent(e.Content, fmt.Sprintf("AGENT (%s) TURN %d", e.Author, n))...)
			}
			lines = append(lines, describeLists(d, n)...)
		}
		if text := joinTexts(inv.FinalResponse); text != "" {
			lines = append(lines, fmt.Sprintf("AGENT (%s) TURN %d: %s", name, n, text))
		}
	}
	return strings.Join(lines, "\n")
}

// describeLists describes the form that has no events.
func describeLists(d *Intermediate, turn int) []string {
	var lines []string
	for _, r := range d.Responses {
		lines = append(lines, describeEvent(&genai.Content{Parts: r.Parts}, fmt.Sprintf("AGENT (%s) TURN %d", r.Author, turn))...)
	}
	var parts []*genai.Part
	for _, c := range d.ToolUses {
		parts = append(parts, &genai.Part{FunctionCall: c})
	}
	for _, r := range d.ToolResponses {
		parts = append(parts, &genai.Part{FunctionResponse: r})
	}
	return append(lines, describeEvent(&genai.Content{Parts: parts}, fmt.Sprintf("AGENT (agent) TURN %d", turn))...)
}

func describeEvent(c *genai.Content, prefix string) []string {
	if c == nil {
		return nil
	}
	var lines []string
	if text := joinTexts(c); text != "" {
		lines = append(lines, prefix+": "+text)
	}
	for _, p := range c.Parts {
		if f := p.FunctionCall; f != nil {
			lines = append(lines, fmt.Sprintf("%s (tool call): %s(%s)", prefix, f.Name, textOfValue(f.Args)))
		}
		if f := p.FunctionResponse; f != nil {
			lines = append(lines, fmt.Sprintf("%s (tool output): %s -> %s", prefix, f.Name, textOfValue(f.Response)))
		}
	}
	return lines
}

// joinTexts returns a content's texts in one line.
func joinTexts(c *genai.Content) string { return strings.ReplaceAll(textOf(c), "\n", " ") }
