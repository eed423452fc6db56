package runtime

import (
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// A Planner has a model think before it acts. At most one field says how; the
// zero value and nil do nothing.
type Planner struct {
	// PlanReact asks the model for a plan, in words: any model can do it. The
	// plan and what is thought on the way become thoughts, what follows the
	// mark of the final answer is the answer.
	PlanReact bool
	// Thinking has the model think by itself; it takes the place of the
	// thinking_config of the agent's settings.
	Thinking *genai.ThinkingConfig
}

// The marks that a plan-react model writes before each part of what it says.
const (
	planningTag    = "/*PLANNING*/"
	replanningTag  = "/*REPLANNING*/"
	reasoningTag   = "/*REASONING*/"
	actionTag      = "/*ACTION*/"
	finalAnswerTag = "/*FINAL_ANSWER*/"
)

func thoughtTags() []string { return []string{planningTag, replanningTag, reasoningTag, actionTag} }

const planReactText = `Work on the request in this order: make a plan, carry it out with your tools, then answer. Rely on what the tools tell rather than on what you remember. Put a mark before each part of what you write:
` + planningTag + ` before the plan: a numbered list of steps that together cover all of the request. Each step uses one or more of the tools you have, and no other tools.
` + actionTag + ` before the calls of tools. Use only the tools and parameters that are declared, and do not write code in place of a call.
` + reasoningTag + ` between calls, before a short account of what is known so far and what the next step is.
` + replanningTag + ` before a new plan, when the first one turns out not to work. Then follow the new one.
` + finalAnswerTag + ` before the final answer: exact, and in the form that was asked for. If the request cannot be answered with your tools, say why, and ask for what is missing.
Do not call a tool for what the conversation tells already. When the request is not clear, ask before you act.`

// planningInstruction returns the instruction about planning.
func (p *Planner) planningInstruction() string {
	if p == nil || !p.PlanReact {
		return ""
	}
	return planReactText
}

// prepareRequest makes a request one of the planner. Thoughts of earlier steps are
// shown as plain text to a plan-react model, which else would not see its plan.
func (p *Planner) prepareRequest(req *model.Request) {
	if p == nil {
		return
	}
	if p.Thinking != nil {
		req.Config.ThinkingConfig = p.Thinking
	}
	if p.PlanReact {
		req.Contents = withoutThoughtMarks(req.Contents)
	}
}

// withoutThoughtMarks leaves the contents alone, which other requests share.
func withoutThoughtMarks(contents []*genai.Content) []*genai.Content {
	isThought := func(p *genai.Part) bool { return p.Thought }
	out := slices.Clone(contents)
	for i, c := range out {
		if !slices.ContainsFunc(c.Parts, isThought) {
			continue
		}
		plain := &genai.Content{Role: c.Role, Parts: slices.Clone(c.Parts)}
		for j, p := range plain.Parts {
			if p.Thought {
				unmarked := *p
				unmarked.Thought = false
				plain.Parts[j] = &unmarked
			}
		}
		out[i] = plain
	}
	return out
}

// separatePlan tells plan from answer in what the model says (adk-python
// planners/plan_re_act_planner.py process_planning_response).
func (p *Planner) separatePlan(yield responseFunc) responseFunc {
	if p == nil || !p.PlanReact {
		return yield
	}
	var streamed planText
	return func(resp *model.Response, err error) bool {
		if resp != nil && resp.Content != nil {
			separated := *resp
			separated.Content = &genai.Content{Role: resp.Content.Role}
			if resp.Partial {
				separated.Content.Parts = streamed.markThoughts(resp.Content.Parts)
			} else {
				streamed = planText{}
				separated.Content.Parts = splitPlan(resp.Content.Parts)
			}
			resp = &separated
		}
		return yield(resp, err)
	}
}

// splitPlan are the parts of a whole answer: texts with their thoughts marked, up
// to the first calls that stand together. What the model says behind them is
// made up: it has not seen their answers yet. Calls without a name are dropped,
// unless nothing else is left.
func splitPlan(parts []*genai.Part) []*genai.Part {
	var kept []*genai.Part
	for i, p := range parts {
		if p.FunctionCall == nil {
			kept = append(kept, new(planText).markThoughts([]*genai.Part{p})...)
			continue
		}
		if p.FunctionCall.Name == "" {
			continue
		}
		n := 1
		for i+n < len(parts) && parts[i+n].FunctionCall != nil {
			n++
		}
		kept = append(kept, parts[i:i+n]...)
		break
	}
	if len(kept) == 0 {
		return parts
	}
	return kept
}

// planText is the text received so far, which may be streamed.
type planText struct{ text string }

// markThoughts makes thoughts of the parts, or of the beginning of a part, that belong
// to the plan.
func (t *planText) markThoughts(parts []*genai.Part) []*genai.Part {
	var marked []*genai.Part
	for _, p := range parts {
		if p.Text == "" || p.Thought {
			marked = append(marked, p)
			continue
		}
		from := len(t.text)
		t.text += p.Text
		thought, answer := *p, *p
		at := min(max(thoughtLength(t.text)-from, 0), len(p.Text))
		thought.Text, thought.Thought, answer.Text = p.Text[:at], true, p.Text[at:]
		if answer.Text != "" {
			// The signature belongs to the end of the text.
			thought.ThoughtSignature = nil
		}
		for _, q := range []*genai.Part{&thought, &answer} {
			if q.Text != "" {
				marked = append(marked, q)
			}
		}
	}
	return marked
}

// thoughtLength is how much of a text is thought: all up to the last mark of a
// final answer, else all of a text that begins with a mark. The beginning of a
// mark counts as one: the rest is still to come.
func thoughtLength(text string) int {
	if i := strings.LastIndex(text, finalAnswerTag); i >= 0 {
		return i + len(finalAnswerTag)
	}
	for _, tag := range append(thoughtTags(), finalAnswerTag) {
		if strings.HasPrefix(text, tag) || strings.HasPrefix(tag, text) {
			return len(text)
		}
	}
	return 0
}
