package testenv

import (
	"regexp"
	"strconv"
	"testing"

	"agenthost/pkg/session"
)

// callIDPattern matches a call ID in an input line: {ship} is the last call to ship, {ship#1} the
// first one in the session.
var callIDPattern = regexp.MustCompile(`"id": "\{(\w+)(?:#(\d+))?\}"`)

// resolveCallIDs replaces call names by call IDs. The order in which IDs are generated
// is not fixed, so input lines must not contain them.
func (e *Env) resolveCallIDs(t *testing.T, key session.Key, line string) string {
	t.Helper()
	return callIDPattern.ReplaceAllStringFunc(line, func(found string) string {
		m := callIDPattern.FindStringSubmatch(found)
		ids := e.CallIDs(t, key, m[1])
		n := len(ids)
		if m[2] != "" {
			n, _ = strconv.Atoi(m[2])
		}
		if n < 1 || n > len(ids) {
			t.Fatalf("input %s: the session has %d calls of %s", line, len(ids), m[1])
		}
		return `"id": "` + ids[n-1] + `"`
	})
}

// CallIDs returns the IDs of all calls to a tool in a session, oldest first.
func (e *Env) CallIDs(t *testing.T, key session.Key, name string) []string {
	t.Helper()
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, ev := range sess.Events() {
		for _, c := range ev.Calls() {
			if c.Name == name {
				ids = append(ids, c.ID)
			}
		}
	}
	return ids
}
