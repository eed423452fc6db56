package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"agenthost/pkg/loader"
)

// describeReport returns the event as a report of the host.
func (e *Event) describeReport(app, stable string) loader.Report {
	return loader.Report{App: app, Time: e.Time, Kind: "rollout_" + e.Kind, From: stable, To: e.Revision, Reason: e.Describe(), By: e.By}
}

// Describe describes an event in words.
func (e *Event) Describe() string {
	share := fmt.Sprintf("%.4g %% of the new sessions", 100*e.Share)
	if e.Reason == "" {
		return share
	}
	if e.Share > 0 && e.Share < 1 {
		return share + ": " + e.Reason
	}
	return e.Reason
}

// addGateEvents adds what this host's gates did to the revisions, in order of time: a gate that fails begins no
// rollout, so that the stored events do not have it.
func (v *View) addGateEvents(reports []loader.Report) {
	for _, r := range reports {
		if r.App != v.App || !strings.HasPrefix(r.Kind, "gate_") {
			continue
		}
		isStored := slices.ContainsFunc(v.Events, func(e Event) bool { return e.Kind == r.Kind && e.Time.Equal(r.Time) })
		if !isStored {
			v.Events = append(v.Events, Event{Time: r.Time, Kind: r.Kind, Revision: r.To, Reason: r.Reason, By: "this host"})
		}
	}
	slices.SortStableFunc(v.Events, func(a, b Event) int { return cmp.Or(a.Time.Compare(b.Time)) })
}
