package loader

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// discoverEnv is a watch over the apps folder top with app x, the app folder lone, and the apps
// folder more with apps p and q. All serve "one".
type discoverEnv struct {
	*watchEnv
	base string
	log  bytes.Buffer
	// fault is the error from listing lone and more; nil is none.
	fault atomic.Pointer[error]
}

func newDiscoverEnv(t *testing.T) *discoverEnv {
	t.Helper()
	e := &discoverEnv{watchEnv: newWatchEnv(t), base: t.TempDir()}
	folders := []string{e.top, e.in("lone"), e.in("more")}
	e.watch = NewWatch(New(listKinds(), nil), e.host, folders, &WatchOptions{Clock: e.clock, Logger: slog.New(slog.NewTextHandler(&e.log, nil)), list: e.list})
	write("one")(e.watchEnv)
	for _, app := range []string{"lone", "more/p", "more/q"} {
		e.save(app, "one")
	}
	e.must(e.watch.Sync(t.Context()))
	e.log.Reset()
	return e
}

func (e *discoverEnv) list(dir string) folderListing {
	if err := e.fault.Load(); err != nil && dir != e.top {
		return folderListing{err: *err}
	}
	return listFolder(dir)
}

func (e *discoverEnv) in(name string) string { return filepath.Join(e.base, name) }

func (e *discoverEnv) save(app, description string) {
	e.Helper()
	e.writeFile(filepath.Join(e.in(app), "root_agent.yaml"), agentYAML(description))
}

// away returns a path that is not an app for a folder that is moved away.
func (e *discoverEnv) away(name string) string {
	return filepath.Join(filepath.Dir(e.in(name)), "."+filepath.Base(name))
}

// replace moves a folder away and calls make with its path.
func (e *discoverEnv) replace(name string, make func(path string) error) {
	e.Helper()
	e.must(os.Rename(e.in(name), e.away(name)))
	if make != nil {
		e.must(make(e.in(name)))
	}
}

func (e *discoverEnv) restore(name string) {
	e.Helper()
	e.must(os.RemoveAll(e.in(name)))
	e.must(os.Rename(e.away(name), e.in(name)))
}

// A watched folder that cannot be read stops nothing: the apps in the other folders are reloaded.
// Its own apps keep their revision, their statuses and the folder's have the reason, the log has it
// once, and a file that was saved meanwhile is loaded when the folder is back.
func TestWatchUnreadableFolder(t *testing.T) {
	emptyFile := func(path string) error { return os.WriteFile(path, nil, 0o644) }
	for _, tt := range []struct {
		name string
		make func(path string) error
		want string
	}{
		{"removed", nil, "folder not found"},
		{"replaced by a file", emptyFile, "not a directory"},
		{"replaced by a link to nothing", func(path string) error { return os.Symlink("none", path) }, "folder not found"},
		{"replaced by a link to itself", func(path string) error { return os.Symlink(filepath.Base(path), path) }, "too many levels of symbolic links"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newDiscoverEnv(t)
			for _, name := range []string{"lone", "more"} {
				e.replace(name, tt.make)
			}
			e.expectUnreadable(tt.want)
			for _, name := range []string{"lone", "more"} {
				e.restore(name)
			}
			e.expectRecovery()
		})
	}
}

// A system error, such as a missing permission or a stale network mount, has the same effect.
func TestWatchFolderFails(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EACCES, syscall.EIO, syscall.ESTALE} {
		e := newDiscoverEnv(t)
		err := error(&fs.PathError{Op: "open", Path: e.base, Err: errno})
		e.fault.Store(&err)
		e.expectUnreadable(errno.Error())
		e.fault.Store(nil)
		e.expectRecovery()
	}
}

// expectUnreadable polls while lone and more cannot be read.
func (e *discoverEnv) expectUnreadable(reason string) {
	e.Helper()
	write("two")(e.watchEnv)
	e.pollAndExpect(2, "x two")
	e.pollAndExpect(3)
	want := []FolderStatus{{Name: "apps"}, {Name: "lone", Unreadable: reason}, {Name: "more", Unreadable: reason}}
	if diff := cmp.Diff(want, e.watch.Folders()); diff != "" {
		e.Errorf("Folders (-want +got):\n%s", diff)
	}
	for _, app := range []string{"lone", "p", "q"} {
		st, _ := e.watch.Status(app)
		folder := map[string]string{"lone": "lone", "p": "more", "q": "more"}[app]
		if got, want := st.Unreadable, "the folder "+folder+" of the server: "+reason; st.OK || st.Revision == "" || got != want {
			e.Errorf("%s: OK = %v, revision %q, Unreadable = %q, want %q and a revision", app, st.OK, st.Revision, got, want)
		}
		if got, want := strings.Join(st.Problems().Strings(), ""), app+": the app's folder cannot be read, and its last good revision keeps serving: the folder "+folder+" of the server: "+reason+" [file]"; got != want {
			e.Errorf("problems of %s:\n%s\nwant\n%s", app, got, want)
		}
	}
	if n := strings.Count(e.log.String(), "level=ERROR"); n != 2 || strings.Count(e.log.String(), "level=WARN") != 0 {
		e.Errorf("%d errors in the log after 5 polls, want one for each folder:\n%s", n, &e.log)
	}
	for _, part := range []string{"folder=" + e.in("lone"), "apps=[lone]", "folder=" + e.in("more"), `apps="[p q]"`} {
		if !strings.Contains(e.log.String(), part) {
			e.Errorf("the log lacks %s:\n%s", part, &e.log)
		}
	}
}

// listReports returns what the watch has reported about an app.
func (e *discoverEnv) listReports(app string) []string {
	var kinds []string
	reports, _ := e.watch.Reports(0)
	for _, r := range reports {
		if r.App == app {
			kinds = append(kinds, r.Kind)
		}
	}
	return kinds
}

