package turn

import (
	"time"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
)

// NewEnv declares the variables for expressions about a turn; see docs/testing.md. state has
// sample values for the typed keys.
func NewEnv(state map[string]any) template.Env {
	if state == nil {
		state = map[string]any{}
	}
	call := template.Env{"agent": "", "name": "", "args": map[string]any{}, "response": nil}
	confirmation := template.Env{"tool": "", "args": map[string]any{}, "hint": "", "payload": nil}
	return template.Env{
		"text": "", "agent": "", "texts": []any{template.Env{"agent": "", "text": ""}},
		"calls": []any{call}, "state": state, "artifacts": []any{""},
		"error": template.Env{"code": "", "message": ""},
		"pending": template.Env{
			"confirmation": confirmation, "confirmations": []any{confirmation}, "calls": []any{call},
		},
		"usage": template.Env{"llm_calls": 0, "tool_calls": 0, "prompt_tokens": 0, "output_tokens": 0, "total_tokens": 0, "tool_latency": 0.5},
		"events": []any{template.Env{
			"author": "", "text": "", "thought": "", "branch": "", "calls": []any{call}, "responses": []any{template.Env{"name": "", "response": nil}},
			"state": map[string]any{}, "transfer": "", "escalate": false, "final": false, "error": "", "metadata": map[string]any{},
		}},
		"requests": []any{template.Env{"agent": "", "instruction": "", "tools": []any{""}}},
	}
}

// An Outcome is a turn's result and the session after it.
type Outcome struct {
	Events    []*session.Event
	Session   *session.Session
	Artifacts []string
	// Requests are the requests to the app's models.
	Requests []Request
	// Err is the turn's error; nil if it succeeded.
	Err *runtime.RunError
	// ToolLatency is the latency of tool stubs; see package toolstub.
	ToolLatency time.Duration
}

// A Request is one to a model.
type Request struct {
	Agent, Instruction string
	// Tools are the names of declared tools.
	Tools []any
}

// NewRequest returns the part of a request that expressions see.
func NewRequest(req *model.Request) Request {
	r := Request{Agent: req.Origin.Agent, Instruction: req.Instruction(), Tools: []any{}}
	if req.Config != nil {
		for _, t := range req.Config.Tools {
			for _, f := range t.FunctionDeclarations {
				r.Tools = append(r.Tools, f.Name)
			}
		}
	}
	return r
}

// Vars returns the values for the variables that [NewEnv] declares.
func (o *Outcome) Vars() map[string]any {
	calls := buildCallVars(o.Events)
	texts, text, agent := []any{}, "", ""
	for _, ev := range o.Events {
		if eventText := ev.ResultText(); eventText != "" {
			text, agent = eventText, ev.Author
			texts = append(texts, map[string]any{"agent": agent, "text": text})
		}
	}
	vars := map[string]any{
		"text": text, "texts": texts, "agent": agent, "calls": calls,
		"events": buildEventVars(o.Events), "state": o.Session.State.All(), "artifacts": convertToAnyList(o.Artifacts),
		"pending": buildPendingVars(o.Session), "usage": o.buildUsageVars(len(calls)), "requests": buildRequestVars(o.Requests), "error": nil,
	}
	if o.Err != nil {
		vars["error"] = map[string]any{"code": o.Err.Code, "message": o.Err.Message}
	}
	return vars
}

func (o *Outcome) buildUsageVars(calls int) map[string]any {
	var prompt, output, total int64
	for _, ev := range o.Events {
		if u := ev.UsageMetadata; u != nil {
			prompt, output, total = prompt+int64(u.PromptTokenCount), output+int64(u.CandidatesTokenCount), total+int64(u.TotalTokenCount)
		}
	}
	return map[string]any{
		"llm_calls": len(o.Requests), "tool_calls": calls, "prompt_tokens": prompt, "output_tokens": output, "total_tokens": total,
		"tool_latency": o.ToolLatency.Seconds(),
	}
}

func convertToAnyList(texts []string) []any {
	all := make([]any, len(texts))
	for i, s := range texts {
		all[i] = s
	}
	return all
}

func buildRequestVars(requests []Request) []any {
	all := make([]any, len(requests))
	for i, r := range requests {
		all[i] = map[string]any{"agent": r.Agent, "instruction": r.Instruction, "tools": r.Tools}
	}
	return all
}

// buildCallVars returns agent calls with their responses, in order, without the
// requests to the user.
func buildCallVars(events []*session.Event) []any {
	responses := map[string]any{}
	for _, ev := range events {
		for _, r := range ev.Responses() {
			responses[r.ID] = r.Response
		}
	}
	all := []any{}
	for _, ev := range events {
		for _, c := range ev.Calls() {
			if !runtime.IsRequest(ev, c) {
				all = append(all, map[string]any{"agent": ev.Author, "name": c.Name, "args": EmptyIfNil(c.Args), "response": responses[c.ID]})
			}
		}
	}
	return all
}

// EmptyIfNil returns an empty map for nil: expressions read its keys.
func EmptyIfNil(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

func buildEventVars(events []*session.Event) []any {
	all := make([]any, len(events))
	for i, ev := range events {
		responses := []any{}
		for _, r := range ev.Responses() {
			responses = append(responses, map[string]any{"name": r.Name, "response": r.Response})
		}
		all[i] = map[string]any{
			"author": ev.Author, "text": ev.Text(), "thought": joinThoughts(ev), "branch": ev.Branch,
			"calls": buildCallVars([]*session.Event{ev}), "responses": responses,
			"state": EmptyIfNil(ev.Actions.StateDelta), "transfer": ev.Actions.TransferToAgent, "escalate": ev.Actions.Escalate,
			"final": ev.IsFinal(), "error": ev.ErrorCode, "metadata": EmptyIfNil(ev.CustomMetadata),
		}
	}
	return all
}

func joinThoughts(ev *session.Event) string {
	thought := ""
	if ev.Content != nil {
		for _, p := range ev.Content.Parts {
			if p.Thought {
				thought += p.Text
			}
		}
	}
	return thought
}
