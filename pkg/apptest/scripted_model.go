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

// answers are the scripts of a test by agent; that of "" is for all others.
type answers map[string]*script

// script is one of them.
type script struct {
	*provider.Script
	// ordered says that the answers are given in order, whatever the session.
	ordered bool
}

// asked is one request that a model of the app got.
type asked struct {
	agent, instruction string
	tools              []any
}

// cast is the one model of a run: it answers for every agent from the agent's
// script, and remembers what it was asked.
type cast struct {
	models map[string]model.LLM
	order  map[string]bool

	mu    sync.Mutex
	asked []asked
}

func newCast(a answers) *cast {
	c := &cast{models: map[string]model.LLM{}, order: map[string]bool{}}
	for agent, s := range a {
		c.models[agent] = provider.NewScripted(s.Script, &provider.ScriptedOptions{
			Name: "test", Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
		})
		c.order[agent] = s.ordered
	}
	return c
}

// Name is that of the model in events.
func (c *cast) Name() string { return "test" }

// RunsCode lets agents ask for it: what a script says of code stands in its
// parts.
func (c *cast) RunsCode() bool { return true }

// Generate answers from the script of the agent that asks; see [model.LLM].
func (c *cast) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	c.note(req)
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
	if c.order[agent] {
		// An agent that is called as a tool has a session for each call, and its
		// answers are one list.
		own := *req
		own.Origin.UserID, own.Origin.SessionID = "", ""
		req = &own
	}
	return llm.Generate(ctx, req)
}

func (c *cast) note(req *model.Request) {
	a := asked{agent: req.Origin.Agent, instruction: req.Instruction(), tools: []any{}}
	if req.Config != nil {
		for _, t := range req.Config.Tools {
			for _, f := range t.FunctionDeclarations {
				a.tools = append(a.tools, f.Name)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, a)
}

// since are the requests behind the first n.
func (c *cast) since(n int) []asked {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked[n:len(c.asked):len(c.asked)]
}
