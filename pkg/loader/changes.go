package loader

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

// A Report describes one change to an app's folder.
type Report struct {
	// Number is the report's sequence number, from 1.
	Number int
	App    string
	Time   time.Time
	// Kind is one of the constants below.
	Kind string
	// From is the previously active revision; To is the one that is active now or,
	// for ReportWaiting and ReportHeld, the pending one. Either may be empty.
	From, To string
	// Reason is why the pending revision is held, for ReportHeld, the gate with its first failure, or what
	// happened in a rollout.
	Reason string
	// By is who decided, for steps of a rollout.
	By string
	// Changes are the changed fields, and Files the changed files, for ReportLoaded,
	// ReportWaiting and ReportHeld. Changes are computed when the report is first read; older
	// reports that were never read have none.
	Changes []Change
	Files   []string
}

// The values of Report.Kind.
const (
	// ReportLoaded means that the folder's content is active now.
	ReportLoaded = "loaded"
	// ReportRefused means that the content has errors.
	ReportRefused = "refused"
	// ReportWaiting means that the content is pending a manual reload.
	ReportWaiting = "waiting"
	// ReportHeld means that Admit holds the content, or has given another reason for it.
	ReportHeld = "held"
	// ReportRecovered means that the content matches the active revision again.
	ReportRecovered = "recovered"
	// ReportUnreadable means that the folder cannot be read.
	ReportUnreadable = "unreadable"
	// ReportRemoved means that the folder was removed.
	ReportRemoved = "removed"
	// ReportGateBegun means that To began to pass a gate, and the others how that ended.
	ReportGateBegun  = "gate_begun"
	ReportGatePassed = "gate_passed"
	ReportGateFailed = "gate_failed"
)

// A journal keeps the last reports. Writers never wait for readers.
type journal struct {
	kinds   Kinds
	mu      sync.Mutex
	count   int
	entries []*journalEntry
	changed chan struct{}
}

// A journalEntry is a report with the revisions to compute its changes from. They are computed
// lazily: loading two revisions costs more than reloading one file.
type journalEntry struct {
	mu            sync.Mutex
	report        Report
	before, after *store.Revision // nil once compared or released
}

func newJournal(kinds Kinds) *journal { return &journal{kinds: kinds, changed: make(chan struct{})} }

func (j *journal) appendReport(r Report, before, after *store.Revision) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.count++
	r.Number = j.count
	j.entries = append(j.entries, &journalEntry{report: r, before: before, after: after})
	if over := len(j.entries) - maxReports; over > 0 {
		j.entries = slices.Delete(j.entries, 0, over)
	}
	if over := len(j.entries) - maxCompared; over > 0 {
		// A reader that is comparing the files drops them afterwards.
		if e := j.entries[over-1]; e.mu.TryLock() {
			e.before, e.after = nil, nil
			e.mu.Unlock()
		}
	}
	j.wakeReaders()
}

// AppendReport appends a report of what happened to an app's revision outside of the watch, such as a step of
// its rollout. It sets the number.
func (w *Watch) AppendReport(r Report) { w.journal.appendReport(r, nil, nil) }

// notifyReaders wakes the readers without a report.
func (j *journal) notifyReaders() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.wakeReaders()
}

func (j *journal) wakeReaders() {
	close(j.changed)
	j.changed = make(chan struct{})
}

func (j *journal) reportsAfter(n int) ([]Report, <-chan struct{}) {
	j.mu.Lock()
	at := slices.IndexFunc(j.entries, func(e *journalEntry) bool { return e.report.Number > n })
	var found []*journalEntry
	if at >= 0 {
		found = slices.Clone(j.entries[at:])
	}
	more := j.changed
	j.mu.Unlock()
	var all []Report
	for _, e := range found {
		all = append(all, e.resolveChanges(j.kinds))
	}
	return all, more
}

// resolveChanges returns the report with its changes.
func (e *journalEntry) resolveChanges(kinds Kinds) Report {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.before != nil {
		// A separate loader: it must not share open resources with running apps.
		l, ctx := New(kinds, nil), context.Background()
		e.report.Changes = Compare(l.Summarize(ctx, e.before), l.Summarize(ctx, e.after))
		e.before, e.after = nil, nil
	}
	return e.report
}

// A Summary lists an app's fields by agent, for comparisons. References to
// variables and secrets appear as they are written.
type Summary struct {
	agents   []string // names in tree order; empty strings are unused slots
	sections map[string]fieldTexts
}

// fieldTexts are the text fields of an agent or app.yaml. A tool list has one field per tool.
type fieldTexts map[string]string

// appSection is app.yaml's section; no agent can have this name.
const appSection = "app.yaml"

// Summarize summarizes a revision, even if it has errors.
func (l *Loader) Summarize(ctx context.Context, rev *store.Revision) *Summary {
	r := l.newRevisionResolver(rev)
	defer r.held.close()
	r.resolveApp(ctx)
	s := &Summary{agents: make([]string, r.app.slots), sections: map[string]fieldTexts{}}
	s.addApp(r.app.appNode)
	for _, p := range r.app.agents {
		s.addAgent(p)
	}
	return s
}