// expectRecovery polls after lone and more are back.
func (e *discoverEnv) expectRecovery() {
	e.Helper()
	e.save("more/q", "two")
	e.pollAndExpect(2, "q two")
	e.pollAndExpect(2)
	for _, app := range []string{"lone", "p", "q"} {
		if st, _ := e.watch.Status(app); !st.OK || st.Unreadable != "" || len(st.Diagnostics) > 0 {
			e.Errorf("after the folder is back: Status = %+v", st)
		}
	}
	if diff := cmp.Diff([]string{ReportLoaded, ReportUnreadable, ReportRecovered}, e.listReports("lone")); diff != "" {
		e.Errorf("reports (-want +got):\n%s", diff)
	}
	for _, f := range e.watch.Folders() {
		if f.Unreadable != "" {
			e.Errorf("after the folder is back: Folders = %+v", f)
		}
	}
	if n := strings.Count(e.log.String(), "folder can be read again"); n != 2 {
		e.Errorf("the log reports %d recoveries, want 2:\n%s", n, &e.log)
	}
}

// A folder on a file system that does not respond delays the others once, by the listing limit, and
// no longer.
func TestWatchFolderHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newDiscoverEnv(t)
		release := make(chan struct{})
		e.watch.opts.list = func(dir string) folderListing {
			if dir == e.in("lone") {
				<-release
			}
			return listFolder(dir)
		}
		write("two")(e.watchEnv)
		e.pollAndExpect(2, "x two")
		if got := e.watch.Folders()[1].Unreadable; got != "it did not respond within 3s" {
			t.Errorf("Unreadable = %q", got)
		}
		e.save("more/p", "two")
		e.pollAndExpect(2, "p two")
		close(release)
		synctest.Wait()
		e.pollAndExpect(2)
		if st, _ := e.watch.Status("lone"); !st.OK || e.watch.Folders()[1].Unreadable != "" {
			t.Errorf("after the folder responds: Status = %+v", st)
		}
	})
}

// One app folder among many that cannot be read affects only its app, and an app that can
// be read again without a change is not loaded again.
func TestWatchUnreadableAppFolder(t *testing.T) {
	e := newDiscoverEnv(t)
	e.replace("more/p", func(path string) error { return os.Symlink("p", path) })
	e.save("more/q", "two")
	e.pollAndExpect(2, "q two")
	e.pollAndExpect(3)
	st, _ := e.watch.Status("p")
	if want := "too many levels of symbolic links"; st.OK || st.Revision == "" || st.Unreadable != want {
		t.Errorf("Status = %+v, want Unreadable %q", st, want)
	}
	if n := strings.Count(e.log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings after 5 polls, want 1:\n%s", n, &e.log)
	}
	e.restore("more/p")
	e.pollAndExpect(2)
	if st, _ := e.watch.Status("p"); !st.OK || st.LoadCount != 1 {
		t.Errorf("after the folder is back: Status = %+v", st)
	}
}

// A subfolder that may be an app but cannot be read, and an app with another one's name, are
// problems of their folder. The log has each of them once.
func TestWatchFolderProblems(t *testing.T) {
	e := newDiscoverEnv(t)
	e.must(os.Symlink("new", e.in("more/new")))
	e.must(os.Symlink("lost+found", e.in("more/lost+found"))) // cannot be an app's name
	e.save("more/x", "second")
	e.pollAndExpect(4)
	want := []string{"app x is not served: the folder apps has an app with the same name", "subfolder new cannot be read: too many levels of symbolic links"}
	if diff := cmp.Diff(want, e.watch.Folders()[2].Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if n := strings.Count(e.log.String(), "level=ERROR"); n != 2 {
		t.Errorf("%d errors in the log, want 2:\n%s", n, &e.log)
	}
	e.must(os.Remove(e.in("more/new")))
	e.removeAll(e.in("more/x"))
	e.pollAndExpect(1)
	if got := e.watch.Folders()[2].Problems; len(got) > 0 {
		t.Errorf("after the repair: problems %q", got)
	}
}

// An app in a folder that cannot be read keeps serving, even if a later folder has an app with its
// name.
func TestWatchUnreadableKeepsName(t *testing.T) {
	e := newDiscoverEnv(t)
	e.save("lone/../more/lone", "second")
	e.pollAndExpect(2)
	e.replace("lone", nil)
	e.pollAndExpect(4)
	e.restore("lone")
	e.pollAndExpect(2)
}

// A server needs all folders to start: Sync names the one that cannot be read, after it has loaded
// the others' apps.
func TestWatchSyncUnreadable(t *testing.T) {
	e := newDiscoverEnv(t)
	e.replace("lone", nil)
	write("two")(e.watchEnv)
	if err := e.watch.Sync(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "finding apps: open "+e.in("lone")) {
		t.Errorf("Sync = %v, want an error that names the folder", err)
	}
	if got := e.host.describeApp("x"); got != "two" {
		t.Errorf("x serves %q, want two", got)
	}
	e.must(e.watch.Reload(t.Context()))
}

// Notifications work again in a folder that was removed and recreated, which is another
// folder for the system. The poll interval, at which the new folder is found, is longer than
// any test; the test polls instead.
func TestWatchRecreatedFolder(t *testing.T) {
	s, next := startWatch(t, &WatchOptions{Poll: time.Hour})
	for range 3 {
		_, changed := s.watch.Reports(0)
		s.must(os.Rename(s.top, s.top+".old"))
		<-changed
		write("two")(s)
		s.watch.wakeUp()
		next("x two")
		write("one")(s)
		next("x one")
		s.must(os.RemoveAll(s.top + ".old"))
	}
}
