package apptest

import (
	"context"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// expectation is one expression that must be true.
type expectation struct {
	src   spec.Expr
	when  *template.Expr
	parts []namedExpr
}

type namedExpr struct {
	text string
	expr *template.Expr
}

// newExpectationEnv declares the variables of expectations; see docs/testing.md. state has
// sample values of the typed keys.
func newExpectationEnv(state map[string]any) template.Env {
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
		"usage": template.Env{"llm_calls": 0, "tool_calls": 0, "prompt_tokens": 0, "output_tokens": 0, "total_tokens": 0},
		"events": []any{template.Env{
			"author": "", "text": "", "thought": "", "branch": "", "calls": []any{call}, "responses": []any{template.Env{"name": "", "response": nil}},
			"state": map[string]any{}, "transfer": "", "escalate": false, "final": false, "error": "", "metadata": map[string]any{},
		}},
		"requests": []any{template.Env{"agent": "", "instruction": "", "tools": []any{""}}},
	}
}

// turnOutcome is the result of one turn and the session after it.
type turnOutcome struct {
	events    []*session.Event
	session   *session.Session
	artifacts []string
	requests  []modelRequest
	err       *runtime.RunError
}

// buildExprVars returns the values of the variables that newExpectationEnv declares.
func (o *turnOutcome) buildExprVars() map[string]any {
	calls := buildCallVars(o.events)
	texts, text, agent := []any{}, "", ""
	for _, ev := range o.events {
		if eventText := ev.Text(); eventText != "" {
			text, agent = eventText, ev.Author
			texts = append(texts, map[string]any{"agent": agent, "text": text})
		}
	}
	vars := map[string]any{
		"text": text, "texts": texts, "agent": agent, "calls": calls,
		"events": buildEventVars(o.events), "state": o.session.State.All(), "artifacts": convertToAnyList(o.artifacts),
		"pending": buildPendingVars(o.session), "usage": o.buildUsageVars(len(calls)), "requests": buildRequestVars(o.requests), "error": nil,
	}
	if o.err != nil {
		vars["error"] = map[string]any{"code": o.err.Code, "message": o.err.Message}
	}
	return vars
}

func (o *turnOutcome) buildUsageVars(calls int) map[string]any {
	var prompt, output, total int64
	for _, ev := range o.events {
		if u := ev.UsageMetadata; u != nil {
			prompt, output, total = prompt+int64(u.PromptTokenCount), output+int64(u.CandidatesTokenCount), total+int64(u.TotalTokenCount)
		}
	}
	return map[string]any{
		"llm_calls": len(o.requests), "tool_calls": calls, "prompt_tokens": prompt, "output_tokens": output, "total_tokens": total,
	}
}

func convertToAnyList(texts []string) []any {
	all := make([]any, len(texts))
	for i, s := range texts {
		all[i] = s
	}
	return all
}

func buildRequestVars(requests []modelRequest) []any {
	all := make([]any, len(requests))
	for i, r := range requests {
		all[i] = map[string]any{"agent": r.agent, "instruction": r.instruction, "tools": r.tools}
	}
	return all
}

// buildCallVars returns the calls of agents with their responses, in order, without
// the requests to the user.
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
				all = append(all, map[string]any{"agent": ev.Author, "name": c.Name, "args": orEmptyMap(c.Args), "response": responses[c.ID]})
			}
		}
	}
	return all
}

func orEmptyMap(m map[string]any) map[string]any {
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
			"state": orEmptyMap(ev.Actions.StateDelta), "transfer": ev.Actions.TransferToAgent, "escalate": ev.Actions.Escalate,
			"final": ev.IsFinal(), "error": ev.ErrorCode, "metadata": orEmptyMap(ev.CustomMetadata),
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

// checkTurn checks the expectation after a turn; nil means that it holds.
func (e *expectation) checkTurn(ctx context.Context, vars map[string]any) *Failure {
	met, err := e.when.Bool(ctx, vars)
	if met {
		return nil
	}
	f := &Failure{Expression: e.src.Value, Diagnostic: e.src.Errorf(0, "test-failed", "%s is false", e.src.Value)}
	if err != nil {
		f.Diagnostic = e.src.Errorf(0, "test-failed", "cannot evaluate %s: %s", e.src.Value, err)
	}
	for _, part := range e.parts {
		if v, err := part.expr.Eval(ctx, vars); err == nil {
			f.Values = append(f.Values, Value{part.text, v})
		}
	}
	return f
}
