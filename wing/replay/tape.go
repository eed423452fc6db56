package replay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"google.golang.org/genai"

	"agenthost/internal/toolhttp"
	"agenthost/internal/turn"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// A tape has a turn's recorded answers. Model calls take their agent's answers in order; tool calls
// take the answer to the call with their ID, else to one with their name and arguments, else the next one
// to their name. It is safe for concurrent use.
type tape struct {
	mu     sync.Mutex
	models map[string][]*model.Response
	tools  []*toolAnswer
	// lacks is the first call that the record has no answer for.
	lacks string
}

// A toolAnswer is a tool's recorded answer.
type toolAnswer struct {
	id, name, args string
	// response is nil while a long-running call has none.
	response map[string]any
	// state is what the event with the answer wrote. An event has one delta for all its tools; the first
	// one has it.
	state map[string]any
	used  bool
}

// recordTape returns a turn's tape; history has the calls that earlier turns made.
func recordTape(t *turn.Recorded, history []*session.Event) *tape {
	p := &tape{models: map[string][]*model.Response{}}
	calls := map[string]*genai.FunctionCall{}
	answered := map[string]bool{}
	for _, ev := range history {
		for _, c := range ev.Calls() {
			calls[c.ID] = c
		}
	}
	for _, ev := range t.Events {
		for _, r := range ev.Responses() {
			answered[r.ID] = true
		}
	}
	for _, ev := range t.Events {
		for _, c := range ev.Calls() {
			calls[c.ID] = c
			if slices.Contains(ev.LongRunningToolIDs, c.ID) && !answered[c.ID] {
				p.addTool(c, nil, nil)
			}
		}
		state := ev.Actions.StateDelta
		for _, r := range ev.Responses() {
			if c := calls[r.ID]; c != nil && ev.Actions.RequestedToolConfirmations[r.ID] == nil && !isInterim(ev, r) {
				p.addTool(c, r.Response, state)
				state = nil
			}
		}
		isRequest := len(ev.Calls()) > 0 && runtime.IsRequest(ev, ev.Calls()[0])
		if len(ev.Responses()) == 0 && !isRequest && turn.IsModelAnswer(ev) {
			p.models[ev.NodeName()] = append(p.models[ev.NodeName()], &ev.Response)
		}
	}
	return p
}

// isInterim reports whether a tool stored a response during its call: what a server reports about its
// work differs each time.
func isInterim(ev *session.Event, r *genai.FunctionResponse) bool {
	return ev.Author != session.UserAuthor && model.IsInterim(r)
}

func (p *tape) addTool(c *genai.FunctionCall, response, state map[string]any) {
	p.tools = append(p.tools, &toolAnswer{id: c.ID, name: c.Name, args: canonicalText(c.Args), response: response, state: state})
}

// recordMiss notes a call without an answer, and returns the error for it.
func (p *tape) recordMiss(format string, args ...any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := fmt.Errorf(format, args...)
	if p.lacks == "" {
		p.lacks = err.Error()
	}
	return err
}

// nextAnswer returns the next answer from an agent's model.
func (p *tape) nextAnswer(agent string) (*model.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.models[agent]
	if len(all) == 0 {
		return nil, fmt.Errorf("the record has no further answer from the model of agent %s", agent)
	}
	p.models[agent] = all[1:]
	return all[0], nil
}

// findTool returns the answer to a call, or nil.
func (p *tape) findTool(call *tool.Call) *toolAnswer {
	args := canonicalText(call.Args)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, matches := range []func(*toolAnswer) bool{
		func(a *toolAnswer) bool { return a.id != "" && a.id == call.ID && a.name == call.Name },
		func(a *toolAnswer) bool { return a.name == call.Name && a.args == args },
		func(a *toolAnswer) bool { return a.name == call.Name },
	} {
		for _, a := range p.tools {
			if !a.used && matches(a) {
				a.used = true
				return a
			}
		}
	}
	return nil
}

type tapeKey struct{}

// tapeOf returns the turn's tape.
func tapeOf(ctx context.Context) *tape {
	p, _ := ctx.Value(tapeKey{}).(*tape)
	return p
}

// A recordedModel answers all models from the tape of their turn.
type recordedModel struct{}

// Name returns the model's name in events.
func (recordedModel) Name() string { return "replay" }

// RunsCode is true, because the record has the results of code.
func (recordedModel) RunsCode() bool { return true }

// Generate answers from the turn's tape; see [model.LLM].
func (recordedModel) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		p := tapeOf(ctx)
		if p == nil {
			yield(nil, errors.New("a model call outside of a turn is not recorded"))
			return
		}
		resp, err := p.nextAnswer(req.Origin.Agent)
		if err != nil {
			yield(nil, &model.Error{Code: http.StatusNotFound, Status: "NOT_FOUND", Message: p.recordMiss("%w", err).Error()})
			return
		}
		if resp.ErrorCode != "" && resp.Content == nil {
			yield(nil, &model.Error{Code: http.StatusInternalServerError, Status: resp.ErrorCode, Message: resp.ErrorMessage})
			return
		}
		own := *resp
		if own.Content != nil { // callbacks may change it
			own.Content = &genai.Content{Role: own.Content.Role, Parts: slices.Clone(own.Content.Parts)}
			for i, part := range own.Content.Parts {
				p := *part
				if p.FunctionCall != nil {
					call := *p.FunctionCall
					call.Args = maps.Clone(call.Args)
					p.FunctionCall = &call
				}
				own.Content.Parts[i] = &p
			}
		}
		yield(&own, nil)
	}
}

// A toolPlayer answers tool calls from the tape of their turn.
type toolPlayer struct {
	// session are the tools that use only the session: they run.
	session []string
	// granted are the tools that run if the tape has no answer.
	granted []string
}

// RunTool runs a tool that uses only the session, and answers others from the tape; see
// [tool.Interceptor].
func (p *toolPlayer) RunTool(ctx context.Context, x *tool.Execution) (*tool.Result, error) {
	record := tapeOf(ctx)
	if record == nil {
		return nil, errors.New("a tool call outside of a turn is not recorded")
	}
	if slices.Contains(p.session, x.Call.Name) {
		result, err := x.Run(ctx)
		if !errors.As(err, new(*toolhttp.BlockedError)) {
			return result, err
		}
	}
	a := record.findTool(x.Call)
	if a == nil && slices.Contains(p.granted, x.Call.Name) {
		return x.Run(ctx)
	}
	if a == nil {
		return nil, &tool.EndError{Err: record.recordMiss("the record has no answer from tool %s", x.Call.Name)}
	}
	writes := runtime.IsAgentTool(x.Tool) || tool.CapabilitiesOf(x.Tool).WritesState
	for key, v := range a.state {
		// Callbacks write their keys again. Keys for ADK's tools, such as skills, are not theirs.
		if writes || strings.HasPrefix(key, "_adk_") {
			x.Call.State.Set(key, v)
		}
	}
	if a.response == nil {
		return nil, nil
	}
	if text, ok := a.response["error"].(string); ok && len(a.response) == 1 {
		return nil, errors.New(text)
	}
	return &tool.Result{Response: a.response}, nil
}
