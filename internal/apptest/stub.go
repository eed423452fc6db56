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

// toolStub is one response of a stub, at its position in the test file.
type toolStub struct {
	stubConfig
	pos spec.Pos
}

// defaultToolTimeout is the reported timeout of a tool without its own.
const defaultToolTimeout = 30 * time.Second

// stubSet are the stubs of one run.
type stubSet struct {
	tools map[string][]*toolStub

	mu   sync.Mutex
	used map[*toolStub]int
}

// replaceTool wraps a tool with its stubs. Tools without stubs run without network
// access.
func (p *stubSet) replaceTool(t tool.Tool) tool.Tool {
	all, named := p.tools[t.Declaration().Name]
	if _, agent := t.(*runtime.AgentTool); agent && !named {
		return t
	}
	return &stubbedTool{Tool: t, stubs: p, candidates: all}
}

// reserveStub returns the first stub that matches the arguments and has calls left,
// and counts the call.
func (p *stubSet) reserveStub(all []*toolStub, args map[string]any) *toolStub {
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

// stubbedTool is a tool with stubs.
type stubbedTool struct {
	tool.Tool
	stubs      *stubSet
	candidates []*toolStub
}

// Capabilities returns the capabilities of the tool itself, so that it still requires
// confirmation.
func (p *stubbedTool) Capabilities() tool.Capabilities { return tool.CapabilitiesOf(p.Tool) }

// EditRequest calls EditRequest of the tool itself; see [tool.RequestEditor].
func (p *stubbedTool) EditRequest(ctx context.Context, call *tool.Call, req *model.Request) error {
	if e, ok := p.Tool.(tool.RequestEditor); ok {
		return e.EditRequest(ctx, call, req)
	}
	return nil
}

// Run responds with the first stub that matches the call. If none does, it runs the
// tool.
func (p *stubbedTool) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	if len(p.candidates) > 0 {
		if _, err := tool.CheckArgs(p.Declaration(), call.Args); err != nil {
			return nil, err
		}
	}
	if s := p.stubs.reserveStub(p.candidates, call.Args); s != nil {
		return s.buildResult(p, call)
	}
	if _, agent := p.Tool.(*runtime.AgentTool); agent {
		return nil, &tool.EndError{Err: fmt.Errorf("no stub of %s matches this call: all are used up or have other arguments", call.Name)}
	}
	result, err := p.Tool.Run(ctx, call)
	if out := (*networkError)(nil); errors.As(err, &out) {
		return nil, &tool.EndError{Err: fmt.Errorf("%w: add a stub, tools: {%s: {return: {…}}}", out, call.Name)}
	}
	return result, err
}

func (s *toolStub) buildResult(p *stubbedTool, call *tool.Call) (*tool.Result, error) {
	for k, v := range s.State {
		call.State.Set(k, v)
	}
	switch {
	case s.Fail == "timeout":
		timeoutErr := &tool.TimeoutError{Tool: call.Name, Timeout: p.Capabilities().Timeout}
		if timeoutErr.Timeout == 0 {
			timeoutErr.Timeout = defaultToolTimeout
		}
		return nil, timeoutErr
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

// blockedTransport rejects all requests: tests have no network access.
type blockedTransport struct{}

// RoundTrip returns an error; see [http.RoundTripper].
func (blockedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	return nil, &networkError{req.URL.Host}
}

type networkError struct{ host string }

// Error contains the host but not the URL, which may contain a key.
func (e *networkError) Error() string {
	return "tests have no network access, request to " + e.host + " rejected"
}
