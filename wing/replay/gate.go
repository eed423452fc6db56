package replay

import (
	"context"
	"fmt"
	"strings"
	"time"

	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// Gate returns the gate that lets an app pass if stored sessions replay as replay.allow has it. It is
// unsteady, because the sessions change while the app does not.
func Gate() loader.Gate {
	return loader.Gate{Name: runtime.GateReplay, Rule: "replay-differs", Run: runGate, Unsteady: true}
}

// maxExamples limits the differences in a gate's message.
const maxExamples = 3

func runGate(ctx context.Context, g *loader.GateRun) spec.Diagnostics {
	if g.Store == nil {
		return nil // check and tests have no sessions
	}
	rules := rulesOf(g.App.Section(sectionKey))
	report, ds, err := PlaySessions(ctx, &Request{Loader: g.Loader, Dir: g.Dir, Store: g.Store, Now: time.Now()})
	switch {
	case ctx.Err() != nil:
		return spec.Diagnostics{g.DescribeStop(ctx, "a part of the replay")}
	case err != nil:
		return spec.Diagnostics{g.DescribeFailure("the replay of stored sessions failed: " + err.Error())}
	case report == nil:
		return ds
	case report.Revision != g.App.Revision():
		return spec.Diagnostics{g.DescribeFailure("the files changed before the replay ran; it runs again")}
	}
	var failures spec.Diagnostics
	for _, class := range classes {
		n := report.Counts[class]
		if n == 0 || float64(n) <= rules.Allow[class]*float64(report.Sessions) {
			continue
		}
		d := g.DescribeFailure(fmt.Sprintf("%d of %d replayed sessions differ in %s, replay.allow.%s is %v: %s", n, report.Sessions, class, class, rules.Allow[class], report.describeExamples(class)))
		d.Hint = "run agenthost replay " + g.App.Name()
		failures = append(failures, d)
	}
	return failures
}

// describeExamples names a class's first differences.
func (r *Report) describeExamples(class Class) string {
	var parts []string
	for _, d := range r.Differences {
		if d.Class != class {
			continue
		}
		if len(parts) == maxExamples {
			return strings.Join(parts, "; ") + "; …"
		}
		text := fmt.Sprintf("session %s turn %d %s", d.Session, d.Turn, d.Place)
		if len(d.Lines) > 0 {
			text += ", " + d.Lines[0]
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}
