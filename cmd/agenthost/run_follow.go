package main

import (
	"context"
	"fmt"
	"strings"

	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// watchFiles takes in what is saved in an app's folder, until ctx ends. What came
// of it is kept for the next time that the conversation listens. Tests beside
// the app keep nothing out: whoever mends an app wants to talk to it.
func (t *conversation) watchFiles(ctx context.Context, l *loader.Loader, dir string) {
	let := func(context.Context, string, *runtime.App) spec.Diagnostics { return nil }
	w := loader.NewWatch(l, persistentHost{t.host}, []string{dir}, &loader.WatchOptions{
		Revisions: t.host.Store().Revisions, Gate: let, OnLoad: t.queueReload,
	})
	if err := w.Run(ctx); err != nil {
		fmt.Fprintf(t.io.err, "files that are saved are not taken in any more: %s\n", err)
	}
}

// persistentHost is a host whose app stays when its folder goes away.
type persistentHost struct{ *runtime.Host }

// Remove has nothing to do.
func (persistentHost) Remove(string) {}

// queueReload keeps what a load came to, in the place of news that nobody has
// heard yet.
func (t *conversation) queueReload(s loader.Status) {
	if s.App != t.key.App {
		return
	}
	select {
	case <-t.reloads:
	default:
	}
	t.reloads <- s
}

// printQueuedReload says what nobody has heard yet.
func (t *conversation) printQueuedReload() {
	select {
	case s := <-t.reloads:
		t.printReload(s, "")
	default:
	}
}

// printReload says what became of a save, behind before; it is false where there
// is nothing to say.
func (t *conversation) printReload(s loader.Status, before string) bool {
	text := t.describeReload(s)
	t.reportedRevision, t.hasProblems = s.Revision, !s.OK && s.PendingRevision == ""
	if text == "" {
		return false
	}
	var b strings.Builder
	b.WriteString(before)
	_ = s.Diagnostics.WriteText(&b) // nothing can go wrong there
	fmt.Fprintf(&b, "%s %s\n", s.App, text)
	fmt.Fprint(t.io.err, b.String())
	return true
}

func (t *conversation) describeReload(s loader.Status) string {
	switch {
	case s.PendingRevision != "":
		return "was changed, and says reload: sessions: manual: it goes on as it was until you start it again"
	case !s.OK:
		return "goes on as it was"
	case s.Revision == t.reportedRevision && t.hasProblems:
		return "is right again"
	case s.Revision == t.reportedRevision:
		return ""
	case t.host.App(s.App).Reload.Sessions == runtime.FollowNewSessions:
		return "was changed, and says reload: sessions: new_sessions: this session goes on as it was"
	}
	return "was changed: the next answer has it"
}
