package apptest

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"agenthost/pkg/model"
	"agenthost/pkg/provider"
)

// scriptsByAgent are the scripts of a test by agent; that of "" is for all others.
type scriptsByAgent map[string]*script

// script is one of them.
type script struct {
	*provider.Script
	// ordered says that the answers are given in order, whatever the session.
	ordered bool
}

// modelRequest is one request that a model of the app got.
type modelRequest struct {
	agent, instruction string
	tools              []any
}

// scriptedModel is the one model of a run: it answers for every agent from the agent's
// script, and remembers what it was asked.
type scriptedModel struct {
	models  map[string]model.LLM
	ordered map[string]bool

	mu       sync.Mutex
	requests []modelRequest
}

func newScriptedModel(a scriptsByAgent) *scriptedModel {
	c := &scriptedModel{models: map[string]model.LLM{}, ordered: map[string]bool{}}
	for agent, s := range a {
		c.models[agent] = provider.NewScripted(s.Script, &provider.ScriptedOptions{
			Name: "test", Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
		})
		c.ordered[agent] = s.ordered
	}
	return c
}

// Name is that of the model in events.
func (c *scriptedModel) Name() string { return "test" }

// RunsCode lets agents ask for it: what a script says of code stands in its
// parts.
func (c *scriptedModel) RunsCode() bool { return true }

// Generate answers from the script of the agent that asks; see [model.LLM].
func (c *scriptedModel) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	c.recordRequest(req)
	agent := req.Origin.Agent
	llm, ok := c.models[agent]
	if !ok {
		agent = ""
		llm, ok = c.models[agent]
	}
	if !ok {
		return func(yield func(*model.Response, error) bool) {
			yield(nil, &model.Error{Code: 404, Status: "NOT_FOUND", Message: fmt.Sprintf(
				"the test has no answers for agent %s: add model: {%s: [{text: …}]}", req.Origin.Agent, req.Origin.Agent)})
		}
	}
	if c.ordered[agent] {
		// An agent that is called as a tool has a session for each call, and its
		// answers are one list.
		own := *req
		own.Origin.UserID, own.Origin.SessionID = "", ""
		req = &own
	}
	return llm.Generate(ctx, req)
}

func (c *scriptedModel) recordRequest(req *model.Request) {
	a := modelRequest{agent: req.Origin.Agent, instruction: req.Instruction(), tools: []any{}}
	if req.Config != nil {
		for _, t := range req.Config.Tools {
			for _, f := range t.FunctionDeclarations {
				a.tools = append(a.tools, f.Name)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, a)
}

// requestsSince are the requests behind the first n.
func (c *scriptedModel) requestsSince(n int) []modelRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests[n:len(c.requests):len(c.requests)]
}
