package conversation

import (
	"context"
	"fmt"
	"strings"

	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// watchFiles hot-reloads the app when files in its folder are saved, until ctx ends, and
// queues the status for the conversation. Failing tests do not block the reload, because
// a user who repairs an app needs to try it.
func (t *Conversation) watchFiles(ctx context.Context, l *loader.Loader) {
	passGate := func(context.Context, string, *runtime.App) spec.Diagnostics { return nil }
	w := loader.NewWatch(l, persistentHost{t.opts.Host}, []string{t.opts.Dir}, &loader.WatchOptions{
		Revisions: t.opts.Host.Store().Revisions, Gate: passGate, OnLoad: t.queueReload,
	})
	if err := w.Run(ctx); err != nil {
		fmt.Fprintf(t.opts.Env.Err, "watching for file changes failed: %s\n", err)
	}
}

// persistentHost is a host that keeps its app when the app's folder is deleted.
type persistentHost struct{ *runtime.Host }

// Remove does nothing.
func (persistentHost) Remove(string) {}

// queueReload stores the latest reload status, replacing one that is not printed yet.
func (t *Conversation) queueReload(s loader.Status) {
	if s.App != t.key.App {
		return
	}
	select {
	case <-t.reloads:
	default:
	}
	t.reloads <- s
}

// printQueuedReload prints the stored reload status, if there is one.
func (t *Conversation) printQueuedReload() {
	select {
	case s := <-t.reloads:
		t.printReload(s, "")
	default:
	}
}

// printReload prints a reload status after the text before. It returns false if there is
// nothing to print.
func (t *Conversation) printReload(s loader.Status, before string) bool {
	text := t.describeReload(s)
	var changes []loader.Change
	if s.OK && s.Revision != t.reportedRevision {
		changes = t.compareReload(t.reportedRevision, s.Revision)
	}
	t.reportedRevision, t.hasProblems = s.Revision, !s.OK && s.PendingRevision == ""
	if text == "" {
		return false
	}
	var b strings.Builder
	b.WriteString(before)
	_ = s.Diagnostics.WriteText(&b) // a strings.Builder returns no errors
	fmt.Fprintf(&b, "%s %s\n", s.App, text)
	for i, c := range changes {
		if i == maxPrintedChanges {
			fmt.Fprintf(&b, "  and %d more\n", len(changes)-i)
			break
		}
		fmt.Fprintf(&b, "  %s %s\n", strings.TrimSpace(c.Where+" "+c.Field), c.Kind)
	}
	if t.opts.Terminal != nil {
		t.opts.Terminal.PrintGap()
	}
	fmt.Fprint(t.opts.Env.Err, b.String())
	return true
}

// maxPrintedChanges limits the changes that a reload prints.
const maxPrintedChanges = 8

// compareReload returns what changed between two revisions, as far as they are stored. Only a
// person's terminal shows it.
func (t *Conversation) compareReload(from, to string) []loader.Change {
	if t.opts.Terminal == nil {
		return nil
	}
	revisions := t.opts.Host.Store().Revisions
	before, err := revisions.Get(t.watchContext, t.key.App, from)
	if err != nil {
		return nil
	}
	after, err := revisions.Get(t.watchContext, t.key.App, to)
	if err != nil {
		return nil
	}
	l := t.opts.Env.NewLoader(nil)
	return loader.Compare(l.Summarize(t.watchContext, before), l.Summarize(t.watchContext, after))
}

func (t *Conversation) describeReload(s loader.Status) string {
	switch {
	case s.Held != "":
		return "was changed, and the new version is held: " + s.Held
	case s.PendingRevision != "":
		return "was changed, but reload: sessions is manual: restart the conversation to use the new version"
	case !s.OK:
		return "was not reloaded: the previous version stays active"
	case s.Revision == t.reportedRevision && t.hasProblems:
		return "is valid again"
	case s.Revision == t.reportedRevision:
		return ""
	case t.opts.Host.App(s.App).Reload().Sessions == runtime.FollowNewSessions:
		return "was reloaded, but reload: sessions is new_sessions: this session keeps its revision"
	}
	return "was reloaded: the next answer uses it"
}
