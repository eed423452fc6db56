package aguiserver

import (
	"strings"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// A subagent run is an agent's run below the endpoint's own agent: after a transfer, in a workflow agent, for
// a delegated task or in an agent tool. Events name the path of the runs that made them, so a subagent's ID
// follows from the session, and is the same in the stream and in a MESSAGES_SNAPSHOT:
//
//	desk@1                    the endpoint's own agent
//	desk@1/writer@1           the subagent INVOCATION/desk@1/writer@1
//	desk@1/team@1/critic@2    critic's second run, below the subagent team
//
// No event marks the end of a run. It has ended when an event of another run arrives on the same branch or on
// one that it came from; runs in parallel have branches of their own. An agent tool's run is in a session
// of its own, so that the stream has its beginning and its end only.

// An agentRun is a subagent in an event's path, the outermost first.
type agentRun struct{ id, name, run string }

// A subagent is a run that has begun.
type subagent struct {
	agentRun
	branch string
	// isCall is set for an agent tool's run, which ends with its result.
	isCall bool
}

// A lineage finds the subagents in events.
type lineage struct {
	// app is nil for events from a test.
	app *runtime.App
	// root is the root agent, and agent is the one that the route names.
	root, agent string
}

// listRuns returns the subagents that made an event.
func (l *lineage) listRuns(ev *session.Event) []agentRun {
	if !strings.Contains(ev.NodePath, "/") && (ev.Author == l.root || ev.Author == l.agent) {
		return nil
	}
	path := ev.NodePath
	if path == "" {
		path = ev.Author
	}
	var runs []agentRun
	for at := 0; at < len(path); {
		end := len(path)
		if i := strings.IndexByte(path[at:], '/'); i >= 0 {
			end = at + i
		}
		name, run, _ := strings.Cut(path[at:end], "@")
		isOwn := at == 0 && name == l.root || name == l.agent
		if !isOwn && l.isAgent(name) {
			runs = append(runs, agentRun{ev.InvocationID + "/" + path[:end], name, run})
		}
		at = end + 1
	}
	return runs
}

// findOwner returns the innermost subagent that made an event; empty for the endpoint's own agent.
func (l *lineage) findOwner(ev *session.Event) string {
	if runs := l.listRuns(ev); len(runs) > 0 {
		return runs[len(runs)-1].id
	}
	return ""
}

// isAgent reports whether a run's name is that of an agent, and not of a workflow's node.
func (l *lineage) isAgent(name string) bool {
	if l.app == nil {
		return true
	}
	switch l.app.Agent(name).(type) {
	case nil, *runtime.FunctionNode, *runtime.ToolNode, *runtime.JoinNode:
		return false
	}
	return true
}

// A spawn is the call that begins a subagent, and the message with the call.
type spawn struct{ call, message string }
