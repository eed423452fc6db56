package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"sync"

	"agenthost/internal/number"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// A Replayer replays the recordings for runs whose state delta selects them with [ReplayKey].
// All other runs call their models and tools. Several goroutines may use it.
type Replayer struct {
	// Root is the folder whose cases may be replayed.
	Root string
}

// A RunFunc runs a request, as [runtime.Host.Run].
type RunFunc func(ctx context.Context, req *runtime.RunRequest) runtime.Events

// Run runs a request. A difference from the recordings ends it with an error.
func (r *Replayer) Run(ctx context.Context, run RunFunc, req *runtime.RunRequest) runtime.Events {
	config, ok := req.StateDelta[ReplayKey]
	if !ok {
		return run(ctx, req)
	}
	return func(yield func(*session.Event, error) bool) {
		t, err := r.openTurn(config)
		if err != nil {
			yield(nil, &runtime.RunError{Code: runtime.CodeInvalidRequest, Message: err.Error()})
			return
		}
		ctx, cancel := context.WithCancel(context.WithValue(ctx, turnKey{}, t))
		defer cancel()
		for ev, err := range run(ctx, req) {
			if failure := t.readFailure(); failure != nil {
				yield(nil, failure)
				return
			}
			if ev != nil {
				t.order.markStored(ev)
			}
			if !yield(ev, err) {
				return
			}
		}
		if failure := t.readFailure(); failure != nil {
			yield(nil, failure)
		}
	}
}

// openTurn reads the recordings that a config selects.
func (r *Replayer) openTurn(config any) (*turn, error) {
	m, _ := config.(map[string]any)
	dir, _ := m["dir"].(string)
	index, isNumber := asInt(m["user_message_index"])
	mode, _ := m["streaming_mode"].(string)
	if mode == "" {
		mode = string(ModeNone)
	}
	if dir == "" || !isNumber || mode != string(ModeNone) && mode != string(ModeSSE) {
		return nil, fmt.Errorf("%s requires dir, user_message_index and streaming_mode none or sse", ReplayKey)
	}
	dir, err := r.resolveDir(dir)
	if err != nil {
		return nil, err
	}
	recordings, err := readRecordings(dir, Mode(mode))
	if err != nil {
		// The client receives the error, without the host's folders.
		return nil, errors.New(strings.ReplaceAll(err.Error(), filepath.Dir(dir)+string(filepath.Separator), ""))
	}
	recorded, _ := readSession(dir, Mode(mode)) // the comparison reports errors
	t := &turn{message: index, order: newEventOrder(recorded, index), nextModel: map[string]int{}}
	for _, rec := range recordings {
		switch {
		case rec.Message != index:
		case rec.Model != nil:
			t.models = append(t.models, rec)
		default:
			t.tools = append(t.tools, rec)
		}
	}
	t.used = make([]bool, len(t.tools))
	return t, nil
}

var errOutsideRoot = errors.New("the recordings folder is not below the --replay-recordings folder")

// resolveDir returns the real path to a folder below the root.
func (r *Replayer) resolveDir(dir string) (string, error) {
	root, err := filepath.EvalSymlinks(r.Root)
	if err == nil {
		root, err = filepath.Abs(root)
	}
	if err != nil {
		return "", fmt.Errorf("reading the recordings folder: %w", err)
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(root, dir)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || !isBelow(root, real) {
		return "", errOutsideRoot // do not report which folders exist
	}
	return real, nil
}

func asInt(v any) (int, bool) {
	switch v := v.(type) {
	case float64:
		return int(v), v == float64(int(v))
	case int64:
		return int(v), true
	case int:
		return v, true
	case json.Number:
		n, err := v.Int64()
		return int(n), err == nil
	}
	return 0, false
}

type turnKey struct{}

// A turn is one message's replay. Model calls take their agent's recordings in order, tool
// calls those with their name and arguments.
type turn struct {
	message int
	models  []*recording
	tools   []*recording
	order   *eventOrder

	mu        sync.Mutex
	nextModel map[string]int
	// used are the tool recordings that answered a call.
	used    []bool
	failure *runtime.RunError
}

func (t *turn) readFailure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure == nil {
		return nil
	}
	return t.failure
}

// recordFailure records the first difference, and returns it.
func (t *turn) recordFailure(format string, args ...any) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure == nil {
		t.failure = &runtime.RunError{Code: runtime.CodeModelFailed, Message: fmt.Sprintf(format, args...)}
	}
	return t.failure
}

