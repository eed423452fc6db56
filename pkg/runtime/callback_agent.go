package runtime

import (
	"context"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/session"
)

// hookAfterAgent is the name of the callbacks after an agent.
const hookAfterAgent = "after_agent"

// lastOwnEvent returns the last event of the agent, or of one below it, in
// this run, or nil.
func (inv *Invocation) lastOwnEvent() *session.Event {
	for _, ev := range slices.Backward(inv.run.sess.Events()) {
		switch {
		case ev.InvocationID != inv.run.id || ev.Author == session.UserAuthor:
			return nil
		case ev.Content != nil && onBranch(ev.Branch, inv.branch) && inv.node.findNode(ev.Author) != nil:
			return ev
		}
	}
	return nil
}

// runWithCallbacks runs an agent with its callbacks (adk-python
// agents/base_agent.py run_async).
func (inv *Invocation) runWithCallbacks(ctx context.Context, yield func(*session.Event, error) bool) bool {
	h := inv.node.hooks
	answered, ok := inv.runAgentCallbacks(ctx, "before_agent", h.beforeAgent, yield)
	if answered || !ok {
		return ok
	}
	if !inv.runAgentBody(ctx, yield) {
		return false
	}
	if inv.hasEnded() {
		return true
	}
	_, ok = inv.runAgentCallbacks(ctx, hookAfterAgent, h.afterAgent, yield)
	return ok
}

// runAgentCallbacks calls the callbacks before or after an agent, and yields
// an event with their answer or their state writes. It returns whether there
// was an answer, and false when the run is over.
func (inv *Invocation) runAgentCallbacks(ctx context.Context, hook string, list []ownedCallback[AgentFunc], yield func(*session.Event, error) bool) (answered, ok bool) {
	if len(list) == 0 {
		return false, true
	}
	actions := &session.Actions{}
	m := inv.newCallbackContext(actions)
	if hook == hookAfterAgent {
		m.Event = inv.lastOwnEvent()
	}
	content, err := firstAnswer(ctx, inv, hook, list, func(f AgentFunc) (*genai.Content, error) { return f(ctx, m) })
	if err != nil {
		hookErr, _ := asHookError(err)
		yield(nil, hookErr)
		return false, false
	}
	if content == nil && len(actions.StateDelta)+len(actions.StateUpdates) == 0 {
		return false, true
	}
	ev := inv.NewEvent()
	ev.Content, ev.Actions = content, *actions
	return content != nil, yield(ev, nil)
}
