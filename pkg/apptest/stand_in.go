package apptest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync"
	"time"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// standIn is one answer in the place of a tool.
type standIn struct {
	standInConfig
	pos spec.Pos
}

// defaultToolTimeout is what a tool without a timeout of its own seems to have had.
const defaultToolTimeout = 30 * time.Second

// standIns are what stands in for tools during one run.
type standIns struct {
	tools map[string][]*standIn

	mu   sync.Mutex
	used map[*standIn]int
}

// replaceTool puts a stand-in before a tool. Tools without one do their work, but
// do not reach out.
func (p *standIns) replaceTool(t tool.Tool) tool.Tool {
	all, named := p.tools[t.Declaration().Name]
	if _, agent := t.(*runtime.AgentTool); agent && !named {
		return t
	}
	return &replacedTool{Tool: t, standIns: p, candidates: all}
}

// reserve finds the first stand-in that answers these arguments and is not used
// up.
func (p *standIns) reserve(all []*standIn, args map[string]any) *standIn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range all {
		if s.Args != nil && !reflect.DeepEqual(session.Normalize(s.Args), session.Normalize(args)) {
			continue
		}
		if s.Times == 0 || p.used[s] < s.Times {
			p.used[s]++
			return s
		}
	}
	return nil
}

// replacedTool is a tool in a test.
type replacedTool struct {
	tool.Tool
	standIns   *standIns
	candidates []*standIn
}

// Traits are those of the tool itself, so that it asks a person as ever.
func (p *replacedTool) Traits() tool.Traits { return tool.TraitsOf(p.Tool) }

// EditRequest is that of the tool itself; see [tool.RequestEditor].
func (p *replacedTool) EditRequest(ctx context.Context, call *tool.Call, req *model.Request) error {
	if e, ok := p.Tool.(tool.RequestEditor); ok {
		return e.EditRequest(ctx, call, req)
	}
	return nil
}

// Run answers from the stand-ins, and when they have nothing to say to the
// call, lets the tool do its work.
func (p *replacedTool) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	if len(p.candidates) > 0 {
		if _, err := tool.CheckArgs(p.Declaration(), call.Args); err != nil {
			return nil, err
		}
	}
	if s := p.standIns.reserve(p.candidates, call.Args); s != nil {
		return s.respond(p, call)
	}
	if _, agent := p.Tool.(*runtime.AgentTool); agent {
		return nil, &tool.EndError{Err: fmt.Errorf("what stands in for %s has no answer for this call: its answers are used up, or are for other arguments", call.Name)}
	}
	result, err := p.Tool.Run(ctx, call)
	if out := (*networkError)(nil); errors.As(err, &out) {
		return nil, &tool.EndError{Err: fmt.Errorf("%w: say what the tool answers, with tools: {%s: {return: {…}}}", out, call.Name)}
	}
	return result, err
}

func (s *standIn) respond(p *replacedTool, call *tool.Call) (*tool.Result, error) {
	for k, v := range s.State {
		call.State.Set(k, v)
	}
	switch {
	case s.Fail == "timeout":
		late := &tool.TimeoutError{Tool: call.Name, Timeout: p.Traits().Timeout}
		if late.Timeout == 0 {
			late.Timeout = defaultToolTimeout
		}
		return nil, late
	case s.Fail != "":
		return nil, errors.New(s.Fail)
	}
	switch v := s.Return.Any().(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return &tool.Result{Response: v}, nil
	default:
		return &tool.Result{Response: map[string]any{"result": v}}, nil
	}
}

// blockedTransport is the transport of tests.
type blockedTransport struct{}

// RoundTrip refuses; see [http.RoundTripper].
func (blockedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	return nil, &networkError{req.URL.Host}
}

type networkError struct{ host string }

// Error names the host, but not the address, which may hold a key.
func (e *networkError) Error() string {
	return "a test reaches no network, and this asks " + e.host
}
