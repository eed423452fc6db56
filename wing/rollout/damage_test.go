package rollout_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agenthost/pkg/server"
	"agenthost/wing/rollout"
)

// damage replaces the stored rollout.
func (d *desk) damage(data string) {
	d.t.Helper()
	row, err := d.store.Rollouts.Get(d.t.Context(), "desk")
	if err != nil {
		d.t.Fatal(err)
	}
	row.Data = []byte(data)
	if err := d.store.Rollouts.Save(d.t.Context(), row); err != nil {
		d.t.Fatal(err)
	}
}

// act decides as a person does, without a host.
func (d *desk) act(action string) (int, string) {
	d.t.Helper()
	handler := server.New(d.host.Host, &server.Options{Extensions: []func(*server.Services) *server.Extension{rollout.Extend(nil)}})
	r := httptest.NewRequest(http.MethodPost, "/apps/desk/rollout", strings.NewReader(`{"action":"`+action+`"}`))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// A stored rollout that cannot be read keeps no app from serving, in a running host and after a restart. The
// status names the row and the way out, and a person's abort or promotion is the way out.
func TestDamagedRow(t *testing.T) {
	const newer = `{"status":"levitating","stable":"STABLE","draft":"DRAFT"}`
	for _, tt := range []struct{ name, row, action, want string }{
		{"text", "}{", "abort", "fine"}, // the files are what is left
		{"fields", `{"status":"running","stable":7}`, "promote", "fine"},
		{"of a newer program", newer, "abort", "good"},
		{"of a newer program", newer, "promote", "fine"},
	} {
		t.Run(tt.name+" "+tt.action, func(t *testing.T) {
			d := newDesk(t)
			stable := d.status().Revision
			d.save(fine)
			draft := d.status().PendingRevision
			d.damage(strings.NewReplacer("STABLE", stable, "DRAFT", draft).Replace(tt.row))
			d.check(0)
			expectWayOut := func(when string) {
				t.Helper()
				for _, part := range []string{"row of app desk in the table rollouts, version 3", "agenthost rollout abort"} {
					if s := d.status(); !strings.Contains(s.Held+s.Diagnostics.Error(), part) {
						t.Errorf("%s: status %+v, want %q", when, s, part)
					}
				}
			}
			expectWayOut("while the host runs")
			if got := d.serve(20); got["good"] < 2 || got["fine"] < 2 {
				t.Errorf("answers while the host runs: %v, want both, as before", got)
			}
			d.stop()
			d.start()
			expectWayOut("after the restart")
			if got := d.serve(20); got["good"]+got["fine"] != 20 || strings.Contains(tt.row, "STABLE") && got["good"] != 20 {
				t.Errorf("answers after the restart: %v", got)
			}
			if code, body := d.act("pause"); code != http.StatusConflict || !strings.Contains(body, "the rollout can only be ended: the row of app desk") {
				t.Errorf("pause: %d %s", code, body)
			}
			if code, body := d.act(tt.action); code != http.StatusOK || !strings.Contains(body, `"status":"none"`) {
				t.Fatalf("%s: %d %s", tt.action, code, body)
			}
			d.check(0)
			if got := d.serve(20); got[tt.want] != 20 {
				t.Errorf("answers after %s: %v, want %s", tt.action, got, tt.want)
			}
			if s := d.status(); strings.Contains(s.Held+s.Diagnostics.Error(), "table rollouts") && tt.row == newer && tt.action == "promote" {
				t.Errorf("status after %s: %+v", tt.action, s)
			}
		})
	}
}

// Explanations and the view have a row that cannot be read, as its text.
func TestDamagedDescribed(t *testing.T) {
	d := newDesk(t)
	d.save(fine)
	d.damage("}{")
	got, err := rollout.DescribeRevision(context.Background(), d.store.Rollouts, "desk", "any", time.Time{})
	const want = "the row of app desk in the table rollouts, version 3: cannot read the stored rollout: "
	if err != nil || !strings.HasPrefix(got, want) {
		t.Errorf("explanation: %q, %v, want %q", got, err, want)
	}
	_, err = rollout.FindStable(t.Context(), d.store.Rollouts, "desk")
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("stable revision: %v", err)
	}
}
