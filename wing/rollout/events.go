package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"agenthost/pkg/loader"
)

// describeReport returns the event as a report of the host.
func (e *event) describeReport(app, stable string) loader.Report {
	return loader.Report{App: app, Time: e.Time, Kind: "rollout_" + e.Kind, From: stable, To: e.Revision, Reason: e.describeEvent(), By: e.By}
}

// describeEvent describes an event in words.
func (e *event) describeEvent() string {
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
func (v *view) addGateEvents(reports []loader.Report) {
	for _, r := range reports {
		if r.App != v.App || !strings.HasPrefix(r.Kind, "gate_") {
			continue
		}
		isStored := slices.ContainsFunc(v.Events, func(e event) bool { return e.Kind == r.Kind && e.Time.Equal(r.Time) })
		if !isStored {
			v.Events = append(v.Events, event{Time: r.Time, Kind: r.Kind, Revision: r.To, Reason: r.Reason, By: "this host"})
		}
	}
	slices.SortStableFunc(v.Events, func(a, b event) int { return cmp.Or(a.Time.Compare(b.Time)) })
}
