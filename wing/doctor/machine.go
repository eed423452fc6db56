package doctor

import (
	"fmt"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// The room that a host needs.
const (
	wantedFiles  = 4096
	wantedMemory = 128 << 20
	wantedDisk   = 1 << 30
	neededDisk   = 64 << 20
)

// CheckNotifications checks that changed files are reported at once.
func (r *Report) CheckNotifications(dirs []string) {
	const polled = "serve finds changes by polling, every two seconds"
	before := len(r.Findings)
	w, err := fsnotify.NewWatcher()
	if err != nil {
		r.addWarning("notifications", "the system reports no changed files: "+err.Error(), polled+"; raise fs.inotify.max_user_instances")
		return
	}
	defer w.Close()
	for _, dir := range dirs {
		if err := w.Add(dir); err != nil {
			r.addWarning("notifications", dir+": the system reports no changed files: "+err.Error(), polled+"; raise fs.inotify.max_user_watches")
		}
		if kind := networkFileSystem(dir); kind != "" {
			r.addWarning("notifications", dir+" is on "+kind+", which reports only this machine's changes", polled)
		}
	}
	if len(r.Findings) == before && len(dirs) > 0 {
		r.addOK("notifications", "the system reports changed files")
	}
}

// noLimit is the least number that means no limit in a control group.
const noLimit = 1 << 50

// CheckMachine checks this process's limits. memory is its limit in bytes, and 0 without one.
func (r *Report) CheckMachine(memory int64) {
	switch files, ok := openFiles(); {
	case !ok:
	case files < wantedFiles:
		r.addWarning("files", fmt.Sprintf("this process may open %d files", files), "each connection is one: set LimitNOFILE=65536 in the systemd unit, or ulimit -n 65536")
	default:
		r.addOK("files", "this process may open %d files", files)
	}
	switch {
	case memory == 0 || memory >= noLimit:
	case memory < wantedMemory:
		r.addWarning("memory", fmt.Sprintf("the limit is %d MiB", memory>>20), fmt.Sprintf("an idle host has 70 MiB, and caches sessions: give it at least %d MiB", wantedMemory>>20))
	default:
		r.addOK("memory", "the limit is %d MiB", memory>>20)
	}
}

// CheckDisk checks the room for a database file.
func (r *Report) CheckDisk(file string) {
	dir := filepath.Dir(file)
	switch free, ok := freeDisk(dir); {
	case !ok:
	case free < neededDisk:
		r.addError("disk", fmt.Sprintf("%s has %d MiB of free disk", dir, free>>20), "make room: turns fail when the disk is full, and nothing acknowledged is lost")
	case free < wantedDisk:
		r.addWarning("disk", fmt.Sprintf("%s has %d MiB of free disk", dir, free>>20), "make room, or delete old sessions with agenthost session prune")
	default:
		r.addOK("disk", "%s has %d MiB of free disk", dir, free>>20)
	}
}