// addApp adds app.yaml without its agents, which are added at their positions in the
// tree.
func (s *Summary) addApp(n *spec.Node) {
	if n == nil || n.Kind != spec.Mapping {
		return
	}
	p := fieldTexts{}
	for _, e := range n.Entries {
		switch e.Key.Value {
		case "agents", "root_agent":
		case "models", "tools":
			for _, named := range e.Value.Entries {
				p[e.Key.Value+"."+named.Key.Value] = textOf(named.Value)
			}
		default:
			p[e.Key.Value] = textOf(e.Value)
		}
	}
	s.sections[appSection] = p
}

// addAgent adds an agent's own fields in its slot. An agent that is used more than once is added
// once.
func (s *Summary) addAgent(a *resolvedAgent) {
	p, n := fieldTexts{}, a.plan.Node
	for _, e := range n.Entries {
		switch e.Key.Value {
		case "name", "agents", "sub_agents":
		case "tools":
			for _, t := range e.Value.Items {
				p["tool "+toolName(t)] = textOf(t)
			}
		default:
			p[e.Key.Value] = textOf(e.Value)
		}
	}
	for _, sub := range a.subs {
		p["sub-agent "+sub.name] = ""
	}
	name := "agent " + textOf(n.Get("name"))
	for i := 2; s.sections[name] != nil; i++ {
		if maps.Equal(s.sections[name], p) {
			return
		}
		name = fmt.Sprintf("agent %s (%d)", textOf(n.Get("name")), i)
	}
	s.agents[a.slot] = name
	s.sections[name] = p
}

// toolName returns a tool's name in an agent's list.
func toolName(n *spec.Node) string {
	for _, key := range []string{"use", "name"} {
		if at := n.Get(key); at != nil {
			return at.Value
		}
	}
	if len(n.Entries) == 0 {
		return textOf(n)
	}
	if at := n.Entries[0].Value.Get("name"); at != nil {
		return at.Value
	}
	return n.Entries[0].Key.Value
}

// textOf returns a value as text: a scalar's text, else JSON. An agent is represented by its name.
func textOf(n *spec.Node) string {
	if n == nil {
		return ""
	}
	if n.Kind == spec.Scalar {
		return n.Value
	}
	text, err := json.Marshal(withoutAgents(n))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func withoutAgents(n *spec.Node) any {
	switch {
	case n.Kind == spec.Mapping && n.Get("name") != nil && (n.Get("instruction") != nil || n.Get("agent_class") != nil):
		return "agent " + n.Get("name").Value
	case n.Kind == spec.Mapping:
		m := map[string]any{}
		for _, e := range n.Entries {
			m[e.Key.Value] = withoutAgents(e.Value)
		}
		return m
	case n.Kind == spec.Sequence:
		all := make([]any, len(n.Items))
		for i, item := range n.Items {
			all[i] = withoutAgents(item)
		}
		return all
	}
	return n.Any()
}

// A Change is one difference between two summaries.
type Change struct {
	// Where is an agent or app.yaml. Field is empty if it was added or removed as a whole.
	Where string `json:"where"`
	Field string `json:"field,omitempty"`
	// Kind is added, removed or changed.
	Kind string `json:"what"`
	// Before and After are the texts.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// The values of Change.What.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// Compare lists the changes from a to b: app.yaml first, then agents in b's tree order. It omits
// changes without effect on the loader.
func Compare(a, b *Summary) []Change {
	names := append([]string{appSection}, b.agents...)
	for _, name := range a.agents {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	var all []Change
	for _, name := range names {
		oldText, newText := a.sections[name], b.sections[name]
		switch {
		case oldText == nil && newText != nil && name != appSection:
			all = append(all, Change{Where: name, Kind: Added})
		case oldText != nil && newText == nil && name != appSection:
			all = append(all, Change{Where: name, Kind: Removed})
		default:
			all = append(all, oldText.diffFields(newText, name)...)
		}
	}
	return all
}

func (p fieldTexts) diffFields(q fieldTexts, where string) []Change {
	both := maps.Clone(p)
	if both == nil {
		both = fieldTexts{}
	}
	maps.Copy(both, q)
	var all []Change
	for _, field := range slices.Sorted(maps.Keys(both)) {
		oldText, inOld := p[field]
		newText, inNew := q[field]
		c := Change{Where: where, Field: field, Kind: Changed, Before: oldText, After: newText}
		switch {
		case inOld && inNew && oldText == newText:
			continue
		case !inOld:
			c.Kind = Added
		case !inNew:
			c.Kind = Removed
		}
		all = append(all, c)
	}
	return all
}

// ChangedFiles returns the sorted names of files that differ.
func ChangedFiles(a, b map[string][]byte) []string {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(both)), func(name string) bool {
		oldText, inOld := a[name]
		newText, inNew := b[name]
		return inOld == inNew && bytes.Equal(oldText, newText)
	})
}
