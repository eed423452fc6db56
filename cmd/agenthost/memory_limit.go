package main

import (
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// memoryShare is the share of the cgroup's memory limit for Go's heap and stacks. The rest is for
// SQLite, whose memory is outside the heap, and for the program's code.
const memoryShare = 0.8

// limitMemory sets Go's soft memory limit from the cgroup's, unless the environment sets
// GOMEMLIMIT: the collector then works harder before the kernel ends the process.
func limitMemory(logger *slog.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	total, ok := findCgroupLimit(os.DirFS("/"))
	if !ok {
		return
	}
	limit := int64(float64(total) * memoryShare)
	debug.SetMemoryLimit(limit)
	logger.Info("memory limit set from the cgroup", "limit", limit, "cgroup", total)
}

// collectorPercent lets the heap grow to three times what is live before a collection, not twice. Most
// hosts have a small heap: Go collects it every 4 MB, which is a few hundred turns. With 200 an idle
// host has 61 MB of memory instead of 58 (400 would be 64), and a full one ends at its memory limit.
const collectorPercent = 200

// relaxCollector sets the collector's percentage, unless the environment sets GOGC.
func relaxCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectorPercent)
	}
}

// findCgroupLimit returns the lowest memory limit, in bytes, that the process's cgroup and its
// parents set (cgroup v2).
func findCgroupLimit(root fs.FS) (limit int64, ok bool) {
	group, ok := findCgroup(root)
	if !ok {
		return 0, false
	}
	limit = math.MaxInt64
	for dir := path.Join("sys/fs/cgroup", group); dir != "sys/fs"; dir = path.Dir(dir) {
		text, err := fs.ReadFile(root, path.Join(dir, "memory.max"))
		if err != nil {
			continue // the hierarchy's root has no limit
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil { // not "max"
			limit = min(limit, n)
		}
	}
	return limit, limit < math.MaxInt64
}

// findCgroup returns the path of the process's cgroup below the root that it can see.
func findCgroup(root fs.FS) (group string, ok bool) {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return "", false // not Linux
	}
	for line := range strings.Lines(string(text)) {
		if group, ok = strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return path.Join("/", group), true
		}
	}
	return "", false
}
