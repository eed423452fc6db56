package optimize

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agenthost/pkg/model"
	"agenthost/wing/evaluation/eval"
)

const reflectPrompt = `You improve the instruction of an AI agent. Below are the current instruction, and conversations of the agent with the scores that tests gave them.

Find out why conversations failed: what the instruction does not demand, or demands wrongly. Then write a better instruction. Keep what works, and state general rules instead of the answers to these conversations. Add facts that the conversations show and that the agent needs.
`

const keepPrompt = `
These placeholders are replaced before the agent runs. The new instruction contains each of them exactly as it is, and no others: `

const answerPrompt = "\nAnswer with the whole new instruction between two lines with ```, and nothing else.\n"

// The limits for a prompt, in bytes.
const (
	maxValueBytes   = 2000
	maxExampleBytes = 20_000
	maxPromptBytes  = 400_000
)

// buildPrompt shows a candidate's instruction and its results on a batch, as ADK's sampler
// does: for each turn the messages, the calls with their responses and the scores.
func buildPrompt(c *candidate, batch []example) string {
	var b strings.Builder
	b.WriteString(reflectPrompt)
	fmt.Fprintf(&b, "\nCurrent instruction:\n```\n%s\n```\n", strings.TrimRight(c.instruction, "\n"))
	for i, ex := range batch {
		text := describeOutcome(c.results[ex])
		if b.Len()+len(text) > maxPromptBytes {
			break
		}
		fmt.Fprintf(&b, "\nConversation %d (%s):\n%s", i+1, ex.formatName(), text)
	}
	if kept := listKept(c.instruction); len(kept) > 0 {
		b.WriteString(keepPrompt + strings.Join(kept, " ") + "\n")
	}
	b.WriteString(answerPrompt)
	return b.String()
}

// describeOutcome describes a case's first run that did not pass, or else its last one.
func describeOutcome(o *eval.Outcome) string {
	i := slices.IndexFunc(o.Runs, func(r *eval.CaseResult) bool { return r.Status != eval.Passed })
	if i < 0 {
		i = len(o.Runs) - 1
	}
	run := o.Runs[i]
	var b strings.Builder
	fmt.Fprintf(&b, "result: %s\n", run.Status)
	for n, t := range run.Turns {
		describeTurn(&b, n+1, t)
	}
	for _, m := range run.Overall {
		if m.Status != eval.Informational {
			fmt.Fprintf(&b, "score of %s: %s\n", m.Metric, describeScore(m))
		}
	}
	for _, n := range run.Notes {
		if n.Reason != "" {
			fmt.Fprintf(&b, "reason: %s\n", limitText(n.Reason, maxValueBytes))
		}
	}
	return limitText(b.String(), maxExampleBytes) + "\n"
}

func describeTurn(b *strings.Builder, n int, t *eval.TurnResult) {
	if t.Actual == nil {
		return
	}
	fmt.Fprintf(b, "turn %d\n  user: %s\n", n, limitText(model.TextOf(t.Actual.UserContent), maxValueBytes))
	for _, call := range t.Actual.CallsWithResponses() {
		response := "none"
		if call.Response != nil {
			response = formatJSON(call.Response.Response)
		}
		fmt.Fprintf(b, "  call: %s(%s) returned %s\n", call.Call.Name, formatJSON(call.Call.Args), response)
	}
	fmt.Fprintf(b, "  agent: %s\n", limitText(model.TextOf(t.Actual.FinalResponse), maxValueBytes))
	if e := t.Expected; e != nil && e.FinalResponse != nil {
		fmt.Fprintf(b, "  expected: %s\n", limitText(model.TextOf(e.FinalResponse), maxValueBytes))
	}
	if e := t.Expected; e != nil && e.Intermediate != nil {
		for _, call := range e.Calls() {
			fmt.Fprintf(b, "  expected call: %s(%s)\n", call.Name, formatJSON(call.Args))
		}
	}
}

func describeScore(m *eval.MetricResult) string {
	text := "not evaluated"
	if m.Score != nil {
		text = fmt.Sprintf("%.3g", *m.Score)
	}
	if t := m.RequiredScore(); t != nil {
		text += fmt.Sprintf(", required %.3g", *t)
	}
	if m.Details != nil {
		for _, r := range m.Details.RubricScores {
			if r.Rationale != "" {
				text += fmt.Sprintf("; rubric %s: %s", r.RubricID, limitText(r.Rationale, maxValueBytes))
			}
		}
	}
	return text
}

func formatJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return limitText(string(b), maxValueBytes)
}

func limitText(text string, limit int) string {
	if len(text) > limit {
		return strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}
