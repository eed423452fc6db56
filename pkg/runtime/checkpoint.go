package runtime

import (
	"fmt"
	"math"
	"strings"

	"agenthost/pkg/session"
)

// A checkpointReader reads the stored progress of an agent. Sessions can be
// imported and databases edited, so the data is not trusted: the first value
// that the agent cannot have written fails the turn.
type checkpointReader struct {
	inv *Invocation
	err error
}

// maxShownValue is the maximum length of a rejected value in an error.
const maxShownValue = 60

// rejectValue records the first problem. got is optional.
func (r *checkpointReader) rejectValue(at, problem string, got ...any) {
	if r.err != nil {
		return
	}
	message := at + " " + problem
	if len(got) > 0 {
		shown := strings.ToValidUTF8(jsonText(got[0]), "")
		if len(shown) > maxShownValue {
			shown = strings.ToValidUTF8(shown[:maxShownValue], "") + "…"
		}
		message += ", got " + shown
	}
	r.err = failf(CodeInvalidRequest, session.ErrInvalid,
		"the invocation cannot be resumed: stored state of agent %s: %s", r.inv.node.agent.Name(), message)
}

// readString reads a string.
func (r *checkpointReader) readString(at string, v any) string {
	s, ok := v.(string)
	if !ok {
		r.rejectValue(at, "must be a string", v)
	}
	return s
}

// readNumber reads an integer within bounds; its result always lies within
// them.
func (r *checkpointReader) readNumber(at string, v any, minimum, maximum int) int {
	n, ok := v.(int64)
	if ok && int64(minimum) <= n && n <= int64(maximum) {
		return int(n)
	}
	expected := fmt.Sprintf("must be a number from %d to %d", minimum, maximum)
	if minimum == maximum {
		expected = fmt.Sprintf("must be %d", minimum)
	}
	r.rejectValue(at, expected, v)
	return minimum
}

// readList reads a list; an absent one is empty.
func (r *checkpointReader) readList(at string, v any) []any {
	l, ok := v.([]any)
	if !ok && v != nil {
		r.rejectValue(at, "must be a list", v)
	}
	return l
}

// readMapping reads a mapping; an absent one is empty.
func (r *checkpointReader) readMapping(at string, v any) map[string]any {
	m, ok := v.(map[string]any)
	if !ok && v != nil {
		r.rejectValue(at, "must be a mapping", v)
	}
	return m
}

// currentSubAgentKey is the key of a checkpoint with the running sub-agent
// (adk-python agents/sequential_agent.py).
const currentSubAgentKey = "current_sub_agent"

// readCurrentChild returns the index of the sub-agent in the last checkpoint,
// and whether there is one.
func (inv *Invocation) readCurrentChild() (i int, found bool, err error) {
	v := inv.AgentState()[currentSubAgentKey]
	if v == nil {
		return 0, false, nil
	}
	r := checkpointReader{inv: inv}
	name := r.readString(currentSubAgentKey, v)
	if r.err != nil {
		return 0, false, r.err
	}
	for i, c := range inv.node.children {
		if c.agent.Name() == name {
			return i, true, nil
		}
	}
	return 0, false, inv.missingNodeError(name)
}

// timesLoopedKey is the key of a checkpoint with the number of completed
// iterations (adk-python agents/loop_agent.py).
const timesLoopedKey = "times_looped"

// readTimesLooped returns the number of completed iterations in the last
// checkpoint.
func (inv *Invocation) readTimesLooped() (int, error) {
	v := inv.AgentState()[timesLoopedKey]
	if v == nil {
		return 0, nil
	}
	r := checkpointReader{inv: inv}
	return r.readNumber(timesLoopedKey, v, 0, math.MaxInt32), r.err
}

// pendingCallsKey is the key of an LLM agent's checkpoint with its pending
// calls.
const pendingCallsKey = "waiting_for"

// readPendingCalls returns the calls that the agent's checkpoints mark as
// pending.
func (inv *Invocation) readPendingCalls() (map[string]bool, error) {
	r := checkpointReader{inv: inv}
	waiting := map[string]bool{}
	for _, ev := range inv.frame.prior.allEvents() {
		for i, id := range r.readList(pendingCallsKey, ev.Actions.AgentState[pendingCallsKey]) {
			waiting[r.readString(fmt.Sprintf("%s[%d]", pendingCallsKey, i), id)] = true
		}
	}
	return waiting, r.err
}

// missingNodeError reports that the interrupted node no longer exists.
func (inv *Invocation) missingNodeError(name string) error {
	return failf(CodeInvalidRequest, session.ErrInvalid,
		"the invocation cannot be resumed: it was in %s of agent %s, which no longer exists; start a new one", name, inv.node.agent.Name())
}
