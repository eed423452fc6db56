package runtime

import (
	"fmt"
	"math"
	"strings"

	"agenthost/pkg/session"
)

// A checkpointReader reads what an agent stored of its progress. Sessions are
// imported and databases are edited, so nothing of it is trusted: the first
// value that the agent cannot have written is the error of the turn.
type checkpointReader struct {
	inv *Invocation
	err error
}

// maxShownValue bounds how much of a bad value an error shows.
const maxShownValue = 60

// rejectValue keeps the first problem. got may be left out.
func (r *checkpointReader) rejectValue(at, problem string, got ...any) {
	if r.err != nil {
		return
	}
	said := at + " " + problem
	if len(got) > 0 {
		shown := strings.ToValidUTF8(jsonText(got[0]), "")
		if len(shown) > maxShownValue {
			shown = strings.ToValidUTF8(shown[:maxShownValue], "") + "…"
		}
		said += ", got " + shown
	}
	r.err = failf(CodeInvalidRequest, session.ErrInvalid,
		"the invocation cannot be resumed: stored state of agent %s: %s", r.inv.node.agent.Name(), said)
}

// readString reads a string.
func (r *checkpointReader) readString(at string, v any) string {
	s, ok := v.(string)
	if !ok {
		r.rejectValue(at, "must be a string", v)
	}
	return s
}

// readNumber reads a whole number within bounds; its result is always within them.
func (r *checkpointReader) readNumber(at string, v any, least, most int) int {
	n, ok := v.(int64)
	if ok && int64(least) <= n && n <= int64(most) {
		return int(n)
	}
	want := fmt.Sprintf("must be a number from %d to %d", least, most)
	if least == most {
		want = fmt.Sprintf("must be %d", least)
	}
	r.rejectValue(at, want, v)
	return least
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

// currentSubAgentKey is the key of a checkpoint that names the sub-agent which runs
// (adk-python agents/sequential_agent.py).
const currentSubAgentKey = "current_sub_agent"

// readCurrentChild is the place of the sub-agent that the last checkpoint names, and
// whether there was one.
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

// timesLoopedKey is the key of a checkpoint that counts the rounds that are
// over (adk-python agents/loop_agent.py).
const timesLoopedKey = "times_looped"

// readTimesLooped is how many rounds of a loop the last checkpoint counts.
func (inv *Invocation) readTimesLooped() (int, error) {
	v := inv.AgentState()[timesLoopedKey]
	if v == nil {
		return 0, nil
	}
	r := checkpointReader{inv: inv}
	return r.readNumber(timesLoopedKey, v, 0, math.MaxInt32), r.err
}

// pendingCallsKey is the key of an LLM agent's checkpoint with the calls that
// somebody answers later.
const pendingCallsKey = "waiting_for"

// readPendingCalls are the calls that the agent's checkpoints say are answered later.
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

// missingNodeError says that what ran is not there any more.
func (inv *Invocation) missingNodeError(name string) error {
	return failf(CodeInvalidRequest, session.ErrInvalid,
		"the invocation cannot be resumed: it was in %s of agent %s, which is no longer there; begin a new one", name, inv.node.agent.Name())
}
