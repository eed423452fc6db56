package runtime

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"agenthost/internal/safe"
	"agenthost/pkg/session"
)

// SetListWorker makes the agent, as a [Workflow] node, run once for each element of its input, at
// most limit runs at the same time; 0 means any number. Its output is the list of their outputs.
// Call it before the agent becomes part of an app (adk-python workflow/_base_node.py
// parallel_worker).
func (b *Base) SetListWorker(limit int) { b.worker = &listWorker{limit} }

// listWorker is the setting for a node that runs for each element of a list.
type listWorker struct{ limit int }

// workerOf returns an agent's setting, or nil.
func workerOf(agent Agent) *listWorker {
	if a, ok := agent.(baseAgent); ok {
		return a.base().worker
	}
	return nil
}

// checkWorker rejects a list worker that is not a workflow node.
func checkWorker(agent Agent, parent *node) error {
	if workerOf(agent) == nil {
		return nil
	}
	if parent != nil {
		if _, ok := parent.agent.(*Workflow); ok {
			return nil
		}
	}
	return fmt.Errorf("parallel_worker of %s requires a Workflow node", agent.Name())
}

// listRun is one run of a list worker: a node run for each element.
type listRun struct {
	*workflowRun
	child    *Invocation
	task     *nodeOutcome
	outputs  []any
	failures []error
	paused   bool
	mu       sync.Mutex
}

// runList runs a node for each element of its input, on separate branches, and yields the outputs
// as a list.
func (w *workflowRun) runList(ctx context.Context, child *Invocation, o *nodeOutcome, s *eventHandoff) {
	if child.frame != nil {
		for _, ev := range child.frame.prior.allEvents() {
			if ev.Output != nil { // the list was stored before the invocation was interrupted
				o.recordEvent(ev)
				return
			}
		}
	}
	items := listItems(child.Input())
	if n := w.listed.Add(int64(len(items))); n > maxNodeRuns {
		s.sendEvent(nil, failf(CodeNodeRunsLimit, errNodeRuns, "workflow %s exceeded %d node executions: %s has a list of %d elements", w.AgentName, maxNodeRuns, child.node.agent.Name(), len(items)))
		return
	}
	if n := w.inv.run.limits.listed.Add(int64(len(items))); n > maxListed {
		s.sendEvent(nil, failf(CodeNodeRunsLimit, errNodeRuns, "the lists of the invocation exceeded %d elements: %s has a list of %d elements", maxListed, child.node.agent.Name(), len(items)))
		return
	}
	l := &listRun{workflowRun: w, child: child, task: o, outputs: make([]any, len(items)), failures: make([]error, len(items))}
	l.runItems(ctx, items)
	if failure := l.firstFailure(); failure != nil {
		s.sendEvent(nil, failure)
		return
	}
	if o.paused = l.paused; l.paused || ctx.Err() != nil {
		return
	}
	ev := child.NewEvent()
	ev.Output = l.outputs
	if key := outputKeyOf(child.node.agent); key != "" {
		ev.Actions.SetState(key, l.outputs)
	}
	o.recordEvent(ev)
	w.markOutput(o, child, ev)
	s.sendEvent(ev, nil)
}

// maxListed is the maximum number of elements in all of an invocation's lists: workflows can be
// list workers in other workflows, so that a limit for each does not limit all.
const maxListed = 10 * maxNodeRuns

// listItems returns the elements of an input. A single value is a list of one.
func listItems(input any) []any {
	switch v := session.Normalize(input).(type) {
	case nil:
		return nil
	case []any:
		return v
	default:
		return []any{v}
	}
}

// runItems runs all elements, and waits for their end. A failure ends the others.
func (l *listRun) runItems(ctx context.Context, items []any) {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	limit := workerOf(l.child.node.agent).limit
	if limit <= 0 || limit > len(items) {
		limit = len(items)
	}
	slots := make(chan struct{}, limit)
	var running sync.WaitGroup
	for i, item := range items {
		slots <- struct{}{}
		if inner.Err() != nil {
			break
		}
		running.Go(func() {
			defer func() { <-slots }()
			defer safe.Recover(func(p *safe.Panic) { l.recordFailure(i, l.child.panicFailure(p)) })
			if l.runItem(inner, i, item); l.failures[i] != nil {
				cancel()
			}
		})
	}
	running.Wait()
}

// runItem runs the node for one element.
func (l *listRun) runItem(ctx context.Context, i int, item any) {
	name := l.child.node.agent.Name()
	one := &nodeOutcome{task: task{node: l.task.node, nth: i + 1, lane: l.task.lane, input: &nodeValue{item}}}
	inv := l.child.newChildInvocation(l.child.node, joinBranch(l.child.branch, name, strconv.Itoa(i+1)), i+1)
	s := &eventHandoff{out: l.events}
	l.runNode(ctx, l.child, inv, one, func(ev *session.Event, err error) bool {
		if err != nil {
			l.recordFailure(i, err)
			return false
		}
		one.recordEvent(ev)
		inv.markOutput(ev)
		return s.sendEvent(ev, nil)
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outputs[i] = l.nodeOutput(one)
	l.paused = l.paused || one.paused
}

func (l *listRun) recordFailure(i int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures[i] = err
}

// firstFailure returns the failure of the first element that failed by itself.
func (l *listRun) firstFailure() error {
	var canceled error
	for _, err := range l.failures {
		switch {
		case err == nil:
		case AsRunError(err).Code == CodeCanceled || errors.Is(err, context.Canceled):
			canceled = err
		default:
			return err
		}
	}
	return canceled
}

// outputKeyOf returns the state key that receives a node's output.
func outputKeyOf(agent Agent) string {
	switch a := agent.(type) {
	case *FunctionNode:
		return a.opts.OutputKey
	case *ToolNode:
		return a.opts.OutputKey
	case *LLMAgent:
		return a.opts.OutputKey
	}
	return ""
}
