package runtime

import (
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// The tags that a plan-react model writes before each part of its response.
const (
	planningTag    = "/*PLANNING*/"
	replanningTag  = "/*REPLANNING*/"
	reasoningTag   = "/*REASONING*/"
	actionTag      = "/*ACTION*/"
	finalAnswerTag = "/*FINAL_ANSWER*/"
)

const planReactText = `Work on the request in this order: make a plan, carry it out with your tools, then answer. Rely on the results of tools rather than on what you remember. Put a mark before each part of what you write:
` + planningTag + ` before the plan: a numbered list of steps that together cover all of the request. Each step uses one or more of the tools you have, and no other tools.
` + actionTag + ` before the calls of tools. Use only the tools and parameters that are declared, and do not write code in place of a call.
` + reasoningTag + ` between calls, before a short account of what is known so far and what the next step is.
` + replanningTag + ` before a new plan, when the first one turns out not to work. Then follow the new one.
` + finalAnswerTag + ` before the final answer, which is exact and has the requested form. If your tools cannot answer the request, explain why, and ask for what is missing.
Do not call a tool for information that the conversation already contains. When the request is not clear, ask before you act.`

// planningInstruction returns the instruction about planning.
func (p *Planner) planningInstruction() string {
	if p == nil || !p.PlanReact {
		return ""
	}
	return planReactText
}

// prepareRequest applies the planner to a request. For a plan-react model it converts earlier
// steps' thoughts to plain text; otherwise the model would not see its plan.
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

// withoutThoughtMarks does not change contents, which other requests share.
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

// newPlanText returns the text of a new response, or nil without plans.
func (p *Planner) newPlanText() *planText {
	if p == nil || !p.PlanReact {
		return nil
	}
	return &planText{}
}

// separatePlan marks the plan in a response as thoughts (adk-python
// planners/plan_re_act_planner.py process_planning_response).
func (t *planText) separatePlan(resp *model.Response) *model.Response {
	if t == nil || resp == nil || resp.Content == nil {
		return resp
	}
	separated := *resp
	separated.Content = &genai.Content{Role: resp.Content.Role}
	if resp.Partial {
		separated.Content.Parts = t.markThoughts(resp.Content.Parts)
	} else {
		*t = planText{}
		separated.Content.Parts = splitPlan(resp.Content.Parts)
	}
	return &separated
}

// splitPlan returns a whole response's parts: texts with the plan marked as thoughts, up to the
// first group of consecutive calls. Text after these calls is dropped, because the model has not
// seen their results yet. Calls without a name are dropped unless nothing else is left.
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

// planText is the text received so far of a response that may be streamed.
type planText struct{ text string }

// markThoughts marks the parts, or a part's beginning, that belong to the plan as thoughts.
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

// thoughtLength returns the length of the plan in text: up to the last tag of a final answer,
// otherwise all of the text if it begins with a tag. An incomplete tag counts as one, because the
// rest may still be streamed.
func thoughtLength(text string) int {
	if i := strings.LastIndex(text, finalAnswerTag); i >= 0 {
		return i + len(finalAnswerTag)
	}
	for _, tag := range []string{planningTag, replanningTag, reasoningTag, actionTag, finalAnswerTag} {
		if strings.HasPrefix(text, tag) || strings.HasPrefix(tag, text) {
			return len(text)
		}
	}
	return 0
}
