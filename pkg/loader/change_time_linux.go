package loader

import (
	"io/fs"
	"syscall"
	"time"
)

// changeTime returns when a file's content or attributes were last changed. Unlike the modification
// time, no program can set it.
func changeTime(info fs.FileInfo) time.Time {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(stat.Ctim.Unix())
	}
	return time.Time{}
}