// reserveModel returns the index of an agent's next recording, and its number among the
// agent's recordings. Found is negative if all are used; number is then how many there are.
func (t *turn) reserveModel(agent string) (found, number int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := t.nextModel[agent]
	for i, rec := range t.models {
		if rec.Agent != agent {
			continue
		}
		if number == next {
			t.nextModel[agent]++
			return i, number
		}
		number++
	}
	return -1, number
}

// CallModel answers with a call's recording; see [runtime.Replay].
func (r *Replayer) CallModel(ctx context.Context, call *runtime.ModelCall) iter.Seq2[*model.Response, error] {
	t, ok := ctx.Value(turnKey{}).(*turn)
	if !ok {
		return call.Model.Generate(ctx, call.Request)
	}
	return func(yield func(*model.Response, error) bool) {
		agent := call.Request.Origin.Agent
		i, number := t.reserveModel(agent)
		if i < 0 {
			yield(nil, t.recordFailure("Runtime sent more LLM requests than expected for agent '%s' at user_message_index %d. Expected %d, but got request at index %d", agent, t.message, number, number))
			return
		}
		diff, err := compareRequests(t.models[i].Model.Request, call)
		if err != nil || diff != "" {
			yield(nil, t.recordFailure("LLM request mismatch in turn %d for agent '%s' (index %d):\n%s%s", t.message, agent, number, diff, errorText(err)))
			return
		}
		t.order.waitForTurn(ctx, agent)
		for _, text := range t.models[i].Model.Responses {
			var ev session.Event // in either spelling
			if err := ev.UnmarshalJSON(text); err != nil {
				yield(nil, t.recordFailure("reading a recorded response from agent '%s': %v", agent, err))
				return
			}
			if !yield(&ev.Response, nil) {
				return
			}
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// RunTool runs a tool for its effects on the session, and answers with its recording; see
// [runtime.Replay]. An agent as a tool only runs if its model calls were recorded.
func (r *Replayer) RunTool(ctx context.Context, x *tool.Execution) (*tool.Result, error) {
	t, ok := ctx.Value(turnKey{}).(*turn)
	if !ok {
		return x.Run(ctx)
	}
	rec, err := t.reserveTool(x.Call)
	if err != nil {
		return nil, &tool.EndError{Err: err}
	}
	if !runtime.IsAgentTool(x.Tool) || t.hasModelCalls(x.Call.Name) {
		if _, err := x.Run(ctx); err != nil {
			return nil, &tool.EndError{Err: t.recordFailure("tool %s failed during the replay: %v", x.Call.Name, err)}
		}
	}
	if rec.Tool.Response.Response == nil {
		return nil, nil // a later message has the response
	}
	t.order.waitForTurn(ctx, x.Call.Origin.Agent)
	return &tool.Result{Response: rec.Tool.Response.Response}, nil
}

func (t *turn) hasModelCalls(agent string) bool {
	for _, rec := range t.models {
		if rec.Agent == agent {
			return true
		}
	}
	return false
}

// reserveTool returns the first recording with a call's name and arguments.
func (t *turn) reserveTool(call *tool.Call) (*recording, error) {
	args := asJSON(call.Args)
	t.mu.Lock()
	var first *recording
	count := 0
	for i, rec := range t.tools {
		if rec.Agent != call.Origin.Agent {
			continue
		}
		count++
		if t.used[i] {
			continue
		}
		if rec.Tool.Call.Name == call.Name && equalArgs(rec.Tool.Call.Args, args) {
			t.used[i] = true
			t.mu.Unlock()
			return rec, nil
		}
		if first == nil {
			first = rec
		}
	}
	t.mu.Unlock()
	agent := call.Origin.Agent
	switch {
	case first == nil:
		return nil, t.recordFailure("Runtime sent more tool requests than expected for agent '%s' at user_message_index %d. Expected %d, but got request at index %d", agent, t.message, count, count)
	case first.Tool.Call.Name != call.Name:
		return nil, t.recordFailure("Tool name mismatch in turn %d for agent '%s': recorded: '%s', current: '%s'", t.message, agent, first.Tool.Call.Name, call.Name)
	}
	return nil, t.recordFailure("Tool args mismatch in turn %d for agent '%s':\n%s", t.message, agent, diffValues("recorded args", "actual args", first.Tool.Call.Args, args))
}

func equalArgs(a, b map[string]any) bool {
	return len(a) == 0 && len(b) == 0 || number.Equal(a, b)
}
