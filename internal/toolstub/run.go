package toolstub

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"agenthost/internal/number"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// RunOptions are what a conversation's stubs use.
type RunOptions struct {
	// Wait waits for a latency; nil waits on the machine's clock.
	Wait func(ctx context.Context, d time.Duration) error
	// Ask returns the model's answer to a prompt; required by [Set.Simulates].
	Ask func(ctx context.Context, prompt string) (string, error)
}

// A Run answers the calls in one conversation. It is safe for concurrent use.
type Run struct {
	set     *Set
	wait    func(ctx context.Context, d time.Duration) error
	service *simulatedService

	mu      sync.Mutex
	used    map[*stub]int
	random  map[*stub]*rand.Rand
	latency time.Duration
}

// Begin returns the run for a conversation, in which no stub has been used.
func (s *Set) Begin(o *RunOptions) *Run {
	if s == nil {
		s = &Set{}
	}
	r := &Run{set: s, wait: o.Wait, used: map[*stub]int{}, random: map[*stub]*rand.Rand{}}
	if r.wait == nil {
		r.wait = waitFor
	}
	if s.Simulates() {
		r.service = newSimulatedService(s.simulation, o.Ask)
	}
	return r
}

func waitFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Latency returns the latency so far, whether or not the run waited for it.
func (r *Run) Latency() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latency
}

// defaultToolTimeout is the reported timeout for a tool without its own.
const defaultToolTimeout = 30 * time.Second

// RunTool answers a call with the first stub that matches it, as a [tool.Interceptor]. If
// none does, it runs the tool. A call with invalid arguments is rejected as by the tool.
func (r *Run) RunTool(ctx context.Context, x *tool.Execution) (*tool.Result, error) {
	candidates := r.set.tools[x.Call.Name]
	if len(candidates) == 0 {
		return x.Run(ctx)
	}
	if _, err := declare.CheckArgs(ctx, x.Tool.Declaration(), x.Call.Args); err != nil {
		return nil, err
	}
	s := r.reserveStub(candidates, x.Call.Args)
	if s == nil {
		return x.Run(ctx)
	}
	if err := r.waitLatency(ctx, s, x); err != nil {
		return nil, err
	}
	for k, v := range s.State {
		x.Call.State.Set(k, v)
	}
	if s.Simulate {
		return r.service.answerCall(ctx, x)
	}
	return s.buildResult(x)
}

// reserveStub returns the first stub that matches the arguments and has calls left, and
// counts the call. A random number is drawn only for a stub that matches.
func (r *Run) reserveStub(all []*stub, args map[string]any) *stub {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range all {
		if s.Times > 0 && r.used[s] >= s.Times || !s.matchesArgs(args) || !r.drawsStub(s) {
			continue
		}
		r.used[s]++
		r.latency += time.Duration(s.Latency)
		return s
	}
	return nil
}

// drawsStub decides by a stub's probability. The generator for a seed is PCG from
// math/rand/v2 with the seed and 0, whose sequence Go guarantees. Each stub has its own,
// which draws one number from 0 to 1 for each matching call; ADK seeds again for each call,
// so that a stub would answer either all calls or none.
func (r *Run) drawsStub(s *stub) bool {
	if s.Probability == nil || *s.Probability >= 1 {
		return true
	}
	if s.Seed == nil {
		return rand.Float64() < *s.Probability
	}
	if r.random[s] == nil {
		r.random[s] = rand.New(rand.NewPCG(uint64(*s.Seed), 0))
	}
	return r.random[s].Float64() < *s.Probability
}

// matchesArgs compares arguments as JSON values.
func (s *stub) matchesArgs(args map[string]any) bool {
	args, _ = session.Normalize(args).(map[string]any)
	if s.Args != nil && !number.EqualInPython(s.Args, args, 0) {
		return false
	}
	for name, want := range s.MatchArgs {
		if got, ok := args[name]; !ok || !number.EqualInPython(want, got, 0) {
			return false
		}
	}
	for name, pattern := range s.patterns {
		if got, ok := args[name]; !ok || !pattern.MatchString(template.String(got)) {
			return false
		}
	}
	return true
}

// waitLatency waits as long as the stub takes. A tool with a shorter timeout times out.
func (r *Run) waitLatency(ctx context.Context, s *stub, x *tool.Execution) error {
	latency := time.Duration(s.Latency)
	if latency <= 0 {
		return nil
	}
	timeout := tool.CapabilitiesOf(x.Tool).Timeout
	if timeout <= 0 || latency < timeout {
		return r.wait(ctx, latency)
	}
	if err := r.wait(ctx, timeout); err != nil {
		return err
	}
	return &tool.TimeoutError{Tool: x.Call.Name, Timeout: timeout}
}

func (s *stub) buildResult(x *tool.Execution) (*tool.Result, error) {
	switch {
	case s.Fail == "timeout":
		timeoutErr := &tool.TimeoutError{Tool: x.Call.Name, Timeout: tool.CapabilitiesOf(x.Tool).Timeout}
		if timeoutErr.Timeout == 0 {
			timeoutErr.Timeout = defaultToolTimeout
		}
		return nil, timeoutErr
	case s.Fail != "":
		return nil, errors.New(s.Fail)
	case s.Error != nil:
		return &tool.Result{Response: map[string]any{"error_code": *s.Error.Code, "error_message": s.Error.Message}}, nil
	}
	if s.Return.IsNull() {
		return nil, nil
	}
	switch v := s.Return.Any().(type) {
	case map[string]any:
		return &tool.Result{Response: v}, nil
	default:
		return &tool.Result{Response: map[string]any{"result": v}}, nil
	}
}

// endRun returns an error that ends the conversation: its cause is the simulation, which the
// agent cannot handle.
func endRun(name string, err error) error {
	return &tool.EndError{Err: fmt.Errorf("simulating tool %s: %w", name, err)}
}
