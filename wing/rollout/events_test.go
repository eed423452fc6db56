package rollout_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// lines are an app's reports in a line each, without the times of loads.
func (d *desk) lines() string {
	d.t.Helper()
	all, _ := d.host.Watch().Reports(0)
	var lines []string
	for _, r := range all {
		if strings.HasPrefix(r.Kind, "gate_") || strings.HasPrefix(r.Kind, "rollout_") {
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s (%s)", r.Kind, r.Reason, r.By)))
		}
	}
	return strings.Join(lines, "\n")
}

// A change is one line of events from its gate to everyone, in the stream of changes and in the stored rollout, each
// with who decided. A restart continues the stored line.
func TestEvents(t *testing.T) {
	d := newDesk(t)
	d.write("desk.test.yaml", "- name: answers\n  user: hi\n  model: s.yaml\n  expect: [text contains \"fine\"]\n")
	d.write("app.yaml", strings.Replace(appYAML, "new_sessions}", "new_sessions, gate: [tests]}", 1))
	d.save(bad)
	if got := d.lines(); !strings.HasPrefix(got, "gate_begun tests ()\ngate_failed tests: ") {
		t.Errorf("events of a change that fails its gate:\n%s", got)
	}
	d.save(fine)
	if code, body := d.act("pause"); code != http.StatusOK {
		t.Fatal(code, body, d.status(), d.lines())
	}
	d.check(0)
	if code, body := d.act("resume"); code != http.StatusOK {
		t.Fatal(code, body)
	}
	d.serve(40)
	d.check(61 * time.Minute)
	const by = "(a caller without authentication)"
	want := strings.Join([]string{
		"gate_begun tests ()", "gate_passed tests ()",
		"rollout_started 50 % of the new sessions (host here)",
		"rollout_paused 50 % of the new sessions: paused by a caller without authentication " + by, "rollout_resumed 50 % of the new sessions " + by,
		"rollout_promoted all steps passed (host here)",
	}, "\n")
	if got := d.lines(); !strings.HasSuffix(got, want) {
		t.Errorf("events\n%s\nwant the end\n%s", got, want)
	}
	row, err := d.store.Rollouts.Get(t.Context(), "desk")
	if err != nil {
		t.Fatal(err)
	}
	var stored struct {
		Events []struct {
			Number   int
			Kind, By string
		}
	}
	if err := json.Unmarshal(row.Data, &stored); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(stored.Events)
	if want := "[{1 gate_passed host here} {2 started host here} {3 paused a caller without authentication} {4 resumed a caller without authentication} {5 promoted host here}]"; got != want {
		t.Errorf("stored %s\nwant   %s", got, want)
	}
}
