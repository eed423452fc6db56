package loader

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agenthost/internal/safe"
)

// A watch finds its apps in the folders that it was given, such as those on a command line. Each
// folder is listed on its own, in its own goroutine: a folder that is missing, unreadable or on a
// file system that does not respond never delays or hides the others' apps.
//
// A folder that can be read decides which apps exist. A folder that cannot be read decides nothing:
// its apps keep their last good revision, and their statuses have the reason.

// A FolderStatus is the state of a folder that a watch was given.
type FolderStatus struct {
	// Name is the folder's base name. It does not reveal where the folder is.
	Name string
	// Unreadable is the reason why the folder cannot be read; empty if it can.
	Unreadable string
	// Problems are the subfolders that are not served: those that cannot be read, and apps that
	// share another app's name.
	Problems []string
}

// A watchedFolder is a folder that a watch was given. Watch.discoverMu guards it between listings,
// except status, which Watch.folderStatusMu guards.
type watchedFolder struct {
	dir string
	// listed is closed when the running listing ends; nil if none is running.
	listed chan struct{}
	// late reports that the running listing has exceeded maxListTime.
	late bool
	// listing is what the last listing that ended in time found, or its error.
	listing folderListing
	running folderListing
	status  FolderStatus
}

// nameFolder returns a folder's base name.
func nameFolder(dir string) string { return AppName(dir) }

// A foundApp is an app's folder. The folder cannot be read if err is set.
type foundApp struct {
	dir string
	// folder is the watch's folder in which the app was found.
	folder *watchedFolder
	err    error
}

// A folderError is an error with one of the watch's folders, for its apps.
type folderError struct {
	folder string
	err    error
}

// Error names the folder.
func (e *folderError) Error() string {
	return fmt.Sprintf("the folder %s of the server: %s", e.folder, formatFolderError(e.err))
}

var (
	errListTimeout   = fmt.Errorf("it did not respond within %s", maxListTime)
	errListInterrupt = errors.New("listing it panicked, see the log")
)

// listFolders lists all folders at once. A folder that does not respond is unreadable until
// its listing has ended.
func (w *Watch) listFolders() {
	timeout := time.NewTimer(maxListTime)
	defer timeout.Stop()
	for _, f := range w.folders {
		if f.listed != nil {
			continue // a listing is still running
		}
		ended := make(chan struct{})
		f.listed, f.running = ended, folderListing{err: errListInterrupt}
		go func() {
			defer safe.Recover(w.logPanic)
			defer close(ended)
			f.running = w.opts.list(f.dir)
		}()
	}
	for _, f := range w.folders {
		if !f.late {
			select {
			case <-f.listed:
			case <-timeout.C:
				timeout.Reset(0) // the others have had their time as well
			}
		}
		select {
		case <-f.listed:
			f.listing, f.listed, f.late = f.running, nil, false
		default:
			f.listing, f.late = folderListing{err: errListTimeout}, true
		}
	}
}

// resolveApps returns the apps in the last listings by name. For a duplicate name, the first folder
// counts. An app that cannot be read belongs to the folder where it was last found. The caller
// holds discoverMu and mu.
func (w *Watch) resolveApps() map[string]foundApp {
	found := map[string]foundApp{}
	for _, f := range w.folders {
		var problems []string
		claim := func(dir string, err error) {
			name := AppName(dir)
			other, taken := found[name]
			switch {
			case !taken:
				found[name] = foundApp{dir, f, err}
			case other.dir != dir:
				problems = append(problems, fmt.Sprintf("app %s is not served: the folder %s has an app with the same name", filepath.Base(dir), nameFolder(other.folder.dir)))
			}
		}
		for _, a := range w.appsOfFolder(f) {
			if f.listing.err != nil {
				claim(a.foundDir, &folderError{nameFolder(f.dir), f.listing.err})
			} else if err, unknown := f.listing.unknown[a.foundDir]; unknown {
				claim(a.foundDir, errors.New(formatFolderError(err)))
			}
		}
		for _, dir := range f.listing.apps {
			claim(dir, nil)
		}
		for _, dir := range slices.Sorted(maps.Keys(f.listing.unknown)) {
			if _, known := found[AppName(dir)]; !known && appName.MatchString(AppName(dir)) {
				problems = append(problems, fmt.Sprintf("subfolder %s cannot be read: %s", filepath.Base(dir), formatFolderError(f.listing.unknown[dir])))
			}
		}
		w.setFolderStatus(f, problems)
	}
	return found
}

// appsOfFolder returns the known apps that were last found in a folder.
func (w *Watch) appsOfFolder(f *watchedFolder) []*watchedApp {
	var all []*watchedApp
	for _, a := range w.apps {
		if a.folder == f && a.foundDir != "" {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b *watchedApp) int { return strings.Compare(a.name, b.name) })
	return all
}

// setFolderStatus stores a folder's status, logs what has changed, and wakes the readers of
// Reports.
func (w *Watch) setFolderStatus(f *watchedFolder, problems []string) {
	now := FolderStatus{Name: nameFolder(f.dir)}
	if f.listing.err != nil {
		now.Unreadable = formatFolderError(f.listing.err)
	}
	now.Problems = problems
	if over := len(problems) - maxFolderProblems; over > 0 {
		now.Problems = append(slices.Clip(problems[:maxFolderProblems]), fmt.Sprintf("%d more problems", over))
	}
	w.folderStatusMu.Lock()
	before := f.status
	f.status = now
	w.folderStatusMu.Unlock()
	switch {
	case now.Unreadable == before.Unreadable:
	case now.Unreadable != "":
		var apps []string
		for _, a := range w.appsOfFolder(f) {
			apps = append(apps, a.name)
		}
		w.opts.Logger.Error("cannot read folder; its apps keep serving and are not reloaded", "folder", f.dir, "apps", apps, "error", f.listing.err)
	default:
		w.opts.Logger.Info("folder can be read again", "folder", f.dir)
	}
	for _, problem := range now.Problems {
		if !slices.Contains(before.Problems, problem) {
			w.opts.Logger.Error("part of a folder is not served", "folder", f.dir, "problem", problem)
		}
	}
	if now.Unreadable != before.Unreadable || !slices.Equal(now.Problems, before.Problems) {
		w.journal.notifyReaders()
	}
}

// Folders returns the states of the watch's folders, in the order given to NewWatch.
func (w *Watch) Folders() []FolderStatus {
	w.folderStatusMu.RLock()
	defer w.folderStatusMu.RUnlock()
	var all []FolderStatus
	for _, f := range w.folders {
		all = append(all, f.status)
	}
	return all
}
