package testenv

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"agenthost/pkg/session"
)

// madeID matches call IDs that the runtime assigned.
var madeID = regexp.MustCompile(`adk-[0-9a-f-]{36}`)

// formatTrace returns a line for each event: its author, branch, isolation scope and path,
// what it has, and the nodes whose output it is. A message that is the output has a *, and
// #1 is the first call ID. Checkpoints of resumable apps are omitted.
func formatTrace(events []*session.Event) string {
	var out strings.Builder
	for _, ev := range events {
		if ev.Actions.AgentState != nil || ev.Actions.EndOfAgent {
			continue
		}
		fields := []string{ev.Author}
		for name, v := range map[string]string{"1 branch": ev.Branch, "2 scope": ev.IsolationScope, "3 at": ev.NodePath} {
			if v != "" {
				fields = append(fields, name+" "+v)
			}
		}
		slices.Sort(fields[1:])
		for i, f := range fields[1:] {
			fields[i+1] = f[2:]
		}
		fields = append(fields, traceContents(ev)...)
		if len(ev.OutputFor) > 0 {
			fields = append(fields, "for "+strings.Join(ev.OutputFor, ", "))
		}
		fmt.Fprintln(&out, strings.Join(fields, "; "))
	}
	ids := map[string]string{}
	return madeID.ReplaceAllStringFunc(out.String(), func(id string) string {
		if ids[id] == "" {
			ids[id] = fmt.Sprint("#", len(ids)+1)
		}
		return ids[id]
	})
}

// traceContents describes an event's parts, output and actions.
func traceContents(ev *session.Event) []string {
	var all []string
	if text := ev.Text(); text != "" {
		all = append(all, fmt.Sprintf("text %q", text)+map[bool]string{true: " *"}[ev.MessageAsOutput])
	}
	for _, c := range ev.Calls() {
		line := "call " + c.Name + " " + c.ID + " " + traceJSON(c.Args)
		if slices.Contains(ev.LongRunningToolIDs, c.ID) {
			line += " long-running"
		}
		all = append(all, line)
	}
	for _, r := range ev.Responses() {
		all = append(all, "response "+r.Name+" "+r.ID+" "+traceJSON(r.Response))
	}
	if ev.Output != nil {
		all = append(all, "output "+traceJSON(ev.Output))
	}
	if ev.ErrorCode != "" {
		all = append(all, "error "+ev.ErrorCode)
	}
	if ev.Actions.Route != nil {
		all = append(all, "route "+traceJSON(ev.Actions.Route))
	}
	for _, key := range slices.Sorted(maps.Keys(ev.Actions.StateDelta)) {
		all = append(all, "sets "+key+" to "+traceJSON(ev.Actions.StateDelta[key]))
	}
	return all
}

func traceJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
