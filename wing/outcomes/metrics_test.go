package outcomes

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"agenthost/pkg/runtime"
)

// Turns, their time, their cost and their tool errors count by revision.
func TestRevisionMetrics(t *testing.T) {
	m, start := newRevisionMetrics(), time.Unix(0, 0)
	for _, r := range []runtime.Measurement{
		{Kind: runtime.MeasuredRun, App: "shop", Revision: "r1", Start: start, End: start.Add(2 * time.Second)},
		{Kind: runtime.MeasuredRun, App: "shop", Revision: "r2", Code: "UNAVAILABLE", Start: start, End: start.Add(time.Second)},
		{Kind: runtime.MeasuredRun, App: "shop", Code: "SESSION_BUSY"}, // no revision was chosen
		{Kind: runtime.MeasuredModel, App: "shop", Revision: "r1", Cost: 0.25},
		{Kind: runtime.MeasuredTool, App: "shop", Revision: "r1", Code: "TOOL_FAILED"},
		{Kind: runtime.MeasuredTool, App: "shop", Revision: "r1"},
	} {
		m.observeRun(r)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.listCollectors()...)
	want := []string{
		"agenthost_revision_cost_usd_total shop r1 0.25",
		"agenthost_revision_run_seconds shop r1 1 run, 2 s, at most 2.5 s: 1", "agenthost_revision_run_seconds shop r2 1 run, 1 s, at most 1 s: 1",
		"agenthost_revision_runs_total shop OK r1 1", "agenthost_revision_runs_total shop UNAVAILABLE r2 1",
		"agenthost_revision_tool_errors_total shop r1 1",
	}
	if d := cmp.Diff(want, gatherSeries(t, registry)); d != "" {
		t.Errorf("series (-want +got):\n%s", d)
	}
}

// gatherSeries returns each series as its name, its label values and its value.
func gatherSeries(t *testing.T, registry *prometheus.Registry) (all []string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, series := range f.GetMetric() {
			text := f.GetName()
			for _, l := range series.GetLabel() {
				text += " " + l.GetValue()
			}
			h := series.GetHistogram()
			if h == nil {
				all = append(all, fmt.Sprint(text, " ", series.GetCounter().GetValue()))
				continue
			}
			text += fmt.Sprintf(" %d run, %g s", h.GetSampleCount(), h.GetSampleSum())
			for _, b := range h.GetBucket() {
				if n := b.GetCumulativeCount(); n > 0 {
					text += fmt.Sprintf(", at most %g s: %d", b.GetUpperBound(), n)
					break
				}
			}
			all = append(all, text)
		}
	}
	return all
}

// However often an app is reloaded, the metrics have its last 4 revisions.
func TestRevisionMetricsBounded(t *testing.T) {
	m := newRevisionMetrics()
	for i := range 1000 {
		m.observeRun(runtime.Measurement{Kind: runtime.MeasuredRun, App: "shop", Revision: fmt.Sprint("r", i)})
		m.observeRun(runtime.Measurement{Kind: runtime.MeasuredRun, App: "shop", Revision: "steady"})
	}
	m.observeRun(runtime.Measurement{Kind: runtime.MeasuredRun, App: "other", Revision: "r1"})
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.listCollectors()...)
	all := gatherSeries(t, registry)
	if len(all) != 2*(maxRevisionSeries+1) || !slices.Contains(all, "agenthost_revision_runs_total shop OK steady 1000") {
		t.Errorf("series %q, want %d and 1000 turns on the revision that always runs", all, 2*(maxRevisionSeries+1))
	}
}
