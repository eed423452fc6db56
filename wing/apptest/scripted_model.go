package apptest

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"agenthost/internal/turn"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
)

// scriptsByAgent holds a test's scripts by agent; the key "" is for all other agents.
type scriptsByAgent map[string]*script

// script is one agent's script.
type script struct {
	*provider.Script
	// ordered replays the answers in one order across all sessions.
	ordered bool
}

// scriptedModel replaces all models during a test: it answers each agent from that
// agent's script and records the requests.
type scriptedModel struct {
	models  map[string]model.LLM
	ordered map[string]bool

	mu       sync.Mutex
	requests []turn.Request
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

// Name returns the model's name in events.
func (c *scriptedModel) Name() string { return "test" }

// RunsCode is true, so that agents may request code execution; scripts contain its
// result as parts.
func (c *scriptedModel) RunsCode() bool { return true }

// Generate answers from the requesting agent's script; see [model.LLM].
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
				"no scripted answers for agent %s: add model: {%s: [{text: …}]}", req.Origin.Agent, req.Origin.Agent)})
		}
	}
	if c.ordered[agent] {
		// An agent called as a tool has a new session for each call, but one answer list.
		own := *req
		own.Origin.UserID, own.Origin.SessionID = "", ""
		req = &own
	}
	return llm.Generate(ctx, req)
}

func (c *scriptedModel) recordRequest(req *model.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, turn.NewRequest(req))
}

// requestsSince returns the requests after the first n.
func (c *scriptedModel) requestsSince(n int) []turn.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests[n:len(c.requests):len(c.requests)]
}
